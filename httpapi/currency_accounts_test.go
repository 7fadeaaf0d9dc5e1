package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
)

// A workspace is onboarded, opens balances, gets their bank details, receives a payment and lists
// it as activity.
func TestMoneyInCurrencies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	none := w.ok(w.get(tn.all, "/api/mca/accounts"))
	require.Equal(t, "[]", fmt.Sprint(none.at("accounts")))
	require.Equal(t, false, none.at("preview"))
	require.Equal(t, true, w.ok(w.get(tn.all, "/api/mca/onboarding")).at("actionRequired"))
	accepted := w.ok(w.post(tn.owner(), "/api/mca/onboarding", ""))
	require.Equal(t, []any{"approved", false, true}, []any{accepted.text("kybStatus"), accepted.at("actionRequired"),
		accepted.at("sandboxAutoAccepted")})
	for _, path := range []string{"/api/workspaces", "/api/mca/accounts", "/api/mca/onboarding"} {
		require.Contains(t, w.ok(w.get(tn.all, path)).raw, `"kybStatus":"approved"`, path)
	}
	opened := w.ok(w.post(tn.owner().once(), "/api/mca/accounts/EUR", ""))
	require.Equal(t, "opening", opened.text("account", "status"))
	require.Equal(t, "[]", fmt.Sprint(w.ok(w.get(tn.all, "/api/mca/accounts/EUR/details")).at("details")))
	w.fails(w.payInNow(tn, "EUR", "1"), 409, "account_not_ready")
	w.fails(w.post(tn.owner().once(), "/api/mca/accounts/EUR", ""), 409, "currency_account_exists")
	w.open(tn, "JPY")
	w.opened(tn, "EUR")
	details := w.ok(w.get(tn.owner(), "/api/mca/accounts/EUR/details"))
	require.Equal(t, "Workspace mine", details.text("details", 0, "holderName"))
	require.Len(t, details.text("details", 0, "fields", "iban"), 22)
	// the sandbox's invented details must not receive real money
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	live := w.ok(w.get(tn.owner(), "/api/mca/accounts/EUR/details"))
	require.Equal(t, "pending []", live.text("status")+" "+fmt.Sprint(live.at("details")))
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Sandbox})
	w.fails(w.get(tn.all, "/api/mca/accounts/GBP/details"), 404, "not_found")
	w.fails(w.get(tn.all, "/api/mca/accounts/ZZZ/details"), 400, "invalid_currency")

	r := w.payInNow(tn, "EUR", "123456")
	require.Equal(t, "202 pending 1234.56 EUR", fmt.Sprint(r.status, " ", r.text("payin", "status"), " ",
		r.text("payin", "amount", "display")))
	require.Equal(t, []any{"0", "123456"}, []any{w.balanceOf(tn, "EUR")["availableMinor"],
		w.balanceOf(tn, "EUR")["pendingMinor"]})
	w.clock.turn(3 * time.Second)
	w.awaitCondition(func() bool { return w.balanceOf(tn, "EUR")["availableMinor"] == "123456" })
	require.Equal(t, "0", w.balanceOf(tn, "JPY")["availableMinor"])
	lines := w.ok(w.get(tn.all, "/api/mca/activity?currency=EUR"))
	require.Equal(t, "pay_in credit 1234.56 EUR Invoice 7", strings.Join([]string{lines.text("data", 0, "kind"),
		lines.text("data", 0, "direction"), lines.text("data", 0, "amount", "display"),
		lines.text("data", 0, "reference")}, " "))
	require.Nil(t, lines.at("data", 1))
	w.fails(w.get(tn.all, "/api/mca/activity"), 400, "currency_required")
	w.fails(w.get(tn.all, "/api/mca/activity?currency=eur"), 400, "invalid_currency")
	require.Equal(t, 0, w.ok(w.get(tn.all, "/api/treasury")).cents("snapshot", "totalUsdCents"),
		"a balance in a currency is no dollars")
}

func (w *world) payInNow(tn tenant, currency, minor string) testReply {
	w.t.Helper()
	return w.post(tn.owner(), "/api/dev/mca/simulate-payin",
		fmt.Sprintf(`{"currency":%q,"amountMinor":%q,"reference":"Invoice 7"}`, currency, minor))
}

// An amount in any other notation is refused by name. A valid amount is exact to the smallest unit.
func TestAmountsInCurrenciesAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.open(tn, "JPY", "KWD")
	for _, bad := range []string{"", "0", "00", "01", "-1", "+1", "1.0", "1.", ".5", "1,000", "1e3", "1E3", "0x10",
		"１２", "٣",
		" 1", "1 ", "1_000", "1000000000000000001", "9223372036854775808", "10000000000000000000",
		"99999999999999999999999",
		"NaN", "Infinity", "null"} {
		w.fails(w.payInNow(tn, "KWD", bad), 400, "invalid_body")
	}
	for _, raw := range []string{`1`, `1.5`, `null`, `true`, `["1"]`, `1e18`} {
		w.fails(w.post(tn.owner(), "/api/dev/mca/simulate-payin", `{"currency":"KWD","amountMinor":`+raw+`}`), 400,
			"invalid_body")
	}
	require.Equal(t, "0", w.balanceOf(tn, "KWD")["availableMinor"])
	for _, c := range []struct{ currency, minor, display string }{{"KWD", "1", "0.001 KWD"},
		{"KWD", "1000000000000000000", "1000000000000000.000 KWD"}, {"JPY", "1", "1 JPY"},
		{"JPY", "999999999999999999", "999999999999999999 JPY"}} {
		r := w.payInNow(tn, c.currency, c.minor)
		require.Equal(t, "202 "+c.display, fmt.Sprint(r.status, " ", r.text("payin", "amount", "display")))
	}
	w.clock.turn(3 * time.Second)
	w.awaitCondition(func() bool { return w.balanceOf(tn, "KWD")["availableMinor"] == "1000000000000000001" })
	w.awaitCondition(func() bool { return w.balanceOf(tn, "JPY")["availableMinor"] == "1000000000000000000" })
	require.EqualValues(t, 3, w.balanceOf(tn, "KWD")["exponent"])
	require.EqualValues(t, 0, w.balanceOf(tn, "JPY")["exponent"])
	for range 2 {
		require.Equal(t, 202, w.payInNow(tn, "KWD", "1000000000000000000").status)
	}
	w.fails(w.payInNow(tn, "KWD", "1000000000000000000"), 422, "limit_exceeded")
}

// Each refusal to open a balance has its code.
func TestRefusalsToOpenACurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	for currency, want := range map[string]string{"INR": "422 currency_unavailable", "BRL": "422 currency_restricted",
		"HKD": "422 currency_not_eligible", "ZZZ": "400 invalid_currency", "eur": "400 invalid_currency",
		"€": "400 invalid_currency"} {
		got := w.post(tn.owner().once(), "/api/mca/accounts/"+currency, "")
		require.Equal(t, want, fmt.Sprint(got.status, " ", got.code()), currency)
	}
	w.fails(w.post(tn.owner(), "/api/mca/accounts/EUR", ""), 400, "idempotency_key_required")
	w.fails(w.post(tn.owner().with("Idempotency-Key", "x"), "/api/mca/accounts/EUR", ""), 400,
		"invalid_idempotency_key")
	w.fails(w.post(tn.all.once(), "/api/mca/accounts/EUR", ""), 403, "session_required")
	who := tn.owner().once()
	first := w.ok(w.post(who, "/api/mca/accounts/EUR", ""))
	require.Equal(t, first.raw, w.ok(w.post(who, "/api/mca/accounts/EUR", "")).raw, "a repeat is answered the same")
	covered := w.ok(w.get(tn.all, "/api/mca/accounts")).at("coverage", "currencies").([]any)
	require.Len(t, covered, 13)
}

// The estimate distinguishes a malformed request from a pair that cannot be converted.
func TestRateEstimates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	estimate := func(query string) string {
		r := w.get(tn.owner(), "/api/mca/rates?"+query)
		if r.status == 200 {
			return r.text("sell", "display") + " for " + r.text("buy", "display")
		}
		return fmt.Sprint(r.status, " ", r.code())
	}
	for query, want := range map[string]string{
		"from=USD&to=JPY":                                "1.00 USD for 149 JPY",
		"from=USD&to=KWD&amount=10":                      "10.00 USD for 3.072 KWD",
		"from=KWD&to=JPY&amount=0.001":                   "422 invalid_amount", // less than half a yen
		"from=USD&to=JPY&amount=1000&fixedSide=buy":      "6.69 USD for 1000 JPY",
		"from=USD&to=EUR&amount=12.50":                   "12.50 USD for 11.44 EUR",
		"from=USD&to=EUR&amount=12.500":                  "12.50 USD for 11.44 EUR",
		"from=USD&to=EUR&amount=1.005":                   "422 invalid_amount",
		"from=USD&to=JPY&amount=1.5&fixedSide=buy":       "422 invalid_amount",
		"from=USD&to=EUR&amount=0":                       "422 invalid_amount",
		"from=USD&to=EUR&amount=99999999999999999999999": "422 invalid_amount",
		"from=USD&to=EUR&amount=-1":                      "400 invalid_amount",
		"from=USD&to=EUR&amount=1e3":                     "400 invalid_amount",
		"from=USD&to=EUR&amount=.5":                      "400 invalid_amount",
		"from=USD&to=EUR&amount=":                        "400 invalid_amount",
		"from=USD&to=EUR&amount=%EF%BC%91":               "400 invalid_amount",
		"from=USD&to=USD":                                "422 same_currency",
		"from=USD&to=ZZZ":                                "400 invalid_currency",
		"from=USD":                                       "400 invalid_currency",
		"from=USD&to=INR":                                "422 currency_unavailable",
		"from=BRL&to=USD":                                "422 currency_restricted",
		"from=HKD&to=USD":                                "422 currency_not_eligible",
		"from=MXN&to=USD":                                "422 currency_unavailable",
		"from=CHF&to=SGD":                                "422 rate_unavailable",
		"from=SGD&to=CHF&amount=1":                       "1.00 SGD for 0.66 CHF",
		"from=USD&to=EUR&fixedSide=both":                 "400 invalid_query",
	} {
		require.Equal(t, want, estimate(query), query)
	}
	w.fails(w.get(tn.all, "/api/mca/rates?from=USD&to=EUR"), 403, "session_required")
}

// While multi-currency is not connected, reads are answered and every other request is refused.
func TestMultiCurrencyNotConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.NoCurrencies = true })
	tn := w.newTenant("mine")
	shown := w.ok(w.get(tn.all, "/api/mca/accounts"))
	require.Equal(t, true, shown.at("preview"))
	require.Equal(t, map[string]any{"convert": false, "estimate": false, "send": false}, shown.at("features"))
	w.ok(w.get(tn.all, "/api/mca/activity?currency=EUR"))
	w.ok(w.get(tn.all, "/api/mca/onboarding"))
	before := w.settled()
	for _, path := range []string{"/api/mca/accounts/EUR", "/api/mca/onboarding", "/api/dev/mca/simulate-payin"} {
		w.fails(w.post(tn.owner(), path, ""), 422, "capability_unavailable")
	}
	w.fails(w.get(tn.all, "/api/mca/accounts/EUR/details"), 422, "capability_unavailable")
	w.fails(w.get(tn.owner(), "/api/mca/rates?from=USD&to=EUR"), 422, "capability_unavailable")
	require.Equal(t, before, w.settled())
}

// Unavailable routes refuse every authenticated request and write nothing. Existing records are
// still shown.
func TestInternationalPaymentsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	id := w.newEstate(tn).id("international_payment")
	w.ok(w.get(tn.all, "/api/workspaces")) // records the key's use in this minute
	before := w.settled()
	for _, path := range []string{"/api/payments/international/quote", "/api/payments/international"} {
		for _, body := range []string{"", "{",
			`{"sourceAsset":"USDC","amountUsdCents":100,"destinationCurrency":"EUR","destinationCountry":"DE"}`} {
			w.fails(w.post(tn.all, path, body), 422, "capability_unavailable")
		}
		w.fails(w.post(nil, path, "{}"), 401, "unauthorized")
	}
	for _, path := range []string{"/api/mca/payouts/quotes", "/api/mca/payouts"} {
		w.fails(w.post(tn.owner(), path, "{}"), 422, "capability_unavailable")
	}
	require.Equal(t, before, w.settled())
	require.Equal(t, id, w.ok(w.get(tn.all, "/api/payments/international")).text("data", 0, "id"))
	require.Equal(t, id, w.ok(w.get(tn.all, "/api/payments/international/"+id)).text("payment", "id"))
	require.Equal(t, `{"data":[],"nextCursor":null}`, w.ok(w.get(tn.all, "/api/mca/payouts?status=in_progress")).raw)
	w.fails(w.get(tn.all, "/api/mca/payouts?status=done"), 400, "invalid_query")
}
