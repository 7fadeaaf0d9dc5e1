package authorizer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func TestLifeOfAnAuthorization(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(77, 1)
	r.mint(c)
	r.deposit(c.workspace, 100_000)

	a := r.approved(authorization("a1", c, 30_000))
	require.Equal(t, money.Cents(30_000), a.Held)
	require.Equal(t, c.workspace.Slot(), a.Authorization.Slot(), "an id is routed by its slot")
	require.Equal(t, Funds{LedgerCents: 100_000, CardCents: -30_000}, r.funds(c.workspace))

	i := r.approved(incremental("i1", "a1", c, 5_000))
	require.Equal(t, a.Authorization, i.Authorization)
	require.Equal(t, money.Cents(35_000), i.Held)

	part := signed(&hold.Message{Kind: hold.Reversal, ID: "r1", AuthorizationID: a.Authorization, Amount: 10_000})
	require.Equal(t, money.Cents(25_000), r.submit(part).Held)

	require.Equal(t, hold.Posted, r.submit(clearing("c1", "a1", c, 20_000)).Decision)
	final := clearing("c2", "a1", c, 1_000)
	final.Final = true
	require.Equal(t, hold.Posted, r.submit(signed(final)).Decision)
	require.Equal(t, money.Cents(-21_000), r.funds(c.workspace).CardCents,
		"what was cleared is gone, the rest came back")

	require.Equal(t, hold.Posted, r.submit(refund("f1", "a1", c, 1_000)).Decision)
	require.Equal(t, money.Cents(-20_000), r.funds(c.workspace).CardCents)
	h := r.hold(a.Authorization)
	require.Equal(t, hold.StatusCleared, h.Status)
	require.Equal(t, money.Cents(1_000), h.Refunded)
	spend, err := r.e.store.readSpend(&scratch{}, &c.card)
	require.NoError(t, err)
	require.Equal(t, hold.Spend{Month: 202611, Cents: 21_000}, spend)
	r.agree()
	r.reopen()
	r.agree()
	require.Equal(t, uint64(6), r.e.Synced(c.card.Shard()))
}

func TestUnknownCardsAndAuthorizations(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(300, 1)
	r.declined(authorization("a1", c, 100), hold.ReasonCardNotFound)
	require.Zero(t, r.e.Backlog(), "a decline without a known card is not stored")

	for _, m := range []*hold.Message{clearing("c1", "", c, 700), refund("f1", "", c, 50)} {
		a := r.submit(m)
		require.Equal(t, hold.StatusOK, a.Status)
		require.Equal(t, hold.Unmatched, a.Decision)
		require.Equal(t, a, r.submit(m), "a repeat of it answers the same")
	}
	system := r.log(ident.SystemSlot.Shard())
	require.Len(t, system, 2)
	require.Equal(t, ident.System, system[0].Workspace)
	require.Equal(t, money.Cents(700), system[0].Posted)

	r.mint(c)
	r.deposit(c.workspace, 1000)
	r.declined(incremental("i1", "never seen", c, 100), hold.ReasonAuthorizationNotFound)
	stranger := cardOf(301, 1)
	r.mint(stranger)
	a := r.approved(authorization("a2", c, 100))
	m := incremental("i2", "", stranger, 100)
	m.AuthorizationID = a.Authorization
	r.declined(signed(m), hold.ReasonAuthorizationNotFound)
	require.Equal(t, hold.Applied, r.submit(signed(&hold.Message{Kind: hold.Reversal, ID: "r9",
		AuthorizationID: ident.Derive(300, epoch, "nobody"), WholeHold: true})).Decision)
	r.agree()
}

func TestRepeatsAnswerTheSame(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(5, 1)
	r.mint(c)
	r.deposit(c.workspace, 10_000)
	first := r.approved(authorization("a1", c, 9_000))
	poor := r.declined(authorization("a2", c, 9_000), hold.ReasonInsufficientFunds)
	// Repeats are per route, so the same id is another message here.
	clear := r.submit(clearing("a1", "a1", c, 9_000))
	require.Equal(t, hold.Posted, clear.Decision)
	r.deposit(c.workspace, 100_000)

	check := func() {
		require.Equal(t, first, r.submit(authorization("a1", c, 9_000)))
		require.Equal(t, poor, r.submit(authorization("a2", c, 9_000)), "judged once, with the funds of then")
		require.Equal(t, clear, r.submit(clearing("a1", "a1", c, 9_000)))
		r.declined(authorization("a1", c, 9_001), hold.ReasonDuplicateMismatch)
		other := r.submit(clearing("a1", "a1", c, 1))
		require.Equal(t, hold.StatusConflict, other.Status)
		require.Equal(t, hold.ReasonDuplicateMismatch, other.Reason)
		require.Len(t, r.log(0), 3)
	}
	check()
	r.reopen()
	check()
	r.clock.advance(29 * 24 * time.Hour)
	require.NoError(t, r.e.Trim(r.clock.now()))
	check()
	r.clock.advance(12 * 24 * time.Hour)
	require.NoError(t, r.e.Trim(r.clock.now()))
	require.NotEqual(t, first.Authorization, r.approved(authorization("a1", c, 9_000)).Authorization,
		"an id is forgotten when its bucket is")
}

func TestConcurrentRepeatsAreOne(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(900, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	for round := range 20 {
		answers := make([]hold.Answer, 64)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i] = r.e.Submit(authorization(fmt.Sprint("a", round), c, 100)) })
		}
		group.Wait()
		for _, a := range answers {
			require.Equal(t, hold.Approved, a.Decision)
			require.Equal(t, answers[0], a)
		}
	}
	require.Len(t, r.log(c.card.Shard()), 20)
	require.Equal(t, money.Cents(-2_000), r.funds(c.workspace).CardCents)
}

func TestNoApprovalExceedsFundsOrLimits(t *testing.T) {
	for _, tiny := range []bool{false, true} {
		t.Run(fmt.Sprint("tiny cache ", tiny), func(t *testing.T) {
			r := newRig(t, vfs.NewMem(), func(o *Options) {
				if tiny {
					o.CacheBytes = 1
				}
			})
			poor, capped := cardOf(40, 1), cardOf(41, 1) // one short of funds, one at its monthly limit
			r.mint(poor)
			r.mint(capped, func(rule *hold.Rule) { rule.MonthCents = 5_000 })
			r.deposit(poor.workspace, 7_777)
			r.deposit(capped.workspace, 1_000_000)
			var group sync.WaitGroup
			var taken [2]atomic.Int64
			for i := range 32 {
				group.Go(func() {
					for j := range 20 {
						for k, c := range []testCard{poor, capped} {
							a := r.e.Submit(authorization(fmt.Sprint(i, "/", j, "/", k), c, 97))
							taken[k].Add(int64(a.Approved))
						}
					}
				})
			}
			group.Wait()
			require.Equal(t, int64(7_777/97*97), taken[0].Load(), "all that the funds allow, and not a cent more")
			require.Equal(t, int64(5_000/97*97), taken[1].Load(), "all that the limit allows, and not a cent more")
			require.Equal(t, -money.Cents(taken[0].Load()), r.funds(poor.workspace).CardCents)
			r.agree()
		})
	}
}

func TestNoApprovalAfterAFreeze(t *testing.T) {
	for _, cacheBytes := range []int64{1, 1 << 20} { // cold and hot: a change may overtake a rule that is being loaded
		r := newRig(t, vfs.NewMem(), func(o *Options) { o.CacheBytes = cacheBytes })
		c := cardOf(1000, 1)
		r.mint(c)
		r.deposit(c.workspace, 1_000_000_000)
		rounds, approvals := 1_000, 0
		for round := range rounds {
			var frozen atomic.Bool
			var group sync.WaitGroup
			for i := range 2 {
				group.Go(func() {
					known := frozen.Load()
					a := r.e.Submit(authorization(fmt.Sprint(round, "/", i), c, 1))
					if known {
						assert.Equal(t, hold.ReasonCardFrozen, a.Reason)
					}
				})
			}
			r.follows(c.card.Shard(), Follow{Rules: []hold.Rule{c.rule(uint64(2*round+2), hold.CardFrozen)}})
			frozen.Store(true)
			r.declined(authorization(fmt.Sprint(round, "/after"), c, 1), hold.ReasonCardFrozen)
			group.Wait()
			r.follows(c.card.Shard(), Follow{Rules: []hold.Rule{
				c.rule(uint64(2*round+3), hold.CardActive), c.rule(uint64(2*round+1), hold.CardFrozen)}})
			if r.submit(authorization(fmt.Sprint(round, "/thawed"), c, 1)).Decision == hold.Approved {
				approvals++
			}
		}
		require.Equal(t, rounds, approvals, "an older version never takes the place of a newer")
		r.agree()
	}
}

func TestTombstone(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(2000, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000)
	a := r.submit(reversal("r1", "late"))
	require.Equal(t, hold.Answer{Status: hold.StatusOK, ID: "r1", Decision: hold.Applied}, a)
	system := r.log(0)
	require.Len(t, system, 1)
	require.True(t, system[0].Tombstone)
	require.Equal(t, ident.System, system[0].Workspace)
	r.reopen()
	r.declined(authorization("late", c, 100), hold.ReasonReversedBeforeArrival)
	r.declined(authorization("late", c, 100), hold.ReasonReversedBeforeArrival)
	require.Equal(t, a, r.submit(reversal("r1", "late")))
	require.Len(t, r.log(c.card.Shard()), 1)

	// An id whose answer has no authorization names none, and its answer must survive the reversal.
	missing := r.declined(incremental("i1", "nothing", c, 1), hold.ReasonAuthorizationNotFound)
	r.submit(reversal("r2", "i1"))
	require.Equal(t, missing, r.submit(incremental("i1", "nothing", c, 1)))
	r.agree()
}

func TestHoldsExpire(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(3000, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000)
	a := r.approved(authorization("a1", c, 400))
	longer := authorization("a2", c, 300)
	longer.HoldExpiresAt = epoch.Add(20 * 24 * time.Hour).UnixMilli()
	b := r.approved(signed(longer))
	moved := r.approved(authorization("a3", c, 100))
	more := incremental("i3", "a3", c, 50)
	more.HoldExpiresAt = epoch.Add(10 * 24 * time.Hour).UnixMilli()
	r.approved(signed(more))

	expire := func(want int, after time.Duration) {
		t.Helper()
		r.clock.ms.Store(epoch.Add(after).UnixMilli())
		n, err := r.e.Expire(r.clock.now())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	held := func(id ident.UUID) money.Cents { return r.hold(id).Held }
	expire(0, 7*24*time.Hour-time.Millisecond)
	expire(2, 7*24*time.Hour) // a1, and the old key of a3's increment
	require.Zero(t, held(a.Authorization))
	require.Equal(t, money.Cents(150), held(moved.Authorization))
	expire(0, 8*24*time.Hour)
	expire(1, 10*24*time.Hour)
	require.Zero(t, held(moved.Authorization))
	require.Equal(t, money.Cents(300), held(b.Authorization))
	r.reopen()
	expire(1, 20*24*time.Hour)
	require.Zero(t, r.funds(c.workspace).CardCents)
	r.agree()
}

func TestBacklogLimits(t *testing.T) {
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.BacklogMax = 10 })
	c := cardOf(123, 1)
	r.mint(c)
	r.deposit(c.workspace, 100_000)
	for i := range 8 {
		r.approved(authorization(fmt.Sprint("a", i), c, 10))
	}
	r.declined(authorization("a8", c, 10), hold.ReasonBacklogFull)
	r.approved(authorization("a7", c, 10)) // a repeat needs no room
	for i := range 2 {
		require.Equal(t, hold.StatusOK, r.submit(clearing(fmt.Sprint("c", i), fmt.Sprint("a", i), c, 10)).Status)
	}
	for _, m := range []*hold.Message{clearing("c3", "a3", c, 10), refund("f1", "a3", c, 10), reversal("r1", "a3")} {
		a := r.submit(m)
		require.Equal(t, hold.StatusFull, a.Status)
		require.Equal(t, hold.ReasonBacklogFull, a.Reason)
	}
	require.Equal(t, int64(10), r.e.Backlog())
	require.Error(t, r.e.MarkRelayed(c.card.Shard(), 11), "what is not durable cannot be relayed")
	require.NoError(t, r.e.MarkRelayed(c.card.Shard(), 9))
	require.Equal(t, int64(1), r.e.Backlog())
	require.Equal(t, hold.StatusOK, r.submit(clearing("c3", "a3", c, 10)).Status)
	r.approved(authorization("a8", c, 10))
	r.reopen()
	require.Equal(t, int64(3), r.e.Backlog(), "counted anew at a start")
}

func TestTrimKeepsWhatIsYoung(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(555, 1)
	shard := c.card.Shard()
	r.mint(c)
	r.deposit(c.workspace, 100_000)
	for i := range 4 {
		r.approved(authorization(fmt.Sprint("a", i), c, 10))
		require.NoError(t, r.e.store.projector.projectAll())
	}
	require.NoError(t, r.e.MarkRelayed(shard, 2))
	r.clock.advance(24 * time.Hour)
	require.NoError(t, r.e.MarkRelayed(shard, 3))
	first := func() uint64 {
		all, err := r.e.ReadLog(shard, 0, 10)
		require.NoError(t, err)
		return all[0].Seq
	}
	trim := func() { require.NoError(t, r.e.Trim(r.clock.now())) }
	r.clock.advance(6*24*time.Hour - time.Hour)
	trim()
	require.Equal(t, uint64(1), first())
	r.clock.advance(2 * time.Hour)
	trim()
	require.Equal(t, uint64(3), first())
	r.clock.advance(24 * time.Hour)
	trim()
	require.Equal(t, uint64(4), first(), "what was not relayed stays for ever")
	require.NoError(t, r.e.MarkRelayed(shard, 4))
	r.clock.advance(8 * 24 * time.Hour)
	trim()
	r.reopen()
	require.Equal(t, uint64(4), r.e.Synced(shard), "the sequence goes on after the whole log is gone")
	require.Equal(t, uint64(4), r.e.Relayed(shard))
	require.Zero(t, r.e.Backlog())
	r.approved(authorization("a9", c, 10))
	require.Equal(t, uint64(5), r.e.Synced(shard))
}

func TestReservations(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	w := workspaceOf(60)
	one, two := ident.Derive(60, epoch, "one"), ident.Derive(60, epoch, "two")
	reserve := func(id ident.UUID, cents money.Cents) bool {
		ok, err := r.e.Reserve(w, id, cents)
		require.NoError(t, err)
		return ok
	}
	require.False(t, reserve(one, 1), "a workspace never seen has nothing")
	r.deposit(w, 1_000)
	require.True(t, reserve(one, 600))
	require.True(t, reserve(one, 600), "the same reservation twice is one")
	require.False(t, reserve(two, 401))
	require.True(t, reserve(two, 400))
	_, err := r.e.Reserve(w, one, 500)
	require.ErrorIs(t, err, ErrReservationMismatch)
	require.Equal(t, Funds{LedgerCents: 1_000, ReservedCents: 1_000}, r.funds(w))
	r.reopen()
	require.NoError(t, r.e.Release(w, two))
	require.NoError(t, r.e.Release(w, two))
	r.follows(w.Shard(), Follow{
		Credits: []Credit{{Workspace: w, Cents: -600, Settles: one}, {Workspace: w, Cents: 0, Settles: one}},
		Settles: []Settle{{Workspace: w, Reservation: one}},
	})
	require.Equal(t, Funds{LedgerCents: 400}, r.funds(w))
	require.NoError(t, r.e.WalkReservations(func(_, id ident.UUID, _ money.Cents) error {
		return fmt.Errorf("%x is still there", id)
	}))
	require.NoError(t, r.e.Follow(w.Shard(), Follow{Through: r.follow[w.Shard()],
		Credits: []Credit{{Workspace: w, Cents: 5}}}))
	require.Equal(t, Funds{LedgerCents: 400}, r.funds(w), "a position is followed once")
	require.ErrorIs(t, r.e.Follow(1, Follow{Through: 99, Credits: []Credit{{Workspace: w}}}), ErrForeignShard)
}

func TestReplayEqualsTheOriginal(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	traffic := newTraffic(r)
	for i := range 300 {
		traffic.step(i)
	}
	r.clock.advance(8 * 24 * time.Hour)
	_, err := r.e.Expire(r.clock.now())
	require.NoError(t, err)

	anew := newRig(t, vfs.NewMem())
	anew.clock = r.clock
	require.NoError(t, anew.e.Close())
	anew.open()
	for i := range ident.Shards {
		shard := ident.Shard(i)
		require.NoError(t, anew.e.Rebuilder().Replay(shard, r.log(shard)))
		require.NoError(t, anew.e.Rebuilder().Replay(shard, r.log(shard)), "again changes nothing")
		require.Equal(t, r.e.Synced(shard), anew.e.Synced(shard))
	}
	traffic.follow(anew) // the journal brings rules and ledgerCents
	require.Equal(t, traffic.walks(r), traffic.walks(anew))
	require.Zero(t, anew.e.Backlog())
	for _, told := range traffic.told {
		require.Equal(t, told.answer, anew.e.Submit(told.message), "%+v", told.message)
	}
	require.Zero(t, anew.e.Backlog(), "none of them was new")
	anew.reopen()
	require.Equal(t, traffic.walks(r), traffic.walks(anew))
}

// The rest of an increment survives a rebuild, and an increment that its reversal overtook leaves
// the same hold as a reversed one.
func TestReversalOfAnIncrementLeavesTheRestOfTheHold(t *testing.T) {
	r, c := newRig(t, vfs.NewMem()), cardOf(3, 0)
	r.mint(c)
	r.deposit(c.workspace, 50_000)
	r.approved(authorization("a", c, 1000))
	r.submit(reversal("early", "overtaken"))
	r.declined(incremental("overtaken", "a", c, 500), hold.ReasonReversedBeforeArrival)
	r.declined(incremental("big", "a", c, 90_000), hold.ReasonInsufficientFunds)
	require.EqualValues(t, 1000, r.submit(reversal("of big", "big")).Held)
	r.approved(incremental("i", "a", c, 500))
	part := reversal("part", "i")
	part.WholeHold, part.Amount = false, 300
	require.EqualValues(t, 1200, r.submit(signed(part)).Held)

	anew := newRig(t, vfs.NewMem())
	for i := range ident.Shards {
		require.NoError(t, anew.e.Rebuilder().Replay(ident.Shard(i), r.log(ident.Shard(i))))
	}
	for _, of := range []*rig{r, anew} {
		require.EqualValues(t, 1200, of.submit(part).Held, "a repeat undoes nothing")
		require.EqualValues(t, 1000, of.submit(reversal("rest", "i")).Held)
		require.EqualValues(t, 1000, of.submit(reversal("nothing", "i")).Held)
	}
}

func TestStoreOfAnotherFormatIsRefused(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	db := r.e.store.db
	stamp, closer, err := db.Get(keyStamp())
	require.NoError(t, err)
	other := slices.Clone(stamp)
	require.NoError(t, closer.Close())
	other[3] = formatNumber - 1
	require.NoError(t, db.Set(keyStamp(), other, pebble.NoSync))
	require.NoError(t, db.Flush())
	require.NoError(t, r.e.Close())
	_, err = Open(r.options())
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "its format is 3, this program reads 4: after a clean stop")
	r.e = nil
}

func TestStoreOfAnotherDeploymentIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	require.False(t, Exists(fs, "store"))
	r := newRig(t, fs)
	require.True(t, Exists(fs, "store"))
	_, err := Open(r.options())
	require.ErrorIs(t, err, ErrInUse)
	uuid := r.e.store.uuid
	r.reopen()
	require.Equal(t, uuid, r.e.store.uuid)
	require.NoError(t, r.e.Close())
	_, err = Open(r.options(func(o *Options) { o.Deployment = workspaceOf(9) }))
	require.ErrorIs(t, err, ErrForeign)
	r.open()
	_, err = Open(Options{})
	require.ErrorContains(t, err, "no directory")
	require.ErrorContains(t, err, "nobody to tell")
}

// TestOnSyncedIsCalledOnceAnEntryIsDurable: the function of the last call of OnSynced, and no
// earlier one, sees each entry in Synced and in the log.
func TestOnSyncedIsCalledOnceAnEntryIsDurable(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(88, 1)
	r.mint(c)
	r.deposit(c.workspace, 100)
	shard := c.card.Shard()
	var seen []uint64
	r.e.OnSynced(func(ident.Shard) { panic("BUG: replaced") })
	r.e.OnSynced(func(of ident.Shard) {
		require.Equal(t, shard, of)
		entries, err := r.e.ReadLog(of, r.e.Synced(of)-1, 1)
		require.NoError(t, err)
		seen = append(seen, entries[0].Seq)
	})
	r.approved(authorization("a1", c, 1))
	r.approved(authorization("a2", c, 1))
	require.Equal(t, []uint64{1, 2}, seen)
}

func TestUnreadableFailsClosed(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c, broken := cardOf(70, 1), cardOf(71, 1)
	r.mint(c)
	r.deposit(c.workspace, 100)
	r.e.store.setLazily(appendRuleKey(nil, &broken.token), []byte("?"))
	r.declined(authorization("a1", broken, 1), hold.ReasonSystemUnavailable)
	require.Equal(t, hold.StatusFull, r.submit(clearing("c1", "", broken, 1)).Status)
	r.approved(authorization("a2", c, 1))
}

func TestCacheStaysWithinItsLimit(t *testing.T) {
	const limit = 256 * 1024
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.CacheBytes = limit })
	const slot = 640
	for n := range 50 {
		r.mint(cardOf(slot, n), func(rule *hold.Rule) { rule.MonthCents = 3 })
	}
	r.deposit(workspaceOf(slot), 1_000)
	for i := range 5 {
		for n := range 50 {
			m := authorization(fmt.Sprint(i, "/", n), cardOf(slot, n), 1)
			if i < 3 {
				r.approved(m)
			} else {
				r.declined(m, hold.ReasonMonthlyLimitExceeded)
			}
			s := r.e.CacheStats()
			require.LessOrEqual(t, s.Bytes, s.LimitBytes/ident.Shards)
			require.LessOrEqual(t, s.LimitBytes, int64(limit))
		}
	}
	s := r.e.CacheStats()
	require.Positive(t, s.Evictions)
	require.Positive(t, s.Hits)
	require.Positive(t, s.Misses)
	require.Equal(t, money.Cents(-150), r.funds(workspaceOf(slot)).CardCents)
	r.agree()
}

// counting is a listener that counts.
type counting struct {
	silent
	mu       sync.Mutex
	decided  map[hold.Reason]int
	repeated int
	synced   int
	expired  int
	staged   int
}

func (c *counting) Staged(hold.Kind, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staged++
}

func (c *counting) Decided(_ hold.Kind, _ hold.Decision, why hold.Reason, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decided[why]++
}

func (c *counting) Repeated(hold.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repeated++
}

func (c *counting) Synced(ident.Shard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced++
}

func (c *counting) Expired(n int) { c.expired += n }

func TestListenerIsCalledForEveryEvent(t *testing.T) {
	heard := &counting{decided: make(map[hold.Reason]int)}
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.Listener = heard })
	c := cardOf(9, 1)
	r.mint(c)
	r.deposit(c.workspace, 100)
	r.approved(authorization("a1", c, 100))
	r.approved(authorization("a1", c, 100))
	r.declined(authorization("a2", c, 100), hold.ReasonInsufficientFunds)
	r.declined(authorization("a3", cardOf(9, 2), 100), hold.ReasonCardNotFound)
	_, err := r.e.Expire(epoch.Add(8 * 24 * time.Hour))
	require.NoError(t, err)
	require.NoError(t, r.e.Close()) // an answer may precede the call of its decider's listener
	r.e = nil
	heard.mu.Lock()
	defer heard.mu.Unlock()
	require.Equal(t, map[hold.Reason]int{
		hold.ReasonApproved: 2, hold.ReasonInsufficientFunds: 1, hold.ReasonCardNotFound: 1}, heard.decided)
	require.Equal(t, 1, heard.repeated)
	require.Equal(t, 4, heard.staged)
	require.Equal(t, 3, heard.synced)
	require.Equal(t, 1, heard.expired)
}

func TestReplayRefusesAGap(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(14, 1)
	entries := []hold.Entry{{Seq: 1, WsSeq: 1, Shard: c.card.Shard(), Workspace: c.workspace, Kind: hold.Expiry},
		{Seq: 3, WsSeq: 3, Shard: c.card.Shard(), Workspace: c.workspace, Kind: hold.Expiry}}
	require.ErrorIs(t, r.e.Rebuilder().Replay(c.card.Shard(), entries), ErrGap)
	require.ErrorIs(t, r.e.Rebuilder().Replay(c.card.Shard()+1, entries), ErrForeignShard)
}
