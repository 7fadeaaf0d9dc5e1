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
	"purser/persistence/money"
)

// TestNoSwipeIsApprovedAfterAFreezeIsAnswered freezes a card, or lowers its limit, while clients
// swipe. No swipe that begins after the answer is approved.
func TestNoSwipeIsApprovedAfterAFreezeIsAnswered(t *testing.T) { onEachJournal(t, freezeDuringSwipes) }

func freezeDuringSwipes(t *testing.T, database string) {
	const swipers, mostSwipes = 4, 100 // per swiper before the answer
	rounds := atFullLength(100, 1000)
	if database != "" {
		rounds = atFullLength(20, 50)
	}
	w := newTestStack(t, vfs.NewMem(), stackOptions{database: database, retryUnavailable: database != ""})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 1_000_000_000)
	c := w.mintCard(ws, 900_000_000, 1_000)
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
					a := w.submit(networkMessage(hold.Authorization, fmt.Sprintf("f%d-%d-%d", round, s, i), c, 10))
					if a.Decision == hold.Approved {
						approved.Add(1)
						if last {
							t.Errorf("round %d: approved after the change had answered", round)
						}
					}
				}
			}()
		}
		w.restrictCard(c, round)
		close(answered)
		wg.Wait()
		w.restoreCard(c)
	}
	require.Positive(t, approved.Load(), "no swipe ever raced the freeze")
	t.Logf("%d rounds, %d swipes approved before their freeze", rounds, approved.Load())
	w.requireCleanAudit()
}

// restrictCard freezes the card in even rounds and lowers its limit in odd ones.
func (w *testStack) restrictCard(c testCard, round int) {
	if round%2 == 0 {
		require.NoError(w.t, w.setCardState(c, card.StateFrozen))
		return
	}
	limit := money.Cents(9)
	w.mustAsk("card", c.id, c.ws, card.Update{PerTxnLimitUsdCents: &limit})
}

func (w *testStack) restoreCard(c testCard) {
	limit, state := money.Cents(1_000), card.StateActive
	w.mustAsk("card", c.id, c.ws, card.Update{PerTxnLimitUsdCents: &limit, State: &state})
}

// TestConcurrentSwipesOfOneCardStayWithinItsFunds has 32 clients swipe one card until its funds are
// used up. The approvals never exceed the funds, and less than the smallest swipe is left. Nothing
// is deposited meanwhile, so a client stops after its declines.
func TestConcurrentSwipesOfOneCardStayWithinItsFunds(t *testing.T) { onEachJournal(t, exhaustCard) }

func exhaustCard(t *testing.T, database string) {
	const smallest, declines = 90, 20 // per client
	w := newTestStack(t, vfs.NewMem(), stackOptions{database: database, retryUnavailable: database != ""})
	defer w.stop()
	ws := w.newWorkspace(10)
	w.deposit(ws, 100_000)
	c := w.mintCard(ws, 1_000_000, 1_000)
	var taken atomic.Int64
	var wg sync.WaitGroup
	for client := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i, declined := 0, 0; declined < declines; i++ {
				a := w.submit(networkMessage(hold.Authorization, fmt.Sprintf("d%d-%d", client, i), c,
					money.Cents(smallest+client)))
				taken.Add(int64(a.Approved))
				if a.Decision == hold.Declined {
					declined++
				}
			}
		}()
	}
	wg.Wait()
	require.Equal(t, 100_000-money.Cents(taken.Load()), w.availableCents(ws))
	require.GreaterOrEqual(t, w.availableCents(ws), money.Cents(0))
	require.Less(t, w.availableCents(ws), money.Cents(smallest))
	require.Equal(t, money.Cents(taken.Load()), w.settledBalance(ws).Balances[0].HeldCents)
	w.requireCleanAudit()
}
