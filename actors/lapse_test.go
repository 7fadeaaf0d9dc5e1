package actors_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

var errLine = errors.New("the line is cut")

// farBank is a bank behind a line. The answer to an order, the order itself, or the answer to an
// inquiry is lost on it.
type farBank struct {
	partner.Bank
	answersLost, ordersLost, silent atomic.Bool
}

func (b *farBank) Pay(ctx context.Context, p partner.Payment) error {
	if b.ordersLost.Load() {
		return errLine
	}
	err := b.Bank.Pay(ctx, p)
	if b.answersLost.Load() {
		return errLine
	}
	return err
}

func (b *farBank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	if b.silent.Load() {
		return "", errLine
	}
	return b.Bank.Standing(ctx, reference)
}

func newFarTreasury(t *testing.T) (*treasury, *farBank) {
	far := &farBank{}
	return newTreasuryAt(t, vfs.NewMem(), func(b *sandbox.Bank) partner.Bank {
		far.Bank = b
		return far
	}), far
}

// askedAtLapses turns the clock by LapseAfter and by LapseAskEvery. It waits for an inquiry after
// each turn: the second begins when all has followed that follows from the first.
func (w *treasury) askedAtLapses(id string) {
	w.t.Helper()
	for _, by := range []time.Duration{balance.LapseAfter, balance.LapseAskEvery} {
		before := w.inquiries(id)
		w.clock.turn(by)
		require.Eventually(w.t, func() bool { return w.inquiries(id) > before }, comesWithin, lookEvery)
	}
}

func (w *treasury) inquiries(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[id]
}

// TestAPayoutThatTheBankHasIsNotReleasedByTime has the bank take a payout, acknowledge it or not,
// and report it only days later. Until then its dollars cannot be spent; the late settlement takes
// none that are not there.
func TestAPayoutThatTheBankHasIsNotReleasedByTime(t *testing.T) {
	for status, answersLost := range map[string]bool{balance.PayoutSubmitted: false, balance.PayoutUnknown: true} {
		t.Run(status, func(t *testing.T) {
			w, far := newFarTreasury(t)
			defer w.close()
			far.answersLost.Store(answersLost)
			ws := w.newWorkspace(77)
			const cents = 100_000 + sandbox.EndingUnreported
			w.deposit(ws, cents)
			recipient := w.recipient(ws, "Ada")
			order := w.order(ws, recipient, cents)
			order.ExpectedOn = w.clock.now().Format(time.DateOnly)
			w.must("balance", ws, ws, order)
			w.await(order.ID, status)
			if answersLost { // the bank is asked at once
				require.Eventually(t, func() bool { return w.inquiries(order.ID) == 2 }, comesWithin, lookEvery)
			}
			w.askedAtLapses(order.ID)
			p, _ := w.payout(order.ID)
			require.Equal(t, status, p.Status)
			_, err := w.ask("balance", ws, ws, w.order(ws, recipient, 1), nil)
			require.True(t, fault.Is(err, fault.InsufficientFunds), "%v", err)

			w.clock.turn(10 * 24 * time.Hour)
			w.awaitOverdue(1)
			overdue, err := w.system.OverdueOrders(t.Context())
			require.NoError(t, err)
			require.Len(t, overdue, 1)
			require.Equal(t, []string{order.ID, ws, status},
				[]string{overdue[0].ID, overdue[0].Workspace, overdue[0].Status})
			w.must("balance", ws, ws, balance.ReportPayout{EventID: "b1", ID: order.ID, Outcome: balance.PayoutSettled})
			w.clock.turn(3 * balance.LapseAskEvery)
			w.awaitOverdue(0)
			require.Zero(t, w.spendable(ws))
			require.Zero(t, w.balance(ws).Balances[0].HeldCents)
			w.requireClean()
		})
	}
}

func (w *treasury) awaitOverdue(n int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.system.Health()
		return err == nil && h.Overdue == n
	}, comesWithin, lookEvery)
}

// TestAPayoutWithoutAnExpectedDayIsListed has a payout as an earlier version made it. It is listed
// from the first inquiry on, without a day, and hides no other.
func TestAPayoutWithoutAnExpectedDayIsListed(t *testing.T) {
	w, _ := newFarTreasury(t)
	defer w.close()
	ws := w.newWorkspace(77)
	const cents = 1_000 + sandbox.EndingUnreported
	w.deposit(ws, 2*cents)
	recipient := w.recipient(ws, "Ada")
	expected := w.order(ws, recipient, cents)
	expected.ExpectedOn = w.clock.now().Format(time.DateOnly)
	for _, order := range []balance.CreatePayout{w.order(ws, recipient, cents), expected} {
		w.must("balance", ws, ws, order)
		w.await(order.ID, balance.PayoutSubmitted)
	}
	listed := func() map[bool]actors.OverdueOrder {
		overdue, err := w.system.OverdueOrders(t.Context())
		require.NoError(t, err)
		byDay := map[bool]actors.OverdueOrder{}
		for _, o := range overdue {
			byDay[!o.Since.IsZero()] = o
		}
		return byDay
	}
	require.Empty(t, listed())
	w.clock.turn(30 * 24 * time.Hour)
	require.Len(t, listed(), 2)
	require.Equal(t, expected.ID, listed()[true].ID)
	unknown := listed()[false].ID
	require.NoError(t, w.system.ResolveOrder(t.Context(), unknown, false))
	p, _ := w.payout(unknown)
	require.Equal(t, balance.PayoutFailed, p.Status)
	require.Len(t, listed(), 1)
	w.requireClean()
}

// TestABankThatCannotBeAskedReleasesNothing has an order lost on its way to a bank that then
// answers no inquiry. Once the bank says that it does not have the order, the dollars are free.
func TestABankThatCannotBeAskedReleasesNothing(t *testing.T) {
	w, far := newFarTreasury(t)
	defer w.close()
	far.ordersLost.Store(true)
	far.silent.Store(true)
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.order(ws, w.recipient(ws, "Ada"), 400)
	w.must("balance", ws, ws, order)
	w.await(order.ID, balance.PayoutUnknown)
	require.Eventually(t, func() bool { return w.inquiries(order.ID) == 2 }, comesWithin, lookEvery)
	w.askedAtLapses(order.ID)
	p, _ := w.payout(order.ID)
	require.Equal(t, balance.PayoutUnknown, p.Status)
	require.Equal(t, int64(600), w.spendable(ws))
	far.silent.Store(false)
	w.clock.turn(balance.LapseAskEvery)
	w.await(order.ID, balance.PayoutReleased)
	require.Equal(t, int64(1_000), w.spendable(ws))
	w.requireClean()
}
