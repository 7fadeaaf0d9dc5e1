package authorizer

import (
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// anewRig is a stopped engine whose tenant has 700 of 1000 ledger cents: 200 are held and 100
// reserved. All entries are relayed.
func anewRig(t *testing.T, fs vfs.FS) (r *rig, c testCard) {
	r = newRig(t, fs)
	c = cardOf(300, 1)
	r.mint(c)
	r.deposit(c.workspace, 1000)
	r.approved(authorization("a", c, 150))
	r.approved(authorization("b", c, 50))
	ok, err := r.e.Reserve(c.workspace, ident.Derive(300, epoch, "r"), 100)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, r.e.MarkRelayed(c.card.Shard(), 2))
	require.NoError(t, r.e.Close())
	r.e = nil
	return r, c
}

// requireAnew opens the store and checks the data that FollowAnew keeps and drops.
func requireAnew(t *testing.T, r *rig, c testCard, relayed uint64) {
	shard := c.card.Shard()
	require.Equal(t, Funds{CardCents: -200}, r.funds(c.workspace))
	require.Zero(t, r.e.Followed(shard))
	require.Len(t, r.log(shard), 2)
	require.Equal(t, relayed, r.e.Relayed(shard))
	require.EqualValues(t, 2, r.e.Synced(shard))
	require.EqualValues(t, 2-relayed, r.e.Backlog())
	require.NoError(t, r.e.WalkReservations(func(_, _ ident.UUID,
		_ money.Cents) error {
		t.Error("a reservation")
		return nil
	}))
	r.declined(authorization("c", c, 1), hold.ReasonCardNotFound)
	r.approved(authorization("a", c, 150)) // a repeat gets its first answer
	r.follow = map[ident.Shard]uint64{}
	r.mint(c)
	r.deposit(c.workspace, 1000)
	require.Equal(t, Funds{LedgerCents: 1000, CardCents: -200}, r.funds(c.workspace))
	r.approved(authorization("d", c, 800))
	r.declined(authorization("e", c, 1), hold.ReasonInsufficientFunds)
}

func TestFollowAnewForgetsWhatIsFollowed(t *testing.T) {
	r, c := anewRig(t, vfs.NewMem())
	var told [ident.Shards]uint64
	told[c.card.Shard()] = 1
	require.NoError(t, FollowAnew(r.options(), told))
	r.clock.advance(2 * KeepRelayed)
	r.open()
	require.NoError(t, r.e.Trim(r.clock.now()))
	log := r.log(c.card.Shard())
	require.EqualValues(t, 2, log[len(log)-1].Seq, "what the journal has not been told stays, however old")
	require.EqualValues(t, 1, r.e.Relayed(c.card.Shard()))
}

func TestFollowAnewKeepsTheLog(t *testing.T) {
	for _, relayed := range []uint64{0, 1, 2} {
		r, c := anewRig(t, vfs.NewMem())
		var told [ident.Shards]uint64
		told[c.card.Shard()] = relayed
		require.NoError(t, FollowAnew(r.options(), told))
		r.open()
		requireAnew(t, r, c, relayed)
	}
}

// A journal that the log does not reach is refused, and the store does not change.
func TestFollowAnewRefusesAHole(t *testing.T) {
	r, c := anewRig(t, vfs.NewMem())
	shard := c.card.Shard()
	var told [ident.Shards]uint64
	told[shard] = 3
	require.ErrorIs(t, FollowAnew(r.options(), told), ErrLogBehind)
	r.open()
	r.clock.advance(KeepRelayed + 2*time.Hour)
	require.NoError(t, r.e.Trim(r.clock.now()))
	require.Empty(t, r.log(shard))
	require.NoError(t, r.e.Close())
	told[shard] = 1
	require.ErrorContains(t, FollowAnew(r.options(), told),
		"decisions up to 1, of those after it the log has none before 3")
	require.ErrorIs(t, FollowAnew(r.options(), told), ErrHole)
	told[shard] = 2
	r.open()
	require.Equal(t, before, r.funds(c.workspace))
	require.NoError(t, r.e.Close())
	require.NoError(t, FollowAnew(r.options(), told), "the journal has all of it")
	r.open()
	require.EqualValues(t, 2, r.e.Synced(shard), "the numbers go on")
}

// The machine loses power at every write. The store is then unchanged, refused until a second call,
// or complete.
func TestFollowAnewIsInterrupted(t *testing.T) {
	disk := vfs.NewCrashableMem()
	r, c := anewRig(t, disk)
	var told [ident.Shards]uint64
	told[c.card.Shard()] = 1
	var mu sync.Mutex // logs are written and old files removed concurrently
	var clones []*vfs.MemFS
	crashing := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	require.NoError(t, FollowAnew(r.options(func(o *Options) { o.FS = errorfs.Wrap(disk, crashing) }), told))
	seen := map[string]int{}
	for _, fs := range append(clones, disk.CrashClone(vfs.CrashCloneCfg{})) {
		r.fs = fs
		e, err := Open(r.options())
		if err == nil {
			funds, _ := e.Funds(c.workspace)
			require.Contains(t, []Funds{before, {CardCents: -200}}, funds)
			seen[map[bool]string{true: "as it was", false: "anew"}[funds == before]]++
			require.NoError(t, e.Close())
		} else {
			require.ErrorIs(t, err, ErrHalfAnew)
			seen["refused"]++
		}
		require.NoError(t, FollowAnew(r.options(), told))
		r.open()
		requireAnew(t, r, c, 1)
		require.NoError(t, r.e.Close())
	}
	r.e = nil
	require.Len(t, seen, 3, "%v", seen)
}

// before are the funds of anewRig.
var before = Funds{LedgerCents: 1000, CardCents: -200, ReservedCents: 100}

// A checkpoint of a running engine is a store that gives the engine's answers.
func TestCheckpoint(t *testing.T) {
	r, c := anewRig(t, vfs.NewMem())
	r.open()
	require.NoError(t, r.e.Checkpoint("copy"))
	r.approved(authorization("after", c, 1))
	require.NoError(t, r.e.Close())
	r.open(func(o *Options) { o.Dir = "copy" })
	require.Equal(t, before, r.funds(c.workspace))
	require.Len(t, r.log(c.card.Shard()), 2)
	require.NoError(t, r.e.Close())
	r.e = nil
}
