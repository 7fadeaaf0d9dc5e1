package actors_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/money"
)

var errConnectionLost = errors.New("connection lost")

// lossyBank is a bank behind a connection that loses answers to orders, orders, or answers to
// inquiries.
type lossyBank struct {
	partner.Bank
	answersLost, ordersLost, silent atomic.Bool
}

func (b *lossyBank) Pay(ctx context.Context, p partner.Payment) error {
	if b.ordersLost.Load() {
		return errConnectionLost
	}
	err := b.Bank.Pay(ctx, p)
	if b.answersLost.Load() {
		return errConnectionLost
	}
	return err
}

func (b *lossyBank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	if b.silent.Load() {
		return "", errConnectionLost
	}
	return b.Bank.Standing(ctx, reference)
}

func newLossyBankStack(t *testing.T) (*bankStack, *lossyBank) {
	far := &lossyBank{}
	return newBankStackWith(t, vfs.NewMem(), func(b *sandbox.Bank) partner.Bank {
		far.Bank = b
		return far
	}), far
}

// awaitLapseInquiries turns the clock by LapseAfter and then by LapseAskEvery, and waits for an
// inquiry after each turn. The second inquiry starts after the first is fully handled.
func (w *bankStack) awaitLapseInquiries(id string) {
	w.t.Helper()
	for _, by := range []time.Duration{balance.LapseAfter, balance.LapseAskEvery} {
		before := w.inquiryCount(id)
		w.clock.turn(by)
		require.Eventually(w.t, func() bool { return w.inquiryCount(id) > before }, eventuallyWithin, pollEvery)
	}
}

func (w *bankStack) inquiryCount(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answeredInquiries[id]
}

// TestAPayoutThatTheBankHasIsNotReleasedByTime has the bank take a payout, acknowledged or not, and
// report it days later. Its dollars stay reserved until then, and the late settlement does not
// overdraw the balance.
func TestAPayoutThatTheBankHasIsNotReleasedByTime(t *testing.T) {
	for status, answersLost := range map[string]bool{balance.PayoutSubmitted: false, balance.PayoutUnknown: true} {
		t.Run(status, func(t *testing.T) {
			w, far := newLossyBankStack(t)
			defer w.stopAndCloseBank()
			far.answersLost.Store(answersLost)
			ws := w.newWorkspace(77)
			const cents = 100_000 + sandbox.EndingUnreported
			w.deposit(ws, cents)
			recipient := w.newRecipient(ws, "Ada")
			order := w.newPayout(ws, recipient, cents)
			w.mustAsk("balance", ws, ws, order)
			w.awaitStatus(order.ID, status)
			if answersLost { // an inquiry follows at once
				require.Eventually(t, func() bool { return w.inquiryCount(order.ID) == 2 }, eventuallyWithin, pollEvery)
			}
			w.awaitLapseInquiries(order.ID)
			p, _ := w.readPayout(order.ID)
			require.Equal(t, status, p.Status)
			_, err := w.ask("balance", ws, ws, w.newPayout(ws, recipient, 1), nil)
			require.True(t, fault.Is(err, fault.InsufficientFunds), "%v", err)

			w.clock.turn(10 * 24 * time.Hour)
			w.awaitOverdue(1)
			overdue, err := w.system.ListOverdue(t.Context())
			require.NoError(t, err)
			require.Len(t, overdue, 1)
			require.Equal(t, []string{order.ID, ws, status},
				[]string{overdue[0].ID, overdue[0].Workspace, overdue[0].Status})
			w.mustAsk("balance", ws, ws, balance.ReportPayout{EventID: "b1", ID: order.ID,
				Outcome: balance.PayoutSettled})
			w.clock.turn(3 * balance.LapseAskEvery)
			w.awaitOverdue(0)
			require.Zero(t, w.spendableCents(ws))
			require.Zero(t, w.settledBalance(ws).Balances[0].HeldCents)
			w.requireCleanAudit()
		})
	}
}

func (w *bankStack) awaitOverdue(n int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.system.OverdueCount() == n }, eventuallyWithin, pollEvery)
}

// TestABankThatCannotBeAskedReleasesNothing loses an order on its way to a bank that then answers
// no inquiry. The dollars are released once the bank answers that it has no such order.
func TestABankThatCannotBeAskedReleasesNothing(t *testing.T) {
	w, far := newLossyBankStack(t)
	defer w.stopAndCloseBank()
	far.ordersLost.Store(true)
	far.silent.Store(true)
	ws := w.newWorkspace(77)
	w.deposit(ws, 1_000)
	order := w.newPayout(ws, w.newRecipient(ws, "Ada"), 400)
	w.mustAsk("balance", ws, ws, order)
	w.awaitStatus(order.ID, balance.PayoutUnknown)
	require.Eventually(t, func() bool { return w.inquiryCount(order.ID) == 2 }, eventuallyWithin, pollEvery)
	w.awaitLapseInquiries(order.ID)
	p, _ := w.readPayout(order.ID)
	require.Equal(t, balance.PayoutUnknown, p.Status)
	require.Equal(t, money.Cents(600), w.spendableCents(ws))
	far.silent.Store(false)
	w.clock.turn(balance.LapseAskEvery)
	w.awaitStatus(order.ID, balance.PayoutReleased)
	require.Equal(t, money.Cents(1_000), w.spendableCents(ws))
	w.requireCleanAudit()
}
