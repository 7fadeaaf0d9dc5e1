package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/partner"
	"purser/actors/workspace"
)

// order returns an order from its own route.
func (w *world) order(tn tenant, id string) testReply {
	w.t.Helper()
	return w.ok(w.get(tn.all, "/api/ramp/orders/"+id))
}

func (w *world) awaitOrder(tn tenant, id, status string) {
	w.t.Helper()
	w.awaitCondition(func() bool { return w.order(tn, id).text("order", "status") == status })
}

// orderLine formats an order as "status amount fee".
func orderLine(r testReply, name string) string {
	return strings.Join([]string{r.text(name, "status"), r.text(name, "amount"), r.text(name, "fee")}, " ")
}

// An account does not exist until it is requested, is pending until the partner links it, and is
// requested once.
func TestARampAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	none := w.ok(w.get(tn.all, "/api/ramp/account"))
	require.JSONEq(t, `{"account":{"id":null,"status":"none"}}`, none.raw)
	asked := w.ok(w.post(tn.all, "/api/ramp/account", ""))
	require.Equal(t, "pending", asked.text("account", "status"))
	w.link(tn)
	again := w.ok(w.post(tn.all, "/api/ramp/account", ""))
	require.Equal(t, asked.text("account", "id"), again.text("account", "id"))
	require.Equal(t, "linked", again.text("account", "status"))
	require.Equal(t, again.raw, w.ok(w.get(tn.all, "/api/ramp/account")).raw)
}

// An on-ramp debits dollars with the order, and credits USDC less the fee with the report.
func TestAnOnramp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	q := w.post(tn.all.once(), "/api/ramp/quotes", rampBody("onramp", "100.5", ""))
	require.Equal(t, 200, q.status, q.raw)
	id := q.text("quote", "id")
	require.JSONEq(t, fmt.Sprintf(`{"quote":{"id":%q,"direction":"onramp","amount":"100.50","receive":"99.50","maxFee":"1.00",
		"rate":"1","expiresAt":"2026-11-20T12:01:00.000Z"}}`, id), q.raw)
	w.awaitBalances(tn, 100_000, 100_000)
	state := func() string { return w.ok(w.get(tn.all, "/api/ramp/quotes/"+id)).text("quote", "status") }
	require.Equal(t, "locked", state())

	who, body := tn.all.once(), fmt.Sprintf(`{"quoteId":%q}`, id)
	made := w.ok(w.post(who, "/api/ramp/orders", body))
	order := made.text("order", "id")
	require.JSONEq(t, fmt.Sprintf(`{"order":{"id":%q,"direction":"onramp","status":"created","amount":"100.50","fee":"1.00",
		"createdAt":"2026-11-20T12:00:00.000Z"}}`, order), made.raw)
	w.awaitBalances(tn, 89_950, 100_000)
	w.awaitOrder(tn, order, "processing")
	require.Equal(t, []partner.RampOrder{{ID: order, WorkspaceID: tn.workspace, Direction: "onramp",
		AmountCents: 10_050,
		MaxFeeCents: 100}}, w.ramp.given)

	w.ok(w.sendRampReport(onrampPath, "done", "onramp.completed", order, `,"feeCents":60`))
	require.Equal(t, "completed 100.50 0.60", orderLine(w.order(tn, order), "order"))
	var steps []string
	for _, step := range w.order(tn, order).at("order", "history").([]any) {
		steps = append(steps, step.(map[string]any)["status"].(string))
	}
	require.Equal(t, []string{"created", "processing", "completed"}, steps)
	require.Equal(t, "used", state())
	w.awaitBalances(tn, 89_950, 109_990)
	again := w.ok(w.post(who, "/api/ramp/orders", body))
	require.Equal(t, made.raw, again.raw, "a repeat is answered though the quote is used")
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
	w.fails(w.post(who, "/api/ramp/orders", `{"quoteId":"another"}`), 422, "idempotency_key_mismatch")
	w.fails(w.orderRamp(tn, "orders", id), 422, "quote_used")
	w.awaitBalances(tn, 89_950, 109_990)
}

// An off-ramp turns USDC into dollars, and a card can spend them.
func TestAnOfframp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	order := w.orderedRamp(tn, balance.RampOff, "1000")
	w.awaitBalances(tn, 100_000, 0)
	w.fails(w.orderRamp(tn, "orders", w.quoteRamp(tn, balance.RampOff, "0.01")), 422, "insufficient_funds")
	w.ok(w.sendRampReport(offrampPath, "done", "offramp.completed", order, ""))
	require.Equal(t, "completed 1000.00 10.00", orderLine(w.order(tn, order), "order"))
	w.awaitBalances(tn, 199_000, 0)
}

// A withdrawal sends USDC to a proven and approved wallet, and the order shows the chain's
// transaction.
func TestAWithdrawal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	wallet := w.approvedWallet(tn)
	made := w.ok(w.orderRamp(tn, "withdrawals", w.quoteRamp(tn, balance.RampWithdraw, "250")))
	id := made.text("withdrawal", "id")
	require.JSONEq(t, fmt.Sprintf(`{"withdrawal":{"id":%q,"direction":"withdraw","status":"created","amount":"250.00","fee":"2.50",
		"createdAt":"2026-11-20T12:00:00.000Z","walletId":%q,"txHash":null}}`, id, wallet), made.raw)
	w.awaitBalances(tn, 100_000, 75_000)
	w.awaitOrder(tn, id, "processing")
	require.Equal(t, &partner.RampWallet{ID: wallet, Chain: "base", Address: evmKey("base", "cold").address},
		w.ramp.given[0].Wallet)
	w.ok(w.sendRampReport(offrampPath, "done", "withdrawal.completed", id, `,"txHash":"0x5e1d"`))
	done := w.order(tn, id)
	require.Equal(t, "completed 250.00 2.50", orderLine(done, "order"))
	require.Equal(t, wallet+" 0x5e1d", done.text("order", "walletId")+" "+done.text("order", "txHash"))
	w.awaitBalances(tn, 100_000, 75_000)
}

// An order that fails, at the partner or by its report, is returned in full.
func TestFailedRampOrdersAreReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.approvedWallet(tn)
	for direction, report := range map[string]string{balance.RampOn: "onramp.failed",
		balance.RampOff:      "offramp.failed",
		balance.RampWithdraw: "withdrawal.failed"} {
		path := offrampPath
		if direction == balance.RampOn {
			path = onrampPath
		}
		reported := w.orderedRamp(tn, direction, "100")
		w.ok(w.sendRampReport(path, "failed "+direction, report, reported, ""))
		w.ramp.answer(nil, partner.ErrRefused)
		refused := w.orderedRamp(tn, direction, "100")
		w.awaitOrder(tn, refused, "failed")
		w.ramp.answer(nil, nil)
		for _, id := range []string{reported, refused} {
			require.Equal(t, "failed 100.00 0.00", orderLine(w.order(tn, id), "order"), direction)
		}
		w.awaitBalances(tn, 100_000, 100_000)
	}
}

// A bad amount is reported before every other fault except the form of the body.
func TestAmountsOfTheRamp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, bad := range []string{"", "0", "0.00", "1.", ".5", "1.234", "1.000", "-1", "+1", "1e3", "01", "00.50",
		" 1",
		"1 ", "1,5",
		"１", "NaN", "0x1", "1_0", "1000000.01", "1000001", "10000000000", "1000000000000000000",
		"99999999999999999999"} {
		r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody("onramp", bad, ""))
		w.fails(r, 400, "invalid_amount")
		require.Contains(t, r.text("message"), "amount: ")
	}
	w.fails(w.post(tn.all.once(), "/api/ramp/quotes", `{"direction":"onramp","amount":"1\u0000"}`), 400, "invalid_body")
	w.fails(w.post(tn.all.once(), "/api/ramp/quotes", `{"direction":"onramp","amount":1}`), 400, "invalid_body")
	w.link(tn)
	for given, shown := range map[string]string{"0.01": "0.01", "0.5": "0.50", "7": "7.00", "1000000": "1000000.00",
		"1000000.0": "1000000.00"} {
		r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody("onramp", given, ""))
		require.Equal(t, "200 "+shown, fmt.Sprint(r.status, " ", r.text("quote", "amount")), r.raw)
	}
}

// The refusals of a quote, in their order. Each changes nothing, and only the last asks the
// partner.
func TestRampQuoteRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.rampTenant("ada"), w.rampTenant("eve")
	anothers := w.approvedWallet(other)
	ask := func(direction, amount, wallet string) string {
		w.t.Helper()
		before := w.settled()
		r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody(direction, amount, wallet))
		if r.status != 200 {
			require.Equal(t, before, w.settled(), "a refused quote changed something")
		}
		return fmt.Sprint(r.status, " ", r.code())
	}
	const unknown = "wal_01m7wd7tg0ewc8h5zq4n1x2y3w"
	require.Equal(t, "400 invalid_body", ask("sideways", "x", ""))
	require.Equal(t, "400 invalid_body", ask("withdraw", "x", ""))
	require.Equal(t, "400 invalid_body", ask("onramp", "x", unknown))
	require.Equal(t, "400 invalid_body", ask("offramp", "x", unknown))
	require.Equal(t, "400 invalid_amount", ask("withdraw", "x", unknown))
	require.Equal(t, "422 capability_unavailable", ask("withdraw", "3000", unknown))
	for _, direction := range []string{"onramp", "offramp"} {
		require.Equal(t, "422 capability_unavailable", ask(direction, "10", ""))
	}
	w.link(tn)
	for _, wallet := range []string{unknown, anothers, "wal_", "x", tn.workspace} {
		require.Equal(t, "404 not_found", ask("withdraw", "3000", wallet), wallet)
	}
	k := solanaKey("hot")
	wallet := w.addWallet(tn, k)
	require.Equal(t, "422 travel_rule_unsupported", ask("withdraw", "3000", wallet))
	require.Equal(t, "422 travel_rule_unsupported", ask("withdraw", "1000000", wallet))
	require.Equal(t, "422 capability_unavailable", ask("withdraw", "2999.99", wallet), "unproven")
	require.Zero(t, w.ramp.asked)
	w.ok(w.prove(tn.owner(), wallet, w.proofOf(tn, wallet, k)))
	w.awaitCondition(func() bool { return w.wallet(tn, wallet)["status"] == "approved" })
	require.Equal(t, "422 travel_rule_unsupported", ask("withdraw", "3000", wallet))
	require.Zero(t, w.ramp.asked)
	w.ramp.answer(partner.ErrRefused, nil)
	require.Equal(t, "422 capability_unavailable", ask("withdraw", "2999.99", wallet))
	w.ramp.answer(errBroken, nil)
	require.Equal(t, "503 unavailable", ask("withdraw", "2999.99", wallet))
	w.ramp.answer(nil, nil)
	require.Equal(t, "200 ", ask("withdraw", "2999.99", wallet))
	require.Equal(t, "200 ", ask("onramp", "3000", ""), "of money that stays here the rule says nothing")
}

func TestRampQuotesOfAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.RateLimits = RateLimits{PerKey: 10_000, PerWorkspace: 10_000,
			PerAddress: 100_000}
	})
	tn := w.newTenant("ada")
	w.link(tn)
	who := tn.all.once()
	first := w.post(who, "/api/ramp/quotes", rampBody("onramp", "1", ""))
	for range quotesPerMinute - 1 {
		w.quoteRamp(tn, balance.RampOn, "1")
	}
	r := w.post(tn.all.once(), "/api/ramp/quotes", rampBody("onramp", "1", ""))
	w.fails(r, 429, "rate_limited")
	require.NotEmpty(t, r.header("Retry-After"))
	require.Equal(t, first.raw, w.post(who, "/api/ramp/quotes", rampBody("onramp", "1", "")).raw,
		"a repeat is no quote")
	w.clock.turn(rateWindow)
	w.quoteRamp(tn, balance.RampOn, "1")
}

// The refusals of an order, in their order. Each changes nothing.
func TestRampOrderRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.rampTenant("ada"), w.newTenant("eve")
	w.link(other)
	on, out := w.quoteRamp(other, balance.RampOn, "1"), w.quoteRamp(tn, balance.RampWithdraw, "1000.01")
	refused := func(route, quote, code string) {
		t.Helper()
		w.ok(w.get(tn.all, "/api/workspaces")) // records the key's use in this minute
		before := w.settled()
		r := w.orderRamp(tn, route, quote)
		require.Equal(t, code, fmt.Sprint(r.status, " ", r.code()), r.raw)
		require.Equal(t, before, w.settled(), "a refused order changed something")
	}
	for _, route := range []string{"orders", "withdrawals"} {
		for _, unknown := range []string{on, "rq_01m7wd7tg0ewc8h5zq4n1x2y3w", "rq_", "x", "ro" + out[2:],
			tn.workspace} {
			refused(route, unknown, "404 quote_not_found")
		}
	}
	dollars, coins := w.quoteRamp(tn, balance.RampOn, "1000.01"), w.quoteRamp(tn, balance.RampOff, "1000.01")
	fits, used := w.quoteRamp(tn, balance.RampOn, "1"), w.quoteRamp(tn, balance.RampOff, "1")
	w.ok(w.orderRamp(tn, "orders", used))
	refused("orders", out, "422 quote_mismatch")
	refused("withdrawals", dollars, "422 quote_mismatch")
	refused("withdrawals", used, "422 quote_mismatch")
	refused("orders", used, "422 quote_used")
	for route, quote := range map[string]string{"orders": coins, "withdrawals": out} {
		refused(route, quote, "422 insufficient_funds")
	}
	refused("orders", dollars, "422 insufficient_funds")
	w.clock.turn(balance.RampLock - time.Millisecond)
	w.ok(w.orderRamp(tn, "orders", fits))
	refused("orders", dollars, "422 insufficient_funds")
	w.clock.turn(time.Millisecond)
	refused("orders", dollars, "422 quote_expired")
	refused("orders", used, "422 quote_used")
	refused("withdrawals", dollars, "422 quote_mismatch")
	refused("withdrawals", out, "422 quote_expired")
}

// No route of the ramp requires an Idempotency-Key. A given key must be valid, and identifies a
// repeat.
func TestTheRampTakesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, path := range []string{"quotes", "orders", "withdrawals"} {
		w.fails(w.post(tn.all, "/api/ramp/"+path, "{"), 400, "invalid_body")
		w.fails(w.post(tn.all.with("Idempotency-Key", "x"), "/api/ramp/"+path, "{"), 400, "invalid_idempotency_key")
		w.fails(w.post(tn.all.once(), "/api/ramp/"+path, "{"), 400, "invalid_body")
	}
	w.link(tn)
	once := tn.all.once()
	first := w.post(once, "/api/ramp/wallets", `{"chain":"base","address":"`+evmKey("base", "cold").address+`"}`)
	w.ok(first)
	require.Equal(t, first.raw, w.post(once, "/api/ramp/wallets",
		`{"chain":"base","address":"`+evmKey("base", "cold").address+`"}`).raw)
}

// Without a key, the single-use quote bounds repeats: the first request creates the only order.
func TestAnOrderWithoutAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	for route, direction := range map[string]string{"orders": balance.RampOn, "withdrawals": balance.RampWithdraw} {
		wallet := ""
		if direction == balance.RampWithdraw {
			wallet = w.approvedWallet(tn)
		}
		quote := w.ok(w.post(tn.all, "/api/ramp/quotes", rampBody(direction, "10", wallet))).text("quote", "id")
		other := w.ok(w.post(tn.all, "/api/ramp/quotes", rampBody(direction, "10", wallet))).text("quote", "id")
		require.NotEqual(t, quote, other, "a repeat without a key is a quote of its own")
		replies := make([]testReply, atOnce)
		var group sync.WaitGroup
		for i := range replies {
			group.Go(func() { replies[i] = w.post(tn.all, "/api/ramp/"+route, fmt.Sprintf(`{"quoteId":%q}`, quote)) })
		}
		group.Wait()
		made := 0
		for _, r := range replies {
			if r.status == http.StatusOK {
				made++
				continue
			}
			w.fails(r, 422, "quote_used")
		}
		require.Equal(t, 1, made)
		w.fails(w.post(tn.all, "/api/ramp/"+route, fmt.Sprintf(`{"quoteId":%q}`, quote)), 422, "quote_used")
	}
	require.Len(t, w.ok(w.get(tn.all, "/api/ramp/orders")).at("data"), 2)
}

// Concurrent requests with one quote create one order. Concurrent repeats of one request get
// the same answer.
func TestConcurrentRampOrders(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	w := newWorld(t)
	tn := w.rampTenant("ada")
	w.link(tn)
	for _, c := range []struct {
		direction       string
		usd, stablecoin int
	}{{balance.RampOn, 99_000, 100_000}, {balance.RampOff, 99_000, 99_000}} {
		body := fmt.Sprintf(`{"quoteId":%q}`, w.quoteRamp(tn, c.direction, "10"))
		same := tn.all.once()
		replies := make([]testReply, 2*atOnce)
		var group sync.WaitGroup
		for i := range replies {
			who := same
			if i%2 == 1 {
				who = tn.all.once()
			}
			group.Go(func() { replies[i] = w.post(who, "/api/ramp/orders", body) })
		}
		group.Wait()
		orders := map[string]bool{}
		for _, r := range replies {
			if r.status == http.StatusOK {
				orders[r.text("order", "id")] = true
				continue
			}
			w.fails(r, 422, "quote_used")
		}
		require.Len(t, orders, 1)
		w.awaitBalances(tn, c.usd, c.stablecoin)
	}
}

// Orders of all directions are in one list, newest first. The partner has taken all of them, so
// that reads do not differ.
func TestTheListOfRampOrders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.rampTenant("ada"), w.rampTenant("eve")
	w.approvedWallet(tn)
	w.link(other)
	w.orderedRamp(other, balance.RampOn, "1")
	var want []string
	for range 2 {
		for _, direction := range []string{balance.RampOn, balance.RampOff, balance.RampWithdraw} {
			want = append(want, w.orderedRamp(tn, direction, "1"))
		}
	}
	slices.Reverse(want)
	// a report does not move an order in the list
	w.ok(w.sendRampReport(onrampPath, "done", "onramp.completed", want[5], ""))
	w.settled()
	var got []string
	for next := ""; ; {
		path := "/api/ramp/orders?limit=4"
		if next != "" {
			path += "&cursor=" + next
		}
		page := w.ok(w.get(tn.all, path))
		for i := range page.at("data").([]any) {
			got = append(got, page.text("data", i, "id"))
			one := w.order(tn, page.text("data", i, "id")).at("order").(map[string]any)
			delete(one, "history") // of one order only
			require.Equal(t, page.at("data", i), one)
		}
		if next = page.text("nextCursor"); next == "" {
			break
		}
	}
	require.Equal(t, want, got)
	w.fails(w.get(other.all, "/api/ramp/orders/"+want[0]), 404, "not_found")
	w.fails(w.get(tn.all, "/api/ramp/orders?wallet=x"), 400, "invalid_query")
}

// Sessions of the retired routes are still shown: the list has those of the on-ramp, newest first,
// and every session can be read by its id.
func TestOlderRampSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.rampTenant("ada"), w.rampTenant("eve")
	first, off, last := w.olderSession(tn, balance.RampOn), w.olderSession(tn, balance.RampOff),
		w.olderSession(tn, balance.RampOn)
	w.ok(w.sendRampReport(onrampPath, "done", "onramp.completed", first, ""))
	list := w.ok(w.get(tn.all, "/api/ramp/onramp/sessions"))
	require.JSONEq(t, fmt.Sprintf(`{"data":[
		{"id":%q,"direction":"onramp","status":"processing","amount":"30.00","hostedUrl":"https://ramp.example/s/1",
			"createdAt":"2026-11-20T12:00:00.000Z"},
		{"id":%q,"direction":"onramp","status":"completed","amount":"30.00","hostedUrl":"https://ramp.example/s/1",
			"createdAt":"2026-11-20T12:00:00.000Z"}],"nextCursor":null}`, last, first), list.raw)
	for id, status := range map[string]string{first: "completed", off: "processing", last: "processing"} {
		require.Equal(t, status, w.ok(w.get(tn.all, "/api/ramp/sessions/"+id)).text("session", "status"))
		w.fails(w.get(other.all, "/api/ramp/sessions/"+id), 404, "not_found")
		w.fails(w.get(tn.all, "/api/ramp/orders/"+id), 404, "not_found")
	}
	require.Empty(t, w.ok(w.get(other.all, "/api/ramp/onramp/sessions")).at("data"))
}

// A retired route names its replacement to every permitted caller, in every mode and for any body.
func TestRetiredRampRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.ok(w.get(tn.all, "/api/workspaces"))
	w.ok(w.get(key(tn.firstSecret), "/api/workspaces"))
	before := w.settled()
	for _, path := range []string{"/api/ramp/onramp/sessions", "/api/ramp/offramp/sessions", "/api/ramp/quote"} {
		w.fails(w.post(nil, path, "{}"), 401, "unauthorized")
		w.fails(w.post(key(tn.firstSecret), path, "{}"), 403, "missing_scope:write:ramps")
		for _, who := range []as{tn.all, tn.all.once(), tn.all.with("Idempotency-Key", "x")} {
			for _, body := range []string{"", "{", `{"amount":"1"}`} {
				r := w.post(who, path, body)
				require.Equal(t, `410 {"error":"gone","use":"/api/ramp/orders"}`, fmt.Sprint(r.status, " ", r.raw))
			}
		}
	}
	require.Equal(t, before, w.settled())
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	w.fails(w.post(tn.all, "/api/ramp/quote", ""), 410, "gone")
}

// A deployment without the ramp refuses every write before any other check, and still shows
// existing records.
func TestUnconnectedRampRefusesWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.rampTenant("ada")
	wallet := w.approvedWallet(tn)
	order := w.orderedRamp(tn, balance.RampOff, "1")
	w.awaitOrder(tn, order, "processing")
	w.serveAnew(func(c *Config) { c.NoRamp = true })
	before := w.settled()
	for _, path := range []string{"account", "wallets", "quotes", "orders", "withdrawals"} {
		w.fails(w.post(tn.all, "/api/ramp/"+path, "{"), 422, "capability_unavailable")
	}
	w.fails(w.prove(tn.owner(), wallet, "{"), 422, "capability_unavailable")
	require.Equal(t, before, w.settled())
	require.Equal(t, "processing", w.order(tn, order).text("order", "status"))
	require.Equal(t, "approved", w.wallet(tn, wallet)["status"])
	require.Equal(t, "linked", w.ok(w.get(tn.all, "/api/ramp/account")).text("account", "status"))
}
