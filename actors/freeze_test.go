package actors_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/card"
	"purser/authorizer/hold"
)

// A freeze is a freeze: many times a card is frozen under fire, and no swipe that begins after the answer is approved. The
// same with a limit that is lowered.
func TestNoApprovalAfterAFreezeHasAnswered(t *testing.T) { onEachJournal(t, freezeUnderFire) }

func freezeUnderFire(t *testing.T, database string) {
	const swipers, mostSwipes = 4, 100 // of a swiper before the answer
	rounds := 1000
	switch {
	case database != "":
		rounds = 50
	case testing.Short():
		rounds = 100
	}
	w := newWorld(t, vfs.NewMem(), worldOptions{database: database, patient: database != ""})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 1_000_000_000)
	c := w.mint(ws, 900_000_000, 1_000)
	var approved atomic.Int64
	for round := range rounds {
		answered := make(chan struct{})
		var wg sync.WaitGroup
		for s := range swipers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i, last := 0, false; !last; i++ {
					if i == mostSwipes {
						<-answered
					}
					select {
					case <-answered:
						last = true // this swipe begins after the answer
					default:
					}
					a := w.submit(message(hold.Authorization, fmt.Sprintf("f%d-%d-%d", round, s, i), c, 10))
					if a.Decision == hold.Approved {
						approved.Add(1)
						if last {
							t.Errorf("round %d: approved after the change had answered", round)
						}
					}
				}
			}()
		}
		w.protect(c, round)
		close(answered)
		wg.Wait()
		w.relax(c)
	}
	require.Positive(t, approved.Load(), "no swipe ever raced the freeze")
	t.Logf("%d rounds, %d swipes approved before their freeze", rounds, approved.Load())
	w.requireClean()
}

// protect freezes the card in even rounds and lowers its limit in odd ones.
func (w *world) protect(c plastic, round int) {
	if round%2 == 0 {
		require.NoError(w.t, w.setState(c, card.StateFrozen))
		return
	}
	limit := int64(9)
	w.must("card", c.id, c.ws, card.Update{PerTxnLimitUsdCents: &limit})
}

func (w *world) relax(c plastic) {
	limit, state := int64(1_000), card.StateActive
	w.must("card", c.id, c.ws, card.Update{PerTxnLimitUsdCents: &limit, State: &state})
}

// 32 clients swipe one card dry: not a cent over the funds, and not a cent left that fits. Nothing comes in, so that whoever is
// declined once has nothing more to get.
func TestOneCardSwipedByManyStaysWithinItsFunds(t *testing.T) { onEachJournal(t, swipeDry) }

func swipeDry(t *testing.T, database string) {
	const smallest, declines = 90, 20 // of each client
	w := newWorld(t, vfs.NewMem(), worldOptions{database: database, patient: database != ""})
	defer w.stop()
	ws := w.newWorkspace(10)
	w.deposit(ws, 100_000)
	c := w.mint(ws, 1_000_000, 1_000)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for client := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i, declined := 0, 0; declined < declines; i++ {
				a := w.submit(message(hold.Authorization, fmt.Sprintf("d%d-%d", client, i), c, int64(smallest+client)))
				taken.Add(a.Approved)
				if a.Decision == hold.Declined {
					declined++
				}
			}
		}()
	}
	wg.Wait()
	require.Equal(t, 100_000-taken.Load(), w.available(ws))
	require.GreaterOrEqual(t, w.available(ws), int64(0))
	require.Less(t, w.available(ws), int64(smallest))
	require.Equal(t, taken.Load(), w.balance(ws).Balances[0].HeldCents)
	w.requireClean()
}
