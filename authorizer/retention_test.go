package authorizer

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// holds returns the authorizations in the store.
func (r *rig) holds() (ids []ident.UUID) {
	require.NoError(r.t, r.walk(func(s *Snapshot) error {
		return s.WalkHolds(func(h *hold.Hold) error { ids = append(ids, h.ID); return nil })
	}))
	return ids
}

func TestFinishedAuthorizationsAreDroppedAfterKeepHolds(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(77, 1)
	r.mint(c)
	r.deposit(c.workspace, 100_000)
	cleared := r.approved(authorization("cleared", c, 100)).Authorization
	r.submit(clearing("c1", "cleared", c, 100))
	r.approved(authorization("reversed", c, 100))
	r.submit(reversal("r1", "reversed"))
	r.declined(authorization("declined", c, 99_999), hold.ReasonInsufficientFunds)
	held := r.approved(authorization("held", c, 100)).Authorization // Expire is not called in this test
	r.clock.advance(time.Hour)
	young := r.approved(authorization("young", c, 100)).Authorization
	r.submit(clearing("c2", "young", c, 100))

	r.clock.advance(KeepHolds - time.Hour)
	require.NoError(t, r.e.Trim(r.clock.now()))
	require.Len(t, r.holds(), 5, "none is older than KeepHolds")
	r.clock.advance(time.Millisecond)
	require.NoError(t, r.e.Trim(r.clock.now()))
	require.Equal(t, []ident.UUID{held, young}, r.holds(), "what holds something stays, and what is young")
	r.reopen()
	require.Equal(t, []ident.UUID{held, young}, r.holds())

	late := clearing("c3", "", c, 40)
	late.AuthorizationID = cleared
	forced := r.submit(signed(late))
	require.Equal(t, hold.Posted, forced.Decision)
	require.Equal(t, hold.ReasonForcedPost, forced.Reason)
	require.NotEqual(t, cleared, forced.Authorization)
	back := refund("f1", "", c, 40)
	back.AuthorizationID = cleared
	require.Equal(t, hold.Posted, r.submit(signed(back)).Decision)
	more := authorization("i1", c, 10)
	more.Kind, more.AuthorizationID = hold.Incremental, cleared
	r.declined(signed(more), hold.ReasonAuthorizationNotFound)
	undo := reversal("r2", "")
	undo.AuthorizationID = cleared
	require.Zero(t, r.submit(signed(undo)).Authorization)
	r.agree()
}

// More than one page is dropped, around remaining holds in the middle and at a page's edge.
func TestDroppedPagesLeaveWhatIsHeld(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	var stay []ident.UUID
	for i := range 2*dropAtOnce + 7 {
		id := ident.FromRandom(ident.Slot(1+i%4000), epoch.Add(time.Duration(i)*time.Millisecond), [8]byte{})
		h := hold.Hold{ID: id, Card: id, Workspace: id, Status: hold.StatusCleared, Decision: hold.Approved,
			Reason: hold.ReasonApproved}
		if i == 5 || i == dropAtOnce-1 || i == dropAtOnce || i == 2*dropAtOnce {
			h.Status, h.Held, h.ExpiresAt = hold.StatusHeld, 1, 1
			stay = append(stay, id)
		}
		r.e.store.setLazily(appendIDKey(nil, prefixHold, &id), hold.AppendHold(nil, &h))
	}
	require.NoError(t, r.e.Trim(epoch.Add(KeepHolds+time.Hour)))
	require.Equal(t, stay, r.holds())
}

// A bucket covers ten days and is dropped whole, so an id stays for 30 to 40 days.
func TestBucketsOfNetworkIDsAreDropped(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(78, 1)
	r.mint(c)
	r.deposit(c.workspace, 100_000)
	kept := func() (n int) {
		err := r.e.store.scan(r.e.store.db, []byte{prefixRepeat}, []byte{prefixRepeat + 1},
			func(_, _ []byte) (bool, error) { n++; return false, nil })
		require.NoError(t, err)
		return n
	}
	for day := range 60 {
		r.approved(authorization(fmt.Sprint("a", day), c, 1))
		require.NoError(t, r.e.Trim(r.clock.now()))
		require.GreaterOrEqual(t, kept(), min(day+1, RepeatDays), "day %d", day)
		require.LessOrEqual(t, kept(), RepeatDays+repeatBucketDays, "day %d", day)
		r.clock.advance(24 * time.Hour)
	}
}
