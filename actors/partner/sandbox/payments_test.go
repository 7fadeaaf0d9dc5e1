package sandbox_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// payout registers an account and returns an order to pay to it.
func payout(t *testing.T, b partner.Bank, n int, cents money.Cents) partner.Payment {
	t.Helper()
	token, err := b.Tokenize(t.Context(), partner.Account{Reference: "rcp_1", Name: "Ada", AccountNumber: "123456789"})
	require.NoError(t, err)
	id := ident.Derive(7, time.UnixMilli(1_700_000_000_000), "payout"+strconv.Itoa(n)).Format(ident.Payout)
	return partner.Payment{Reference: id, Account: token, Rail: "ach", AmountMinor: cents.Minor(), Description: "rent"}
}

// outcomes advances the clock by one delay at a time, and returns the times of the reports.
func outcomes(t *testing.T, d *reportServer, b stepper) map[string]time.Duration {
	t.Helper()
	began, out := d.clock(), map[string]time.Duration{}
	for d.clock().Sub(began) < 30*time.Hour {
		before := len(d.receivedReports())
		runSteps(t, b)
		for _, r := range d.receivedReports()[before:] {
			out[r.Type] = d.clock().Sub(began)
		}
		step := delay
		if d.clock().Sub(began) > time.Minute {
			step = time.Hour
		}
		d.advance(step)
	}
	return out
}

func TestOutcomesOfAPaymentByItsEnding(t *testing.T) {
	for ending, want := range map[int64]struct {
		reports  map[string]time.Duration
		count    int
		standing partner.Standing
	}{
		0:                   {map[string]time.Duration{"payout.settled": delay}, 1, partner.Settled},
		sandbox.EndingTwice: {map[string]time.Duration{"payout.settled": delay}, 2, partner.Settled},
		sandbox.EndingLate:  {map[string]time.Duration{"payout.settled": 10 * delay}, 1, partner.Settled},
		sandbox.EndingFails: {map[string]time.Duration{"payout.failed": delay}, 1, partner.Failed},
		sandbox.EndingReturned: {map[string]time.Duration{"payout.settled": delay, "payout.returned": 2 * delay}, 2,
			partner.Returned},
		sandbox.EndingUnreported:  {map[string]time.Duration{}, 0, partner.Pending},
		sandbox.EndingAnswersLost: {map[string]time.Duration{"payout.settled": delay}, 1, partner.Settled},
	} {
		d := newReportServer()
		b := d.openBank(t, vfs.NewMem())
		p := payout(t, b, 1, 5000+money.Cents(ending))
		err := b.Pay(t.Context(), p)
		require.Equal(t, ending == sandbox.EndingAnswersLost, err != nil, ending)
		standing, err := b.Standing(t.Context(), p.Reference)
		require.NoError(t, err)
		require.Equal(t, partner.Pending, standing)
		require.Equal(t, want.reports, outcomes(t, d, b), ending)
		require.Len(t, d.receivedReports(), want.count, ending)
		standing, err = b.Standing(t.Context(), p.Reference)
		require.NoError(t, err)
		require.Equal(t, want.standing, standing, ending)
		require.NoError(t, b.Close())
	}
}

func TestASilentBankHasTakenTheOrder(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	never, lapsed := payout(t, b, 1, sandbox.EndingNever), payout(t, b, 2, sandbox.EndingAfterLapse)
	require.ErrorIs(t, b.Pay(t.Context(), never), partner.ErrSilent)
	require.ErrorIs(t, b.Pay(t.Context(), lapsed), partner.ErrSilent)
	_, err := b.Standing(t.Context(), never.Reference)
	require.ErrorIs(t, err, partner.ErrSilent)
	reports := outcomes(t, d, b)
	require.Len(t, reports, 1)
	require.Greater(t, reports["payout.settled"], 24*time.Hour)
	for _, p := range []partner.Payment{never, lapsed} {
		orders, err := b.Paid(p.Reference)
		require.NoError(t, err)
		require.Equal(t, 1, orders)
	}
}

func TestTheBankRefusesInvalidOrders(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	_, err := b.Tokenize(t.Context(), partner.Account{Reference: "rcp_2", Name: sandbox.NameRefused})
	require.ErrorIs(t, err, partner.ErrRefused)
	_, err = b.Tokenize(t.Context(), partner.Account{Reference: "rcp_2", Name: sandbox.NameSilent})
	require.Error(t, err)
	require.NotErrorIs(t, err, partner.ErrRefused)

	refused := payout(t, b, 1, sandbox.EndingRefused)
	require.ErrorIs(t, b.Pay(t.Context(), refused), partner.ErrRefused)
	stranger := payout(t, b, 1, 1)
	stranger.Account = "bat_unknown"
	require.ErrorIs(t, b.Pay(t.Context(), stranger), partner.ErrRefused)
	require.ErrorIs(t, b.Pay(t.Context(), partner.Payment{Reference: "7"}), partner.ErrRefused)
	_, err = b.Standing(t.Context(), refused.Reference)
	require.ErrorIs(t, err, partner.ErrUnknown)
}

func TestTheBankCountsRepeatedOrdersOfOnePayment(t *testing.T) {
	d, fs := newReportServer(), vfs.NewMem()
	b := d.openBank(t, fs)
	p := payout(t, b, 1, 100)
	require.NoError(t, b.Pay(t.Context(), p))
	require.NoError(t, b.Pay(t.Context(), p))
	require.NoError(t, b.Close())
	b = d.openBank(t, fs) // the count survives a restart
	defer b.Close()
	orders, err := b.Paid(p.Reference)
	require.NoError(t, err)
	require.Equal(t, 2, orders)
	orders, err = b.Paid("po_other")
	require.NoError(t, err)
	require.Zero(t, orders)
}

func TestAReturnWaitsUntilTheSettlementIsTaken(t *testing.T) {
	d := newReportServer()
	b := d.openBank(t, vfs.NewMem())
	defer b.Close()
	require.NoError(t, b.Pay(t.Context(), payout(t, b, 1, sandbox.EndingReturned)))
	d.setAnswer(http.StatusServiceUnavailable, nil)
	d.advance(delay)
	runSteps(t, b)
	d.advance(delay)
	d.setAnswer(http.StatusOK, nil)
	runSteps(t, b)
	reports := d.receivedReports()
	require.Equal(t, "payout.settled", reports[len(reports)-1].Type)
}

func TestFirmRatesOfTheDesk(t *testing.T) {
	var desk sandbox.Desk
	mid, err := desk.MidRates(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0.9153", mid["EUR"])
	firm, err := desk.FirmRate(t.Context(), "EUR")
	require.NoError(t, err)
	require.Equal(t, "0.910724", firm, "0.9153 less half a percent, 0.9107235 to the even digit")
	for currency := range mid {
		_, err := desk.FirmRate(t.Context(), currency)
		require.NoError(t, err, currency)
	}
	_, err = desk.FirmRate(t.Context(), "USD")
	require.ErrorIs(t, err, partner.ErrRefused)
}
