package httpapi

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireList requires the ids of a whole list that is narrowed by a query.
func (w *world) requireList(tn tenant, path, query string, want ...string) {
	w.t.Helper()
	got := []string{}
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		r := w.ok(w.get(tn.all, path+"?limit=1&"+query+cursor))
		for i := range r.at("data").([]any) {
			got = append(got, r.text("data", i, "id"))
		}
		if cursor = r.text("nextCursor"); cursor != "" {
			cursor = "&cursor=" + cursor
		}
	}
	require.Equal(w.t, append([]string{}, want...), got, query)
}

func TestPayoutsAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 1_000_000)
	const path = "/api/treasury/payouts"
	home, abroad := w.newRecipient(tn), w.newRecipientAbroad(tn)
	order := func(rail, recipient string, cents int) string {
		defer w.clock.turn(24 * time.Hour)
		return w.ok(w.pay(tn, fmt.Sprintf(`{"rail":%q,"counterpartyId":%q,"amountCents":%d,"description":"rent"}`, rail,
			recipient, cents))).text("payout", "id")
	}
	first := w.clock.now()
	ach, wire, second := order("ach", home, 1500), order("intl_wire", abroad, 1600), order("intl_wire", abroad,
		1700)
	w.ok(w.post(w.keyed(tn), path+"/"+second+"/cancel", ""))
	day := func(n int) string { return first.AddDate(0, 0, n).Format(time.DateOnly) }
	w.requireList(tn, path, "", second, wire, ach)
	w.requireList(tn, path, "status=held", wire)
	w.requireList(tn, path, "status=cancelled", second)
	w.requireList(tn, path, "counterpartyId="+abroad, second, wire)
	w.requireList(tn, path, "counterpartyId="+abroad+"&status=held", wire)
	w.requireList(tn, path, "reference="+ach, ach)
	w.requireList(tn, path, "reference=none")
	w.requireList(tn, path, "from="+day(1), second, wire)
	w.requireList(tn, path, "from="+day(1)+"&to="+day(1), wire)
	w.requireList(tn, path, "to="+url.QueryEscape(first.Format(time.RFC3339)))
	w.requireList(tn, path, "amountFromCents=1600&amountToCents=1600", wire)
	w.requireList(tn, path, "amountFromCents=1700", second)
	w.requireList(tn, path, "amountToCents=1500&status=held")
	w.fails(w.get(w.newTenant("mallory").all, path+"?counterpartyId="+home), 404, "not_found")
}

func TestRecipientsAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const path = "/api/treasury/counterparties"
	first := w.clock.now()
	home := w.newRecipient(tn)
	w.clock.turn(24 * time.Hour)
	abroad := w.newRecipientAbroad(tn)
	w.requireList(tn, path, "", abroad, home)
	w.requireList(tn, path, "kind=us", home)
	w.requireList(tn, path, "kind=international", abroad)
	w.requireList(tn, path, "name=gRACE+g", abroad)
	w.requireList(tn, path, "name=Lovelace")
	w.requireList(tn, path, "to="+first.Format(time.DateOnly), home)
	w.requireList(tn, path, "from="+first.AddDate(0, 0, 1).Format(time.DateOnly), abroad)
}

func TestCardsAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const path = "/api/cards"
	mint := func(kind, label string) (id, last4 string) {
		r := w.ok(w.post(w.keyed(tn), path, fmt.Sprintf(`{"holderKind":%q,"holderLabel":%q,"monthlyLimitUsdCents":1000,
			"perTxnLimitUsdCents":1000}`, kind, label)))
		return r.text("card", "id"), r.text("card", "last4")
	}
	agent, digits := mint("agent", "Cloud buyer")
	person, _ := mint("human", "Cloé")
	frozen, _ := mint("agent", "Freight")
	w.ok(w.do(tn.all, "PATCH", path+"/"+frozen, `{"state":"frozen"}`))
	w.requireList(tn, path, "", frozen, person, agent)
	w.requireList(tn, path, "state=frozen", frozen)
	w.requireList(tn, path, "state=active&holderKind=agent", agent)
	w.requireList(tn, path, "holderLabel=cLO", person, agent)
	w.requireList(tn, path, "holderLabel=buyer")
	w.requireList(tn, path, "holderKind=human", person)
	require.Contains(t, w.ok(w.get(tn.all, path+"?last4="+digits)).raw, agent)
}

// Only the deliveries of the endpoint are looked at.
func TestDeliveriesAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	who, first := session(tn.cookie), w.clock.now()
	endpoint := w.newEndpoint(tn, `["*"]`).text("endpoint", "id")
	other := w.ok(w.post(who, endpointsPath, endpointBody(hookURL, `["*"]`))).text("endpoint", "id")
	ping := func(endpoint string) string {
		return w.ok(w.post(who, endpointsPath+"/"+endpoint+"/test", "")).text("delivery", "id")
	}
	ended := ping(endpoint)
	w.endDelivery(tn, endpoint, ended)
	ping(other)
	w.clock.turn(24 * time.Hour)
	pending := ping(endpoint)
	path := endpointsPath + "/" + endpoint + "/deliveries?"
	for query, want := range map[string][]string{"limit=9": {pending, ended}, "status=pending": {pending},
		"status=failed": {ended}, "status=delivered": nil, "to=" + first.Format(time.DateOnly): {ended},
		"from=" + first.AddDate(0, 0, 1).Format(time.DateOnly): {pending}} {
		var got []string
		for _, d := range w.ok(w.get(who, path+query)).at("data").([]any) {
			got = append(got, d.(map[string]any)["id"].(string))
		}
		require.Equal(t, want, got, query)
	}
	for query, names := range map[string]string{"status=lost": "status must be one of pending, ", "from=x": "from"} {
		r := w.get(who, path+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), names)
	}
}

// Each authorization of a list stands at the place of its card in cardIds, also under a filter.
func TestAListOfAuthorizationsNamesTheirCards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	_, first, older := w.swipedCard(tn)
	_, second, newer := w.swipedCard(tn)
	const path = "/api/authorizations"
	all := w.ok(w.get(tn.all, path))
	require.Equal(t, []any{second, first}, all.at("cardIds"))
	require.Equal(t, newer, all.text("data", 0, "id"))
	require.Equal(t, older, all.text("data", 1, "id"))
	require.Equal(t, []any{first}, w.ok(w.get(tn.all, path+"?cardId="+first)).at("cardIds"))
	require.Equal(t, []any{}, w.ok(w.get(tn.all, path+"?decision=declined")).at("cardIds"))
}

func TestLinksAreNarrowedByAmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	link := func(cents int) string {
		return w.ok(w.post(tn.all, checkoutPath,
			fmt.Sprintf(`{"amountUsdCents":%d,"successUrl":"https://shop.example/thanks"}`, cents))).text("session", "id")
	}
	small, middle, large := link(2_500), link(5_000), link(10_000)
	w.requireList(tn, checkoutPath, "amountFromCents=5000", large, middle)
	w.requireList(tn, checkoutPath, "amountToCents=5000", middle, small)
	w.requireList(tn, checkoutPath, "amountFromCents=2501&amountToCents=9999&status=pending", middle)
	w.requireBadFilters(tn.all, checkoutPath, map[string]string{"amountFromCents=1.5": "amountFromCents",
		"amountFromCents=2&amountToCents=1": "amountToCents must not be less"})
}

func TestConversionsAndActivityAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.setUp("ada")
	const path, lines = "/api/mca/conversions", "/api/mca/activity"
	order := func() string {
		return w.convert(tn, w.quoteConversion(tn, "EUR", "JPY", "100").text("id")).text("orderId")
	}
	status := func(id, want string) {
		w.awaitCondition(func() bool { return w.ok(w.get(tn.all, path+"/"+id)).text("status") == want })
	}
	failed := order()
	status(failed, "provider_submitted")
	w.ok(w.report(fmt.Sprintf(`{"id":"fx-1","type":"conversion.failed","data":{"conversionId":%q}}`, failed)))
	day := w.clock.now()
	w.clock.turn(24 * time.Hour)
	sent := order()
	status(sent, "provider_submitted")
	w.requireList(tn, path, "", sent, failed)
	w.requireList(tn, path, "status=failed", failed)
	w.requireList(tn, path, "status=held")
	w.requireList(tn, path, "from="+day.AddDate(0, 0, 1).Format(time.DateOnly), sent)
	w.requireList(tn, path, "to="+day.Format(time.DateOnly), failed)
	var credits, debits, later []string
	for _, line := range w.ok(w.get(tn.all, lines+"?currency=EUR")).at("data").([]any) {
		line := line.(map[string]any)
		id := line["id"].(string)
		if line["direction"] == "credit" {
			credits = append(credits, id)
		} else {
			debits = append(debits, id)
		}
		if line["createdAt"].(string) > day.AddDate(0, 0, 1).Format(time.DateOnly) {
			later = append(later, id)
		}
	}
	require.Len(t, later, 1, "the hold of the second conversion")
	w.requireList(tn, lines, "currency=EUR&direction=credit", credits...)
	w.requireList(tn, lines, "currency=EUR&direction=debit", debits...)
	w.requireList(tn, lines, "currency=EUR&from="+day.AddDate(0, 0, 1).Format(time.DateOnly), later...)
	w.requireList(tn, lines, "currency=JPY&direction=debit")
	for query, names := range map[string]string{path + "?status=lost": "status must be one of abandoned, ",
		lines + "?currency=EUR&direction=in": "direction must be one of debit, credit",
		lines + "?currency=EUR&from=x":       "from"} {
		r := w.get(tn.all, query)
		w.fails(r, 400, "invalid_query")
		require.Contains(t, r.text("message"), names)
	}
}

func TestRampOrdersAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	const path = "/api/ramp/orders"
	on := w.orderedRamp(tn, "onramp", "10.00")
	w.awaitOrder(tn, on, "processing")
	w.ok(w.sendRampReport(onrampPath, "done", "onramp.completed", on, `,"feeCents":1`))
	day := w.clock.now()
	w.clock.turn(24 * time.Hour)
	off := w.orderedRamp(tn, "offramp", "10.00")
	w.awaitOrder(tn, off, "processing")
	withdrawal := w.orderedRamp(tn, "withdraw", "10.00")
	w.awaitOrder(tn, withdrawal, "processing")
	w.requireList(tn, path, "", withdrawal, off, on)
	w.requireList(tn, path, "status=completed", on)
	w.requireList(tn, path, "status=processing&direction=offramp", off)
	w.requireList(tn, path, "direction=withdraw", withdrawal)
	w.requireList(tn, path, "to="+day.Format(time.DateOnly), on)
	w.requireList(tn, path, "from="+day.AddDate(0, 0, 1).Format(time.DateOnly), withdrawal, off)
	w.requireBadFilters(tn.all, path, map[string]string{"status=lost": "status must be one of created, ",
		"direction=up": "direction"})
}

func TestAgentsAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const path = "/api/agents"
	register := func(name string) string {
		body := fmt.Sprintf(`{"agentName":%q,"protocols":["TAP"]}`, name)
		return w.ok(w.post(w.keyed(tn), path, body)).text("agent", "id")
	}
	active, frozen := register("Cloud buyer"), register("Freight")
	w.ok(w.do(tn.all, "PATCH", path+"/"+frozen, `{"state":"frozen"}`))
	w.requireList(tn, path, "", frozen, active)
	w.requireList(tn, path, "state=frozen", frozen)
	w.requireList(tn, path, "state=active", active)
	w.requireList(tn, path, "state=terminated")
}

func TestCardholdersAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const path = "/api/cardholders"
	made := w.ok(w.post(w.keyed(tn), path, `{"displayName":"Ada L.","kind":"employee"}`))
	id, state := made.text("cardholder", "id"), made.text("cardholder", "state")
	for _, asked := range []string{"pending", "active", "rejected"} {
		want := []string{}
		if asked == state {
			want = []string{id}
		}
		w.requireList(tn, path, "state="+asked, want...)
	}
	w.requireList(tn, path, "", id)
}

// requireBadFilters requires each query to be refused with a text that its message contains.
func (w *world) requireBadFilters(who as, path string, bad map[string]string) {
	w.t.Helper()
	for query, names := range bad {
		r := w.get(who, path+"?"+query)
		w.fails(r, 400, "invalid_query")
		require.Contains(w.t, r.text("message"), names, path+"?"+query)
	}
}

// A bad value of a filter is refused, and the refusal names the parameter.
func TestABadFilterNamesItsParameter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	period := map[string]string{"from=x": "from must", "to=x": "to must",
		"from=2026-11-02&to=2026-11-01": "to must be after from"}
	amounts := map[string]string{"amountFromCents=x": "amountFromCents must",
		"amountToCents=-1":                  "amountToCents must",
		"amountFromCents=1.50":              "amountFromCents must",
		"amountFromCents=2&amountToCents=1": "amountToCents must not be less"}
	for path, bad := range map[string][]map[string]string{
		"/api/treasury/payouts": {period, amounts, {"status=lost": "status must be one of held, "}},
		"/api/treasury/ledger": {period, amounts, {"source=lost": "source must be one of ",
			"transferGroup=x": "transferGroup", "direction=up": "direction must be one of debit, credit"}},
		"/api/treasury/counterparties": {period, {"kind=them": "kind must be one of us, international",
			"name=": "name"}},
		"/api/authorizations": {period, amounts, {"decision=x": "decision", "reason=X": "reason",
			"merchant=": "merchant"}},
		"/api/cards": {{"state=lost": "state must be one of active, ", "holderKind=x": "holderKind",
			"holderLabel=": "holderLabel", "last4=1": "last4", "last4=12a4": "last4"}},
		"/api/agents":      {{"state=lost": "state must be one of active, frozen, terminated"}},
		"/api/cardholders": {{"state=lost": "state must be one of pending, active, rejected"}},
		"/api/mca/payouts": {period, {"status=done": "status"}},
	} {
		for _, group := range bad {
			w.requireBadFilters(tn.all, path, group)
		}
	}
}
