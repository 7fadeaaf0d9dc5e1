package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// setUp makes a tenant with euros and an open balance in yen.
func (w *world) setUp(name string) tenant {
	w.t.Helper()
	tn := w.newTenant(name)
	w.ok(w.post(tn.owner(), "/api/mca/onboarding", ""))
	w.open(tn, "EUR", "JPY")
	w.payIn(tn, "EUR", "100000")
	return tn
}

func (w *world) available(tn tenant, currency string) string {
	w.t.Helper()
	return w.balanceOf(tn, currency)["availableMinor"].(string)
}

// A conversion holds the amount it sells, goes to the desk, and moves the money when the desk
// reports.
func TestAConversion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("mine")
	q := w.quoteConversion(tn, "EUR", "JPY", "10000")
	require.Equal(t, "100.00 EUR for 16253 JPY, holding 100.00 EUR",
		fmt.Sprintf("%s for %s, holding %s", q.text("sell", "display"), q.text("buy", "display"),
			q.text("hold", "display")))
	lock, err := time.Parse(time.RFC3339, q.text("lockExpiresAt"))
	require.NoError(t, err)
	now, err := time.Parse(time.RFC3339, q.text("serverNow"))
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, lock.Sub(now))
	require.Equal(t, "100000", w.available(tn, "EUR"), "a quote holds nothing")
	shown := func(id string) testReply { return w.ok(w.get(tn.all, "/api/mca/quotes/"+id)) }
	require.JSONEq(t, q.raw, shown(q.text("id")).raw)
	who := tn.all.once()
	body := fmt.Sprintf(`{"quoteId":%q}`, q.text("id"))
	r := w.post(who, "/api/mca/conversions", body)
	require.Equal(t, "202 held", fmt.Sprint(r.status, " ", r.text("status")))
	require.Equal(t, r.raw, w.post(who, "/api/mca/conversions", body).raw, "a repeat is answered the same")
	w.fails(w.convertNow(tn, q.text("id")), 422, "quote_used")
	require.Equal(t, "used", shown(q.text("id")).text("status"))
	late := w.quoteConversion(tn, "EUR", "JPY", "10000").text("id")
	require.Equal(t, "90000", w.available(tn, "EUR"))
	id := r.text("orderId")
	w.awaitCondition(func() bool {
		return w.ok(w.get(tn.all, "/api/mca/conversions/"+id)).text("status") == "provider_submitted"
	})
	for range 2 { // the desk reports twice
		w.ok(w.report(fmt.Sprintf(`{"id":"fx-%s","type":"conversion.completed","data":{"conversionId":%q}}`, id, id)))
	}
	done := w.ok(w.get(tn.all, "/api/mca/conversions/"+id))
	require.Equal(t, "completed Converted 16253 JPY",
		done.text("status")+" "+done.text("label")+" "+done.text("buy", "display"))
	require.Equal(t, []string{"90000", "16253"}, []string{w.available(tn, "EUR"), w.available(tn, "JPY")})
	lines := w.ok(w.get(tn.all, "/api/mca/activity?currency=EUR")).at("data").([]any)
	require.Len(t, lines, 4, "the pay-in, the hold, its end, the sale")
	w.clock.turn(31 * time.Second)
	require.Equal(t, "expired", shown(late).text("status"))
}

// The list has every conversion once, newest first, and no other workspace's.
func TestTheListOfConversions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.setUp("mine"), w.newTenant("other")
	var made []string
	for range 3 {
		made = append(made, w.convert(tn, w.quoteConversion(tn, "EUR", "JPY", "100").text("id")).text("orderId"))
	}
	first := w.ok(w.get(tn.all, "/api/mca/conversions?limit=2"))
	rest := w.ok(w.get(tn.owner(), "/api/mca/conversions?limit=2&cursor="+first.text("nextCursor")))
	var listed []string
	for _, row := range append(first.at("data").([]any), rest.at("data").([]any)...) {
		listed = append(listed, row.(map[string]any)["id"].(string))
	}
	require.Equal(t, []string{made[2], made[1], made[0]}, listed)
	require.Empty(t, w.ok(w.get(other.all, "/api/mca/conversions")).at("data"))
}

// Every other final status releases the hold and reports it.
func TestFailedConversionsReleaseTheHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("mine")
	id := w.convert(tn, w.quoteConversion(tn, "EUR", "JPY", "10000").text("id")).text("orderId")
	w.awaitCondition(func() bool {
		return w.ok(w.get(tn.all, "/api/mca/conversions/"+id)).text("status") == "provider_submitted"
	})
	w.ok(w.report(fmt.Sprintf(`{"id":"fx-1","type":"conversion.failed","data":{"conversionId":%q}}`, id)))
	failed := w.ok(w.get(tn.all, "/api/mca/conversions/"+id))
	require.Equal(t, "failed 0 JPY", failed.text("status")+" "+failed.text("buy", "display"))
	require.Equal(t, "100000", w.available(tn, "EUR"))
	w.ok(w.report(fmt.Sprintf(`{"id":"fx-2","type":"conversion.completed","data":{"conversionId":%q}}`, id)))
	w.keptUnmatched(1)
	require.Equal(t, []string{"100000", "0"}, []string{w.available(tn, "EUR"), w.available(tn, "JPY")})

	silent := w.convert(tn, w.quoteConversion(tn, "EUR", "JPY", "20000").text("id")).text("orderId")
	status := func() string { return w.ok(w.get(tn.all, "/api/mca/conversions/"+silent)).text("status") }
	w.awaitCondition(func() bool { return status() == "provider_submitted" })
	w.clock.turn(31 * time.Second)
	w.awaitCondition(func() bool { return status() == "outcome_unknown" })
	w.clock.turn(24 * time.Hour)
	w.awaitCondition(func() bool { return status() == "abandoned" })
	require.Equal(t, "100000", w.available(tn, "EUR"))
	w.ok(w.report(fmt.Sprintf(`{"id":"fx-3","type":"conversion.completed","data":{"conversionId":%q}}`, silent)))
	require.Equal(t, []string{"80000", "32507"}, []string{w.available(tn, "EUR"), w.available(tn, "JPY")},
		"a late report is a fact")
}

// The refusals of a quote, in their order.
func TestConversionQuoteRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.RateLimits = RateLimits{PerKey: 10_000, PerWorkspace: 10_000,
			PerAddress: 100_000}
	})
	tn := w.newTenant("mine")
	ask := func(sell, buy, minor string) string {
		r := w.post(tn.all.once(), "/api/mca/quotes",
			fmt.Sprintf(`{"sellCurrency":%q,"buyCurrency":%q,"amountMinor":%q}`, sell,
				buy, minor))
		return fmt.Sprint(r.status, " ", r.code())
	}
	require.Equal(t, "400 same_currency", ask("EUR", "EUR", "1"))
	require.Equal(t, "400 invalid_body", ask("EUR", "ZZZ", "1"))
	require.Equal(t, "400 invalid_body", ask("EUR", "JPY", "01"))
	require.Equal(t, "404 currency_account_not_found", ask("EUR", "JPY", "100"))
	w.ok(w.post(tn.owner().once(), "/api/mca/accounts/EUR", ""))
	require.Equal(t, "404 currency_account_not_found", ask("EUR", "JPY", "100"))
	w.ok(w.post(tn.owner().once(), "/api/mca/accounts/MXN", ""))
	require.Equal(t, "409 account_not_ready", ask("EUR", "MXN", "100"))
	w.open(tn, "JPY")
	require.Equal(t, "409 onboarding_required", ask("EUR", "JPY", "100"))
	w.ok(w.post(tn.owner(), "/api/mca/onboarding", ""))
	require.Equal(t, "422 currency_unavailable", ask("EUR", "MXN", "100"))
	require.Equal(t, "503 quote_lifetime_too_short", ask("EUR", "JPY", "189"))
	require.Equal(t, "400 invalid_body", ask("EUR", "JPY", "1000000000000000001"))
	require.Equal(t, "400 invalid_body", ask("EUR", "JPY", "1000000000000000000"), "more yen than an amount can be")
	require.Equal(t, "201 ", ask("JPY", "EUR", "1000000000000000000"))
	w.ok(w.currencyReport(tn, "c-1", `"currency":"JPY","status":"suspended"`))
	require.Equal(t, "422 account_suspended", ask("EUR", "JPY", "100"))
	w.ok(w.currencyReport(tn, "c-2", `"currency":"JPY","status":"active"`))
	w.clock.turn(time.Minute)
	for range quotesPerMinute {
		require.Equal(t, "201 ", ask("EUR", "JPY", "100"))
	}
	require.Equal(t, "429 rate_limited", ask("EUR", "JPY", "100"))
}

func (w *world) currencyReport(tn tenant, id, what string) testReply {
	w.t.Helper()
	return w.report(fmt.Sprintf(`{"id":%q,"type":"currency.changed","data":{"workspaceId":%q,%s}}`, id, tn.workspace,
		what))
}

// The refusals of a conversion, in their order; nothing is held.
func TestConversionRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("mine")
	w.fails(w.convertNow(tn, "mcq_01m7wd7tg0ewc8h5zq4n1x2y3w"), 404, "quote_not_found")
	w.fails(w.convertNow(w.newTenant("other"), w.quoteConversion(tn, "EUR", "JPY", "1000").text("id")), 404,
		"quote_not_found")
	late := w.quoteConversion(tn, "EUR", "JPY", "1000").text("id")
	w.clock.turn(30 * time.Second)
	w.fails(w.convertNow(tn, late), 422, "quote_expired")
	tooMuch, fits := w.quoteConversion(tn, "EUR", "JPY", "100001").text("id"),
		w.quoteConversion(tn, "EUR", "JPY", "100000").text("id")
	w.ok(w.currencyReport(tn, "c-1", `"currency":"EUR","status":"suspended","scopeStatus":"paused"`))
	w.fails(w.convertNow(tn, tooMuch), 422, "insufficient_funds")
	w.fails(w.convertNow(tn, fits), 422, "balance_paused")
	require.Equal(t, "paused", w.currencies(tn)["EUR"]["scopeStatus"])
	w.ok(w.currencyReport(tn, "c-2", `"currency":"EUR","scopeStatus":"ok"`))
	w.fails(w.convertNow(tn, fits), 422, "account_suspended")
	w.ok(w.currencyReport(tn, "c-3", `"currency":"EUR","status":"active"`))
	w.convert(tn, fits)
	require.Equal(t, "0", w.available(tn, "EUR"))
}

// While conversion is off, every request for one is refused before it reads or writes.
func TestConversionOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Convert = false })
	tn := w.setUp("mine")
	require.Equal(t, map[string]any{"convert": false, "estimate": true, "send": false},
		w.ok(w.get(tn.all, "/api/mca/accounts")).at("features"))
	before := w.settled()
	for _, path := range []string{"/api/mca/quotes", "/api/mca/conversions"} {
		for _, body := range []string{"", "{", `{"quoteId":"x"}`} {
			w.fails(w.post(tn.all, path, body), 422, "capability_unavailable")
		}
		w.fails(w.post(tn.owner(), path, "{}"), 422, "capability_unavailable")
	}
	require.Equal(t, before, w.settled())
}
