package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/webhook"
	"purser/persistence/money"
)

// reportsAtOnce is the number of concurrent repeats of a report.
const reportsAtOnce = 16

// atOnce sends requests concurrently and returns their replies in order.
func atOnce(requests ...func() testReply) []testReply {
	replies := make([]testReply, len(requests))
	var group sync.WaitGroup
	for i, send := range requests {
		group.Go(func() { replies[i] = send() })
	}
	group.Wait()
	return replies
}

// reportedAtOnce sends a report of the bank concurrently and requires 200 for each delivery.
func (w *world) reportedAtOnce(what, payout string, event func(i int) string) {
	w.t.Helper()
	var requests []func() testReply
	for i := range reportsAtOnce {
		body := fmt.Sprintf(`{"id":%q,"type":%q,"data":{"payoutId":%q}}`, event(i), what, payout)
		signed := as{"partner-signature": webhook.Sign(testSecret, w.clock.now(), []byte(body))}
		requests = append(requests, func() testReply { return w.post(signed, "/api/webhooks/bank-transfer", body) })
	}
	for _, r := range atOnce(requests...) {
		require.Equal(w.t, http.StatusOK, r.status, "%s: %s", what, r.raw)
	}
}

// A bank that repeats a report before the first delivery is answered gets 200 each time, and the
// report has one effect.
func TestConcurrentRepeatsOfAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 100_000)
	order := `{"rail":"ach","counterpartyId":"` + w.newRecipient(tn) + `","amountCents":10000,"description":"rent"}`
	for _, c := range []struct {
		name, status string
		event        func(i int) string
		reports      []string
	}{
		{"one id", "returned", func(int) string { return "one" }, []string{"settled", "returned"}},
		{"ids of their own", "returned", func(i int) string { return fmt.Sprint("own", i) },
			[]string{"settled", "returned"}},
		{"a failure", "failed", func(int) string { return "failure" }, []string{"failed"}},
	} {
		id := w.ok(w.pay(tn, order)).text("payout", "id")
		w.awaitPayout(tn, id, "submitted")
		for _, report := range c.reports {
			w.reportedAtOnce("payout."+report, id, func(i int) string { return c.event(i) + report })
		}
		w.awaitPayout(tn, id, c.status)
		available, held := w.dollars(tn)
		require.Equal(t, [2]money.Cents{100_000, 0}, [2]money.Cents{available, held}, c.name)
	}
}

// A deposit that is reported concurrently is credited once, and each delivery is answered 200.
func TestConcurrentDepositReports(t *testing.T) {
	t.Parallel()
	const repeats = 64
	w := newWorld(t)
	tn := w.newTenant("acme")
	for n := range 4 {
		body := fmt.Sprintf(`{"id":"received-%d","type":"deposit.received","data":{"workspaceId":%q,"amountUsdCents":500,"rail":"wire"}}`,
			n, tn.workspace)
		var requests []func() testReply
		for range repeats {
			requests = append(requests, func() testReply { return w.report(body) })
		}
		for _, r := range atOnce(requests...) {
			require.Equal(t, http.StatusOK, r.status, r.raw)
		}
	}
	available, _ := w.dollars(tn)
	require.EqualValues(t, 4*500, available)
}

// A concurrent release and cancel have one winner, and both answers show the outcome.
func TestConcurrentReleaseAndCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 100_000)
	abroad := w.newRecipientAbroad(tn)
	for range 8 {
		id := w.ok(w.pay(tn, `{"rail":"intl_wire","counterpartyId":"`+abroad+
			`","amountCents":100,"description":"rent"}`)).text(
			"payout", "id")
		direct := func(step string) func() testReply {
			return func() testReply { return w.post(tn.all, "/api/treasury/payouts/"+id+"/"+step, "") }
		}
		both := atOnce(direct("cancel"), direct("release"), direct("release"), direct("cancel"), direct("release"),
			direct("cancel"))
		cancelled := both[0].status == http.StatusOK
		for i, r := range both {
			if isCancel := i == 0 || i == 3 || i == 5; isCancel == cancelled {
				w.ok(r)
			} else {
				w.fails(r, http.StatusConflict, "payout_not_held")
			}
		}
	}
}
