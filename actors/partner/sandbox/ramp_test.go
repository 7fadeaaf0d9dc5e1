package sandbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
	"purser/persistence/money"
)

const rampWorkspace = "ws"

func (d *reportServer) openRamp(t *testing.T, fs vfs.FS) storedRamp {
	t.Helper()
	s := openStore(t, fs)
	return storedRamp{d.rampOf(t, s), s}
}

// storedRamp is a ramp with its store.
type storedRamp struct {
	*sandbox.Ramp
	*sandbox.Store
}

// rampOf returns a ramp with two reporters, one for on-ramps. Each refuses the other's reports.
func (d *reportServer) rampOf(t *testing.T, s *sandbox.Store) *sandbox.Ramp {
	t.Helper()
	door := func(ons bool) sandbox.Reporter {
		return func(ctx context.Context, body []byte) (int, error) {
			var r report
			if err := json.Unmarshal(body, &r); err != nil || strings.HasPrefix(r.Type, "onramp.") != ons {
				return http.StatusNotFound, err
			}
			return d.receiveReport(ctx, body)
		}
	}
	r, err := sandbox.NewRamp(sandbox.Config{Store: s, Delay: delay, Report: door(true),
		Clock: d.clock}, door(false))
	require.NoError(t, err)
	return r
}

var rampWallet = partner.RampWallet{ID: "wal_1", Chain: "base", Address: "0x52908400098527886E0F7030069857D2E4169EE7"}

// linkedRamp is a ramp with a linked workspace and an approved wallet.
func (d *reportServer) linkedRamp(t *testing.T, fs vfs.FS) storedRamp {
	t.Helper()
	r := d.openRamp(t, fs)
	require.NoError(t, r.Link(t.Context(), "ramp_1", rampWorkspace))
	require.NoError(t, r.Approve(t.Context(), rampWallet))
	return r
}

func rampOrder(n int, direction string, cents money.Cents) partner.RampOrder {
	prefix := map[bool]string{true: ident.Withdrawal, false: ident.RampOrder}[direction == "withdraw"]
	id := ident.Derive(7, time.UnixMilli(1_700_000_000_000), "ramp"+strconv.Itoa(n)).Format(prefix)
	o := partner.RampOrder{ID: id, WorkspaceID: rampWorkspace, Direction: direction, AmountCents: cents,
		MaxFeeCents: cents}
	if direction == "withdraw" {
		o.Wallet = &rampWallet
	}
	return o
}

// Every method is idempotent: links, approvals and orders are stored, and a repeat changes nothing.
func TestTheRampIsIdempotent(t *testing.T) {
	d, fs := newReportServer(), vfs.NewMem()
	r := d.linkedRamp(t, fs)
	require.NoError(t, r.Link(t.Context(), "ramp_1", rampWorkspace))
	require.ErrorIs(t, r.Link(t.Context(), "ramp_2", rampWorkspace), partner.ErrRefused, "a workspace has one account")
	require.NoError(t, r.Approve(t.Context(), rampWallet))
	o := rampOrder(1, "onramp", 10_000)
	for range 3 {
		require.NoError(t, r.Order(t.Context(), o))
	}
	require.NoError(t, r.Close())
	r = d.openRamp(t, fs)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, r.Order(t.Context(), o))
	d.advance(delay)
	runSteps(t, r)
	require.Len(t, d.receivedReports(), 1)
	require.NoError(t, r.Order(t.Context(), o), "after its report")
	d.advance(time.Hour)
	runSteps(t, r)
	require.Len(t, d.receivedReports(), 1)
	orders, err := r.Orders()
	require.NoError(t, err)
	require.Equal(t, map[string]int{o.ID: 5}, orders)
}

// An order repeated during its report counts as two orders: neither write overwrites the other.
func TestARepeatedOrderDuringItsReportIsCounted(t *testing.T) {
	d := newReportServer()
	var r *sandbox.Ramp
	o := rampOrder(1, "onramp", 10_000)
	report := func(ctx context.Context, body []byte) (int, error) {
		require.NoError(t, r.Order(ctx, o))
		return d.receiveReport(ctx, body)
	}
	s := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	r, err := sandbox.NewRamp(sandbox.Config{Store: s, Delay: delay, Report: report, Clock: d.clock}, d.receiveReport)
	require.NoError(t, err)
	require.NoError(t, r.Link(t.Context(), "ramp_1", rampWorkspace))
	require.NoError(t, r.Order(t.Context(), o))
	d.advance(delay)
	runSteps(t, r)
	require.Len(t, d.receivedReports(), 1)
	orders, err := r.Orders()
	require.NoError(t, err)
	require.Equal(t, map[string]int{o.ID: 2}, orders)
}

func TestOutcomesOfARampOrderByItsEnding(t *testing.T) {
	for ending, want := range map[int64]struct {
		outcome string
		at      time.Duration
		count   int
		fee     money.Cents // for 200 dollars plus the ending, at half a percent, rounded up
	}{
		0:                         {"completed", delay, 1, 100},
		sandbox.EndingCheaper:     {"completed", delay, 1, 51},
		sandbox.EndingUnreported:  {},
		sandbox.EndingTwice:       {"completed", delay, 2, 101},
		sandbox.EndingLate:        {"completed", 10 * delay, 1, 101},
		sandbox.EndingFails:       {"failed", delay, 1, 0},
		sandbox.EndingReturned:    {"completed", delay, 1, 101},
		sandbox.EndingAnswersLost: {"completed", delay, 1, 101},
	} {
		for direction, name := range map[string]string{"onramp": "onramp", "offramp": "offramp",
			"withdraw": "withdrawal"} {
			d := newReportServer()
			r := d.linkedRamp(t, vfs.NewMem())
			o := rampOrder(1, direction, 20_000+money.Cents(ending))
			err := r.Order(t.Context(), o)
			require.Equal(t, ending == sandbox.EndingAnswersLost, err != nil, ending)
			require.NoError(t, r.Order(t.Context(), o), "given again")
			when := map[string]time.Duration{}
			if want.count > 0 {
				when[name+"."+want.outcome] = want.at
			}
			require.Equal(t, when, outcomes(t, d, r), "%d of %s", ending, direction)
			reports := d.receivedReports()
			require.Len(t, reports, want.count, ending)
			for _, report := range reports {
				require.Equal(t, reports[0], report, "with one event id")
				require.Equal(t, o.ID, report.Data.OrderID)
				require.Equal(t, direction == "withdraw" && want.outcome == "completed", report.Data.TxHash != "")
				if want.outcome == "completed" {
					require.Equal(t, want.fee, *report.Data.FeeCents, ending)
				}
			}
			require.NoError(t, r.Close())
		}
	}
}

// A ramp that does not answer has the order.
func TestASilentRampHasTakenTheOrder(t *testing.T) {
	d := newReportServer()
	r := d.linkedRamp(t, vfs.NewMem())
	defer func() { require.NoError(t, r.Close()) }()
	lapsed := rampOrder(2, "offramp", 100+sandbox.EndingAfterLapse)
	for range 2 {
		require.ErrorContains(t, r.Order(t.Context(), rampOrder(1, "onramp", sandbox.EndingNever)), "no answer")
		require.ErrorContains(t, r.Order(t.Context(), lapsed), "no answer")
	}
	reports := outcomes(t, d, r)
	require.Len(t, reports, 1)
	require.Greater(t, reports["offramp.completed"], 24*time.Hour)
	require.Equal(t, lapsed.ID, d.receivedReports()[0].Data.OrderID)
}

func TestTheRampsFees(t *testing.T) {
	d := newReportServer()
	r := d.openRamp(t, vfs.NewMem())
	defer func() { require.NoError(t, r.Close()) }()
	for cents, want := range map[int64]money.Cents{1: 1, 199: 1, 200: 1, 201: 2, 500: 3, 10_000: 50,
		1 << 61: 1<<61/200 + 1} {
		for _, direction := range []string{"onramp", "offramp", "withdraw"} {
			fee, err := r.Fee(t.Context(), direction, money.Cents(cents))
			require.NoError(t, err)
			require.Equal(t, want, fee, "half a percent of %d, rounded up", cents)
		}
	}
	for _, cents := range []money.Cents{0, -1} {
		_, err := r.Fee(t.Context(), "onramp", cents)
		require.ErrorIs(t, err, partner.ErrRefused)
	}
	_, err := r.Fee(t.Context(), "sideways", 100)
	require.ErrorIs(t, err, partner.ErrRefused)
}

func TestTheRampRefusesInvalidOrders(t *testing.T) {
	d := newReportServer()
	r := d.linkedRamp(t, vfs.NewMem())
	defer func() { require.NoError(t, r.Close()) }()
	require.ErrorIs(t, r.Approve(t.Context(), partner.RampWallet{ID: "wal_2", Chain: "base", Address: "0x1DeaD"}),
		partner.ErrRefused)
	other := rampWallet
	other.Address = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	require.ErrorIs(t, r.Approve(t.Context(), other), partner.ErrRefused, "another address under one id")
	for name, change := range map[string]func(*partner.RampOrder){
		"its ending":              func(o *partner.RampOrder) { o.AmountCents = 10_000 + sandbox.EndingRefused },
		"no id of an order":       func(o *partner.RampOrder) { o.ID = "po_1" },
		"a workspace not linked":  func(o *partner.RampOrder) { o.WorkspaceID = "ws2" },
		"a fee over the most":     func(o *partner.RampOrder) { o.MaxFeeCents = 49 },
		"no direction":            func(o *partner.RampOrder) { o.Direction = "sideways" },
		"a withdrawal to nowhere": func(o *partner.RampOrder) { o.Wallet = nil },
		"a wallet not approved": func(o *partner.RampOrder) {
			o.Wallet = &partner.RampWallet{ID: "wal_3",
				Address: "0x1"}
		},
		"another address":           func(o *partner.RampOrder) { o.Wallet = &other },
		"an on-ramp with a wallet":  func(o *partner.RampOrder) { o.Direction = "onramp" },
		"an amount that is nothing": func(o *partner.RampOrder) { o.AmountCents = 0 },
	} {
		o := rampOrder(1, "withdraw", 10_000)
		change(&o)
		require.ErrorIs(t, r.Order(t.Context(), o), partner.ErrRefused, name)
	}
	orders, err := r.Orders()
	require.NoError(t, err)
	require.Empty(t, orders)
	_, err = sandbox.NewRamp(sandbox.Config{}, d.receiveReport)
	require.Error(t, err)
	_, err = sandbox.NewRamp(sandbox.Config{Store: r.Store, Report: d.receiveReport, Clock: d.clock}, nil)
	require.Error(t, err)
}

// A withdrawal's transaction hash is the same in each report, unique per order, and in its chain's
// format.
func TestTheTransactionHashOfAWithdrawalIsStable(t *testing.T) {
	d := newReportServer()
	r := d.linkedRamp(t, vfs.NewMem())
	defer func() { require.NoError(t, r.Close()) }()
	sol := partner.RampWallet{ID: "wal_9", Chain: "solana", Address: "4Nd1mYxB"}
	require.NoError(t, r.Approve(t.Context(), sol))
	onSolana := rampOrder(3, "withdraw", 10_000)
	onSolana.Wallet = &sol
	for _, o := range []partner.RampOrder{rampOrder(1, "withdraw", 10_000), rampOrder(2, "withdraw", 10_000),
		onSolana} {
		require.NoError(t, r.Order(t.Context(), o))
	}
	d.advance(delay)
	runSteps(t, r)
	hashes := map[string]string{}
	for _, report := range d.receivedReports() {
		hashes[report.Data.OrderID] = report.Data.TxHash
	}
	one, two := hashes[rampOrder(1, "withdraw", 0).ID], hashes[rampOrder(2, "withdraw", 0).ID]
	require.Regexp(t, "^0x[0-9a-f]{64}$", one)
	require.Regexp(t, "^0x[0-9a-f]{64}$", two)
	require.NotEqual(t, one, two)
	require.Regexp(t, "^[1-9A-HJ-NP-Za-km-z]{86,88}$", hashes[onSolana.ID])
}

// A restored ramp repeats its report with the same id, and has its links and wallets.
func TestTheRampReportsAgain(t *testing.T) {
	d, fs := newReportServer(), vfs.NewMem()
	r := d.linkedRamp(t, fs)
	done, never := rampOrder(1, "withdraw", 10_000), rampOrder(2, "onramp", 100+sandbox.EndingUnreported)
	require.NoError(t, r.Order(t.Context(), done))
	require.NoError(t, r.Order(t.Context(), never))
	d.advance(delay)
	runSteps(t, r)
	require.NoError(t, r.Checkpoint("copy"))
	require.NoError(t, r.Close())
	require.Len(t, d.receivedReports(), 1)

	require.NoError(t, sandbox.ReportAgain(fs, "copy"))
	require.NoError(t, fs.RemoveAll(storeDir))
	require.NoError(t, fs.Rename("copy", storeDir))
	r = d.openRamp(t, fs)
	defer func() { require.NoError(t, r.Close()) }()
	runSteps(t, r)
	reports := d.receivedReports()
	require.Len(t, reports, 2)
	require.Equal(t, reports[0], reports[1])
	require.NoError(t, r.Link(t.Context(), "ramp_1", rampWorkspace), "links and wallets are in the copy")
	require.NoError(t, r.Order(t.Context(), rampOrder(3, "withdraw", 10_000)))
}
