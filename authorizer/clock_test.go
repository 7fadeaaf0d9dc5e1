package authorizer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// A month that begins by a suspect clock does not reset the monthly limit. A card's first swipe
// gets a month even then.
func TestNoMonthTurnsWhileTheClockIsSuspect(t *testing.T) {
	var suspect atomic.Bool
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.ClockSuspect = suspect.Load })
	c, fresh := cardOf(60, 1), cardOf(60, 2)
	limited := func(rule *hold.Rule) { rule.MonthCents = 500 }
	r.mint(c, limited)
	r.mint(fresh, limited)
	r.deposit(c.workspace, 10_000)
	r.approved(authorization("a1", c, 500))
	r.clock.advance(31 * 24 * time.Hour)
	suspect.Store(true)
	r.declined(authorization("a2", c, 100), hold.ReasonMonthlyLimitExceeded)
	r.approved(authorization("b1", fresh, 500))
	r.declined(authorization("b2", fresh, 100), hold.ReasonMonthlyLimitExceeded)
	suspect.Store(false)
	r.approved(authorization("a3", c, 500))
	require.Equal(t, money.MonthOf(r.clock.now().UnixMilli()), r.log(c.card.Shard())[4].Spend.Month)
	r.agree()
}

func TestNewestIsTheTimeOfTheLastDecision(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	newest := func() time.Time {
		at, err := r.e.Newest()
		require.NoError(t, err)
		return at.UTC()
	}
	require.True(t, newest().IsZero())
	early, late := cardOf(60, 1), cardOf(61, 1)
	for _, c := range []testCard{late, early} {
		r.mint(c)
		r.deposit(c.workspace, 10_000)
	}
	r.approved(authorization("a1", early, 500))
	r.clock.advance(90 * time.Minute)
	r.approved(authorization("a2", late, 500))
	require.Equal(t, epoch.Add(90*time.Minute), newest())
	r.reopen()
	require.Equal(t, epoch.Add(90*time.Minute), newest())
	for _, c := range []testCard{late, early} {
		require.NoError(t, r.e.MarkRelayed(c.card.Shard(), r.e.Synced(c.card.Shard())))
	}
	require.NoError(t, r.e.Trim(r.clock.now().Add(KeepRelayed+2*time.Hour)))
	require.Empty(t, r.log(late.card.Shard()))
	require.Equal(t, epoch.Add(90*time.Minute), newest(), "the time outlives the entry")
}

// Messages of a shard that arrive at once are decided in any order. The times of their decisions
// are in the order of the log, and so are the ids that have them.
func TestDecisionsOfAShardAreInTheOrderOfTheirTimes(t *testing.T) {
	ticking := newClock()
	r := newRig(t, vfs.NewMem(), func(o *Options) {
		o.Clock = func() time.Time {
			ticking.advance(time.Millisecond)
			now := ticking.now()
			for range rand.IntN(4) {
				runtime.Gosched()
			}
			return now
		}
	})
	cards := make([]testCard, 16)
	for i := range cards {
		cards[i] = cardOf(60, i)
		r.mint(cards[i])
	}
	r.deposit(cards[0].workspace, 1_000_000)
	var asking sync.WaitGroup
	for _, c := range cards {
		asking.Go(func() {
			for i := range 25 {
				r.e.Submit(authorization(fmt.Sprint(c.card, i), c, 1))
			}
		})
	}
	asking.Wait()
	log := r.log(cards[0].card.Shard())
	require.Len(t, log, 25*len(cards))
	for i := 1; i < len(log); i++ {
		require.LessOrEqual(t, log[i-1].At, log[i].At, "entry %d", i)
		require.Equal(t, log[i].At, log[i].After.ID.Time().UnixMilli())
	}
}
