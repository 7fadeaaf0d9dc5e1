package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/httpapi/webhook"
	"purser/persistence/money"
)

func (w *world) keyed(tn tenant) as { return tn.all.with("Idempotency-Key", uuid.NewString()) }

func (w *world) pay(tn tenant, body string) testReply {
	w.t.Helper()
	return w.post(w.keyed(tn), "/api/treasury/payouts", body)
}

func (w *world) newRecipientAbroad(tn tenant) string {
	w.t.Helper()
	return w.ok(w.post(w.keyed(tn), "/api/treasury/counterparties", `{"kind":"international","name":"Grace GmbH","bic":"DEUTDEFF500",
		"iban":"DE89 3704 0044 0532 0130 00","currency":"EUR","address":{"line1":"Hauptstr. 5","city":"Berlin","postalCode":"10115",
		"country":"DE"}}`)).text("counterparty", "id")
}

func (w *world) newRecipient(tn tenant) string {
	w.t.Helper()
	return w.ok(w.post(w.keyed(tn), "/api/treasury/counterparties",
		`{"name":"Ada Lovelace","routingNumber":"021000021","accountNumber":"000123456789","accountType":"checking"}`)).
		text("counterparty", "id")
}

// sendBankReport sends a signed report.
func (w *world) sendBankReport(event, what, payout string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":%q,"data":{"payoutId":%q}}`, event, what, payout)
	w.ok(w.post(as{"partner-signature": webhook.Sign(testSecret, w.clock.now(), []byte(body))},
		"/api/webhooks/bank-transfer",
		body))
}

// awaitPayout waits until a payout has a status, and returns the payout.
func (w *world) awaitPayout(tn tenant, id, status string) (r testReply) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		r = w.ok(w.get(tn.all, "/api/treasury/payouts/"+id))
		return r.text("payout", "status") == status
	}, time.Minute, time.Millisecond)
	return r
}

func (w *world) dollars(tn tenant) (available, held money.Cents) {
	w.t.Helper()
	w.relayed()
	require.Eventually(w.t, func() bool {
		h, err := w.system.Health()
		return err == nil && h.FollowerLag == 0
	}, time.Minute, time.Millisecond)
	read, err := w.system.Ask(w.t.Context(), actors.Envelope{Kind: "balance", Stream: tn.workspace,
		Workspace: tn.workspace,
		Command:   decision.Read{}})
	require.NoError(w.t, err)
	usd := read.(balance.View).Balances[0]
	return usd.AvailableCents, usd.HeldCents
}

func TestARecipientKeepsTheLastFourOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	us, abroad := w.newRecipient(tn), w.newRecipientAbroad(tn)
	r := w.ok(w.get(tn.all, "/api/treasury/counterparties"))
	require.Less(t, strings.Index(r.raw, abroad), strings.Index(r.raw, us), "newest first")
	require.NotContains(t, r.raw, "123456789")
	require.NotContains(t, r.raw, "DE89")
	one := w.ok(w.get(tn.all, "/api/treasury/counterparties/"+us))
	require.Equal(t, "6789", one.text("counterparty", "accountLast4"))
	require.Equal(t, "021000021", one.text("counterparty", "routingNumber"))

	w.ok(w.do(tn.all, "DELETE", "/api/treasury/counterparties/"+us, ""))
	w.ok(w.do(tn.all, "DELETE", "/api/treasury/counterparties/"+us, ""))
	w.fails(w.get(tn.all, "/api/treasury/counterparties/"+us), 404, "not_found")
	w.fails(w.pay(tn, `{"rail":"ach","counterpartyId":"`+us+`","amountCents":1,"description":"rent"}`), 404,
		"not_found")
	require.NotContains(t, w.ok(w.get(tn.all, "/api/treasury/counterparties")).raw, us)
}

func TestAPayoutFromOrderToReturn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 100_000)
	order := `{"rail":"ach","counterpartyId":"` + w.newRecipient(tn) +
		`","amountCents":30000,"description":"rent","sameDay":true}`
	w.fails(w.post(tn.all, "/api/treasury/payouts", order), 400, "idempotency_key_required")
	who := w.keyed(tn)
	made := w.ok(w.post(who, "/api/treasury/payouts", order))
	id := made.text("payout", "id")
	require.Equal(t, "reserved", made.text("payout", "status"))
	require.Equal(t, "2026-11-20", made.text("payout", "expectedOn"), "a Friday noon")
	again := w.ok(w.post(who, "/api/treasury/payouts", order))
	require.Equal(t, made.raw, again.raw)
	w.fails(w.post(who, "/api/treasury/payouts", strings.Replace(order, "30000", "30001", 1)), 422,
		"idempotency_key_mismatch")

	w.awaitPayout(tn, id, "submitted")
	available, held := w.dollars(tn)
	require.Equal(t, [2]money.Cents{70_000, 30_000}, [2]money.Cents{available, held})
	w.sendBankReport("b1", "payout.settled", id)
	w.sendBankReport("b1", "payout.settled", id)
	w.sendBankReport("b2", "payout.settled", id)
	shown := w.awaitPayout(tn, id, "settled")
	require.Equal(t, "rent", shown.text("payout", "description"))
	require.Contains(t, w.ok(w.get(tn.all, "/api/treasury")).raw,
		`"source":"payout","direction":"debit","amountCents":30000`)
	w.sendBankReport("b3", "payout.returned", id)
	w.sendBankReport("b4", "payout.returned", id)
	w.awaitPayout(tn, id, "returned")
	require.Contains(t, w.ok(w.get(tn.all, "/api/treasury")).raw,
		`"source":"payout_return","direction":"credit","amountCents":30000`)
	available, held = w.dollars(tn)
	require.Equal(t, [2]money.Cents{100_000, 0}, [2]money.Cents{available, held})
	w.fails(w.get(tn.all, "/api/treasury/payouts/"+id+"/tracking"), 404, "not_found")
	w.fails(w.post(tn.all, "/api/treasury/payouts/"+id+"/release", ""), 409, "payout_not_held")
}

func TestPayoutRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.PayoutLimits = balance.PayoutLimits{KeyCents: 50_000,
			WorkspaceCents: 60_000}
	})
	tn := w.newTenant("acme")
	w.fund(tn, 40_000)
	us, abroad := w.newRecipient(tn), w.newRecipientAbroad(tn)
	order := func(rail, to string, cents int, more string) string {
		return fmt.Sprintf(`{"rail":%q,"counterpartyId":%q,"amountCents":%d,"description":"rent"%s}`, rail, to, cents,
			more)
	}
	w.fails(w.pay(tn, order("cheque", us, 1, "")), 400, "invalid_body")
	w.fails(w.pay(tn, order("wire", us, 1, `,"sameDay":true`)), 400, "invalid_body")
	w.fails(w.pay(tn, order("ach", abroad, 1, "")), 400, "invalid_body")
	w.fails(w.pay(tn, order("ach", us, 40_001, "")), 422, "insufficient_funds")
	w.fails(w.pay(tn, order("ach", us, 50_001, "")), 422, "limit_exceeded")
	w.fails(w.pay(tn, order("intl_wire", abroad, 1, `,"quoteId":"fxq_no"`)), 404, "quote_not_found")
	held := w.ok(w.pay(tn, order("intl_wire", abroad, 40_000, ""))).text("payout", "id")
	w.fails(w.pay(tn, order("ach", us, 1, "")), 422, "insufficient_funds")
	w.ok(w.post(tn.all, "/api/treasury/payouts/"+held+"/cancel", ""))
	w.ok(w.pay(tn, order("ach", us, 40_000, "")))
}

// A malformed body is refused before the records that it names are looked up.
func TestBodyIsCheckedBeforeItsRecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	const nobody = `"counterpartyId":"rcp_01m7wd7tg0ewc8h5zq4n1x2y3t"`
	w.fails(w.pay(tn, `{"rail":"wire","amountCents":1,"description":"rent","sameDay":true,`+nobody+`}`), 400,
		"invalid_body")
	w.fails(w.pay(tn, `{"rail":"ach","amountCents":1,"description":"rent","quoteId":"fxq_no",`+nobody+`}`), 400,
		"invalid_body")
	w.fails(w.pay(tn, `{"rail":"ach","amountCents":1,"description":"rent",`+nobody+`}`), 404, "not_found")
	quotes := "/api/treasury/fx-quotes"
	w.fails(w.post(w.keyed(tn), quotes, `{"currency":"USD","amountMinor":"1",`+nobody+`}`), 400, "invalid_currency")
	w.fails(w.post(w.keyed(tn), quotes, `{"currency":"EUR","amountMinor":"0",`+nobody+`}`), 400, "invalid_amount")
	w.fails(w.post(w.keyed(tn), quotes, `{"currency":"EUR","amountMinor":"1",`+nobody+`}`), 404, "not_found")
}

// A repeat returns the stored answer of an order even if the recipient has changed since.
func TestRepeatOfAnOrderOutlivesItsRecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 1_000_000)
	abroad := w.newRecipientAbroad(tn)
	quoting, ordering := w.keyed(tn), w.keyed(tn)
	lock := `{"counterpartyId":"` + abroad + `","currency":"EUR","amountMinor":"100000"}`
	quote := w.post(quoting, "/api/treasury/fx-quotes", lock)
	order := `{"rail":"intl_wire","counterpartyId":"` + abroad + `","amountCents":109803,"description":"rent","quoteId":"` +
		quote.text("quote", "id") + `"}`
	ordered := w.ok(w.post(ordering, "/api/treasury/payouts", order))
	w.ok(w.do(tn.all, "DELETE", "/api/treasury/counterparties/"+abroad, ""))
	w.clock.turn(time.Hour)
	require.Equal(t, ordered.raw, w.ok(w.post(ordering, "/api/treasury/payouts", order)).raw)
	require.Equal(t, quote.raw, w.post(quoting, "/api/treasury/fx-quotes", lock).raw)
	w.fails(w.pay(tn, order), 404, "not_found")
}

func TestAWireAbroadAtALockedRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("acme")
	w.fund(tn, 1_000_000)
	abroad := w.newRecipientAbroad(tn)
	lock := `{"counterpartyId":"` + abroad + `","currency":"EUR","amountMinor":"100000"}`
	who := w.keyed(tn)
	made := w.post(who, "/api/treasury/fx-quotes", lock)
	require.Equal(t, 200, made.status, made.raw)
	require.Equal(t, "0.910724", made.text("quote", "rate"))
	require.Equal(t, "109803", made.text("quote", "sell", "amountMinor"))
	require.Equal(t, "1 USD = 0.910724 EUR", made.text("quote", "rateDisplay"))
	w.clock.turn(time.Second)
	require.Equal(t, made.raw, w.post(who, "/api/treasury/fx-quotes", lock).raw)

	quote := made.text("quote", "id")
	order := `{"rail":"intl_wire","counterpartyId":"` + abroad + `","amountCents":109803,"description":"Invoice 7","quoteId":"` +
		quote + `"}`
	w.fails(w.pay(tn, strings.Replace(order, "109803", "109802", 1)), 422, "quote_mismatch")
	id := w.ok(w.pay(tn, order)).text("payout", "id")
	w.fails(w.pay(tn, order), 422, "quote_used")
	w.ok(w.post(tn.all, "/api/treasury/payouts/"+id+"/release", ""))
	w.awaitPayout(tn, id, "submitted")
	w.ok(w.post(tn.all, "/api/treasury/payouts/"+id+"/release", ""))
	w.fails(w.post(tn.all, "/api/treasury/payouts/"+id+"/cancel", ""), 409, "payout_not_held")
	tracked := w.ok(w.get(tn.all, "/api/treasury/payouts/"+id+"/tracking"))
	require.NoError(t, uuid.Validate(tracked.text("uetr")))
	require.Equal(t, id, tracked.text("payoutId"))

	late := w.post(w.keyed(tn), "/api/treasury/fx-quotes", lock).text("quote", "id")
	w.clock.turn(balance.QuoteLock)
	w.fails(w.pay(tn, strings.Replace(order, quote, late, 1)), 422, "quote_expired")
	w.fails(w.post(w.keyed(tn), "/api/treasury/fx-quotes", strings.Replace(lock, "EUR", "GBP", 1)), 400,
		"invalid_currency")
	w.fails(w.post(w.keyed(tn), "/api/treasury/fx-quotes", strings.Replace(lock, "EUR", "XAU", 1)), 400,
		"invalid_currency")
	w.fails(w.post(w.keyed(tn), "/api/treasury/fx-quotes", strings.Replace(lock, "100000", "0", 1)), 400,
		"invalid_amount")

	other := w.newTenant("other")
	w.fund(other, 1_000_000)
	stolen := strings.Replace(order, abroad, w.newRecipientAbroad(other), 1)
	w.fails(w.pay(other, stolen), 404, "quote_not_found")
	require.Equal(t, "0.9153", w.ok(w.get(tn.all, "/api/treasury/fx-rates")).text("rates", "EUR"))
}

// A settlement after the release debits again, below zero if necessary, and raises an alarm.
func TestASettlementAfterTheReleaseIsAnAlarm(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *Config) { c.Registry = registry })
	tn := w.newTenant("acme")
	w.fund(tn, 50_000)
	order := `{"rail":"realtime","counterpartyId":"` + w.newRecipient(tn) + `","amountCents":50000,"description":"rent"}`
	first := w.ok(w.pay(tn, strings.Replace(order, "rent", descriptionLost, 1))).text("payout", "id")
	w.awaitPayout(tn, first, "outcome_unknown")
	w.clock.turn(balance.LapseAfter)
	w.awaitPayout(tn, first, "released")
	w.relayed() // the authorizer follows the release a little later
	second := w.ok(w.pay(tn, order)).text("payout", "id")
	w.awaitPayout(tn, second, "submitted")
	w.sendBankReport("b1", "payout.settled", first)
	w.sendBankReport("b2", "payout.settled", first)
	available, held := w.dollars(tn)
	require.Equal(t, [2]money.Cents{-50_000, 50_000}, [2]money.Cents{available, held})
	require.Equal(t, 1.0, metric(t, registry, "purser_payouts_settled_after_release_total", nil))
	require.Zero(t, metric(t, registry, "purser_partner_unmatched_total", nil))
	w.sendBankReport("b3", "payout.failed", first)
	require.Equal(t, 1.0, metric(t, registry, "purser_partner_unmatched_total", nil), "what the table refuses is kept")
}
