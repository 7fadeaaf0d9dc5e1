package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

const (
	onrampPath  = "/api/webhooks/partner-onramp"
	offrampPath = "/api/webhooks/partner-offramp"
)

// sendRampReport sends a signed report of the ramp's partner about an order; more holds further
// members of its data.
func (w *world) sendRampReport(path, event, eventType, order, more string) testReply {
	w.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":%q,"data":{"orderId":%q%s}}`, event, eventType, order, more)
	return w.post(w.signsPath(testSecret, path, body), path, body)
}

// signsPath returns a partner's signature of version 2 for a report to a path.
func (w *world) signsPath(secret, path, body string) as {
	return as{"partner-signature": webhook.SignRequest(secret, w.clock.now(),
		webhook.Request{Method: http.MethodPost, Path: path, Body: []byte(body)})}
}

// balances returns a tenant's dollars and USDC, in cents.
func (w *world) balances(tn tenant) [2]int {
	w.t.Helper()
	return [2]int{w.fiat(tn), w.stablecoins(tn)}
}

func (w *world) awaitBalances(tn tenant, usd, stablecoin int) {
	w.t.Helper()
	require.Equal(w.t, [2]int{usd, stablecoin}, w.balances(tn))
}

// rampTenant makes a tenant with 1,000 dollars and 1,000 USDC.
func (w *world) rampTenant(name string) tenant {
	w.t.Helper()
	tn := w.newTenant(name)
	w.fund(tn, 100_000)
	w.askBalance(tn, balance.ReceiveStablecoin{Workspace: tn.workspace, EventID: "coins-" + name, Asset: "USDC",
		Chain:  "polygon",
		TxHash: "0x1", AmountUsdCents: 100_000})
	return tn
}

func (w *world) askBalance(tn tenant, command any) any {
	w.t.Helper()
	reply, err := w.system.Ask(context.Background(), actors.Envelope{Kind: "balance", Stream: tn.workspace,
		Workspace: tn.workspace, Command: command})
	require.NoError(w.t, err)
	return reply
}

func (w *world) idIn(tn tenant, prefix string) string {
	w.t.Helper()
	owner, err := ident.Parse(ident.Workspace, tn.workspace)
	require.NoError(w.t, err)
	w.n++
	return ident.Derive(owner.Slot(), w.clock.now(), fmt.Sprint("ramp ", w.n)).Format(prefix)
}

// rampOrder creates an order of 100 dollars or USDC, with a fee of at most 50 cents, that the
// partner has not answered.
func (w *world) rampOrder(tn tenant, direction string) string {
	w.t.Helper()
	quote := balance.QuoteRamp{Workspace: tn.workspace, ID: w.idIn(tn, ident.RampQuote), Direction: direction,
		AmountCents: 10_000, FeeCents: 50}
	if direction == balance.RampWithdraw {
		quote.WalletID = w.idIn(tn, ident.RampWallet)
	}
	prefix := map[bool]string{true: ident.Withdrawal, false: ident.RampOrder}[direction == balance.RampWithdraw]
	q := w.askBalance(tn, quote).(balance.RampQuote)
	o := w.askBalance(tn, balance.CreateRampOrder{Workspace: tn.workspace, ID: w.idIn(tn, prefix), Quote: q,
		Withdrawal: direction == balance.RampWithdraw})
	return o.(balance.RampOrder).ID
}

// olderSession imports a session of the retired routes, of 30 dollars, and returns its id.
func (w *world) olderSession(tn tenant, direction string) string {
	w.t.Helper()
	r := balance.RampSession{ID: w.idIn(tn, ident.RampSession), Direction: direction, Status: balance.RampProcessing,
		AmountCents: 3_000, HostedURL: "https://ramp.example/s/1", CreatedAt: decision.StampOf(w.clock.now()),
		UpdatedAt: decision.StampOf(w.clock.now())}
	w.askBalance(tn, balance.ImportRampSession{Workspace: tn.workspace, Session: r})
	return r.ID
}

// A repeated report changes the two balances of a tenant with an order of 100 dollars or USDC once.
func TestReportsOfTheRamp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	for name, c := range map[string]struct {
		direction, path, more string
		usd, stablecoin       int
	}{
		"onramp.completed":     {balance.RampOn, onrampPath, "", -10_000, 9_950},
		"onramp.failed":        {balance.RampOn, onrampPath, "", 0, 0},
		"offramp.completed":    {balance.RampOff, offrampPath, `,"feeCents":20`, 9_980, -10_000},
		"offramp.failed":       {balance.RampOff, offrampPath, "", 0, 0},
		"withdrawal.completed": {balance.RampWithdraw, offrampPath, `,"feeCents":50,"txHash":"0x5e1d"`, 0, -10_000},
		"withdrawal.failed":    {balance.RampWithdraw, offrampPath, "", 0, 0},
	} {
		before := w.balances(tn)
		order := w.rampOrder(tn, c.direction)
		for _, event := range []string{"1", "1", "2"} {
			w.ok(w.sendRampReport(c.path, name+event, name, order, c.more))
			w.awaitBalances(tn, before[0]+c.usd, before[1]+c.stablecoin)
		}
		w.keptUnmatched(0)
	}
}

// A report that matches no order is stored as unmatched, and moves nothing.
func TestReportsOfTheRampThatMatchNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	on, off, out := w.rampOrder(tn, balance.RampOn), w.rampOrder(tn, balance.RampOff),
		w.rampOrder(tn, balance.RampWithdraw)
	session := w.olderSession(tn, balance.RampOff)
	for i, r := range []struct{ path, what, order, more string }{
		{onrampPath, "onramp.completed", w.idIn(tn, ident.RampOrder), ""},
		{onrampPath, "onramp.completed", w.idIn(tn, ident.RampSession), ""},
		{onrampPath, "onramp.completed", "ro_", ""},
		{onrampPath, "onramp.completed", "rs_x", ""},
		{onrampPath, "onramp.completed", off, ""},
		{onrampPath, "onramp.completed", out, ""},
		{onrampPath, "onramp.completed", session, ""},
		{onrampPath, "onramp.failed", off, ""},
		{onrampPath, "offramp.completed", off, ""}, // the path of the other direction
		{offrampPath, "onramp.completed", on, ""},
		{offrampPath, "offramp.completed", on, ""},
		{offrampPath, "offramp.failed", out, ""},
		{offrampPath, "withdrawal.completed", off, ""},
		{offrampPath, "withdrawal.failed", session, ""},
		{offrampPath, "offramp.paused", off, ""},
		{offrampPath, "offramp.completed", off, `,"feeCents":51`},
		{offrampPath, "offramp.completed", off, `,"feeCents":-1`},
		{offrampPath, "offramp.completed", off, `,"feeCents":"20"`},
	} {
		w.ok(w.sendRampReport(r.path, fmt.Sprint("evt", i), r.what, r.order, r.more))
		w.keptUnmatched(i + 1)
	}
	w.awaitBalances(tn, 90_000, 80_000)
	w.ok(w.sendRampReport(offrampPath, "done", "offramp.completed", off, ""))
	w.ok(w.sendRampReport(offrampPath, "undone", "offramp.failed", off, ""))
	w.keptUnmatched(19)
	w.awaitBalances(tn, 99_950, 80_000)
	w.ok(w.sendRampReport(offrampPath, "done", "withdrawal.failed", out, ""))
	w.keptUnmatched(20)
	w.awaitBalances(tn, 99_950, 80_000)
}

// A session of the retired routes was debited before, so its report books the credit alone.
func TestReportsOfOlderSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	for name, c := range map[string]struct {
		direction, path string
		stablecoin      int
	}{
		"onramp.completed":  {balance.RampOn, onrampPath, 3_000},
		"onramp.failed":     {balance.RampOn, onrampPath, 0},
		"offramp.completed": {balance.RampOff, offrampPath, 0},
		"offramp.failed":    {balance.RampOff, offrampPath, 3_000},
	} {
		before := w.balances(tn)
		session := w.olderSession(tn, c.direction)
		for _, event := range []string{"1", "1", "2"} {
			w.ok(w.sendRampReport(c.path, name+event, name, session, ""))
			w.awaitBalances(tn, before[0], before[1]+c.stablecoin)
		}
		w.keptUnmatched(0)
	}
}

func TestReportsOfTheRampMustBeSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	body := fmt.Sprintf(`{"id":"e1","type":"onramp.completed","data":{"orderId":%q}}`, w.rampOrder(tn, balance.RampOn))
	for _, path := range []string{onrampPath, offrampPath} {
		for _, header := range []as{nil, {"partner-signature": "t=1,v1=00"},
			{"partner-signature": webhook.Sign("another secret of a partner", w.clock.now(), []byte(body))}} {
			w.fails(w.post(header, path, body), 401, "signature_invalid")
		}
	}
	w.awaitBalances(tn, 90_000, 100_000)
	w.keptUnmatched(0)
}

// A report that was claimed but not applied, because of a crash in between, is applied by its
// repeat, once.
func TestARampReportIsAppliedByItsRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	on, session := w.rampOrder(tn, balance.RampOn), w.olderSession(tn, balance.RampOn)
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, applies := e.Command.(balance.ReportRamp); applies {
			return nil, fault.New(fault.Unavailable, "")
		}
		return w.system.Ask(ctx, e)
	})
	for _, order := range []string{on, session} {
		w.fails(w.sendRampReport(onrampPath, "evt-"+order, "onramp.completed", order, ""), 503, "unavailable")
	}
	w.awaitBalances(tn, 90_000, 100_000)
	w.actors.hook(nil)
	for range 2 {
		for _, order := range []string{on, session} {
			w.ok(w.sendRampReport(onrampPath, "evt-"+order, "onramp.completed", order, ""))
		}
		w.awaitBalances(tn, 90_000, 112_950)
	}
	w.keptUnmatched(0)
}

// Concurrent reports, with one id and with several, end an order and a session once. A report that
// meets a concurrent change may be answered with a retry, and its repeat is then applied.
func TestConcurrentRampReports(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	w := newWorld(t)
	tn := w.rampTenant("ada")
	on, session := w.rampOrder(tn, balance.RampOn), w.olderSession(tn, balance.RampOn)
	var group sync.WaitGroup
	statuses := make([]int, 2*atOnce)
	for i := range statuses {
		group.Go(func() {
			order := []string{on, session}[i%2]
			event := fmt.Sprint("evt-", order, i/4)
			for until := time.Now().Add(waitFor); time.Now().Before(until); {
				statuses[i] = w.sendRampReport(onrampPath, event, "onramp.completed", order, "").status
				if statuses[i] != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	group.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusOK, status)
	}
	w.awaitBalances(tn, 90_000, 112_950)
	w.keptUnmatched(0)
}
