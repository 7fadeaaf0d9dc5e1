package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/workspace"
	"purser/httpapi/webhook"
)

const checkoutPath = "/api/v1/checkout/sessions"

// newCheckout creates a link of 25 dollars; extra holds more members of the body.
func (w *world) newCheckout(tn tenant, extra string) testReply {
	w.t.Helper()
	return w.ok(w.post(tn.all, checkoutPath, `{"amountUsdCents":2500,"successUrl":"https://shop.example/thanks"`+extra+`}`))
}

func (w *world) pick(id, asset, chain string) testReply {
	w.t.Helper()
	return w.post(nil, checkoutPath+"/"+id+"/select", fmt.Sprintf(`{"asset":%q,"chain":%q}`, asset, chain))
}

func (w *world) checkoutStatus(id string) testReply {
	w.t.Helper()
	return w.ok(w.get(nil, checkoutPath+"/"+id+"/status"))
}

// observe reports a payment on Polygon to a session, as its watcher would.
func (w *world) observe(tn tenant, id, tx, units string, confirmations int) {
	w.t.Helper()
	address := w.ok(w.get(tn.all, checkoutPath+"/"+id)).text("session", "receivingAddresses", 0, "address")
	noted, err := w.system.Ask(w.t.Context(), actors.Envelope{Kind: "checkout", Stream: id, Workspace: tn.workspace,
		Command: checkout.Observed{Chain: "polygon", Asset: "USDC", Address: address, TxHash: tx, Amount: units,
			Block:     7,
			BlockHash: "0xb", Confirmations: confirmations, Threshold: 50, At: w.clock.now(), From: "0xpayer"}})
	require.NoError(w.t, err)
	require.Equal(w.t, checkout.NotedNew, noted)
}

func (w *world) stablecoins(tn tenant) int {
	w.t.Helper()
	treasury := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(w.t, "stablecoin", treasury.text("balances", 1, "account"))
	cents := treasury.cents("balances", 1, "availableCents")
	require.Equal(w.t, cents, treasury.cents("snapshot", "stablecoinUsdCents"))
	require.Equal(w.t, cents+treasury.cents("snapshot", "fiatUsdCents"), treasury.cents("snapshot", "totalUsdCents"))
	return cents
}

// Metadata is free-form: every view of a link shows it as it was given, digit by digit.
func TestMetadataIsKeptAsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	given := `{"big":9223372036854775808,"deep":[{"n":-123456789012345678901234567890.10}],"exact":1.50,` +
		`"huge":1e308,"tiny":1E-400,"zero":-0.0}`
	made := w.newCheckout(tn, `,"metadata":`+given)
	shown := `"metadata":` + given + `}`
	id := made.text("session", "id")
	require.Contains(t, made.raw, shown)
	require.Contains(t, w.ok(w.get(tn.all, checkoutPath+"/"+id)).raw, shown)
	require.Contains(t, w.ok(w.get(tn.all, checkoutPath)).raw, shown)
	tools, refused := w.called(tn.all, "get_checkout_session", `{"sessionId":"`+id+`"}`)
	require.Nil(t, refused)
	require.Contains(t, tools, shown)

	members := strings.Repeat(`"k":0,`, 400)
	for i := range 400 {
		members = strings.Replace(members, `"k"`, fmt.Sprintf(`"%d"`, i), 1)
	}
	w.newCheckout(tn, `,"metadata":{"many":{`+strings.TrimSuffix(members, ",")+`}}`)
	fits := strings.Repeat("<", 8<<10-len(`{"k":""}`))
	require.Equal(t, fits, w.newCheckout(tn, `,"metadata":{"k":"`+fits+`"}`).text("session", "metadata", "k"))
	w.fails(w.post(tn.all, checkoutPath, `{"amountUsdCents":1,"successUrl":"https://a.example","metadata":{"k":"<`+
		fits+`"}}`), 400, "invalid_body")
}

func TestCheckoutIsPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	made := w.newCheckout(tn, `,"acceptedAssets":["USDC","ETH"],"acceptedChains":["polygon","base","bitcoin"],"metadata":{"n":9007199254740993},
		"merchantReference":"order-1","description":"two <b>books</b>","cancelUrl":"http://shop.example/cart"`)
	id := made.text("session", "id")
	require.Equal(t, "pending", made.text("session", "status"))
	require.Equal(t, "http://purser.test/checkout/"+id, made.text("session", "hostedUrl"))
	require.Equal(t, []any{"polygon", "base"}, made.at("session", "acceptedChains"),
		"what nothing can be paid on is dropped")
	require.Len(t, made.at("session", "receivingAddresses"), 3)
	require.Equal(t, map[string]any{"ETH": "3150.42"}, made.at("session", "prices"))
	require.Contains(t, made.raw, `"metadata":{"n":9007199254740993}`)
	require.Equal(t, true, made.at("session", "sandbox"), "a sandbox workspace")

	w.fails(w.post(tn.all, checkoutPath+"/"+id+"/simulate", ""), 422, "asset_chain_not_selected")
	w.fails(w.pick(id, "ETH", "polygon"), 400, "pair_not_supported")
	w.fails(w.pick(id, "SOL", "solana"), 400, "pair_not_supported")
	w.fails(w.pick(id, "DOGE", "solana"), 400, "invalid_body")
	picked := w.ok(w.pick(id, "ETH", "base"))
	require.Equal(t, "0.00793545", picked.text("amount"), "rounded up")
	picked = w.ok(w.pick(id, "USDC", "polygon"))
	require.Equal(t, "25000000", picked.text("amountUnits"))
	require.Equal(t, made.text("session", "receivingAddresses", 0, "address"), picked.text("address"))
	status := w.checkoutStatus(id)
	require.Equal(t, "awaiting_payment", status.text("status"))
	require.Nil(t, status.at("address"), "only once a payment is seen")

	w.observe(tn, id, "0xa", "25000000", 20)
	status = w.checkoutStatus(id)
	require.Equal(t, "confirming", status.text("status"))
	require.Equal(t, 1, status.cents("confirmations", "seen"))
	require.Equal(t, "polygon", status.text("chain"))
	w.fails(w.pick(id, "USDC", "base"), 409, "payment_seen")
	require.Zero(t, w.stablecoins(tn))

	w.observe(tn, id, "0xa", "25000000", 50)
	w.settled()
	require.Equal(t, "completed", w.checkoutStatus(id).text("status"))
	require.NotNil(t, w.checkoutStatus(id).at("completedAt"))
	require.Empty(t, w.checkoutStatus(id).at("receivingAddresses"))
	require.Equal(t, 2500, w.stablecoins(tn))
	treasury := w.ok(w.get(tn.all, "/api/treasury"))
	require.Equal(t, "checkout credit "+id, treasury.text("ledger", 0, "source")+" "+treasury.text("ledger", 0,
		"direction")+" "+
		treasury.text("ledger", 0, "reference"))
	full := w.ok(w.get(tn.all, checkoutPath+"/"+id))
	require.Equal(t, "0xa from 0xpayer", full.text("session", "txHash")+" from "+full.text("session", "payerAddress"))
	require.Equal(t, "completed", w.ok(w.post(tn.all, checkoutPath+"/"+id+"/simulate", "")).text("session", "status"),
		"again 200")
	w.settled()
	require.Equal(t, 2500, w.stablecoins(tn), "and credited once")
}

// A payment within the tolerance completes a link. The merchant sees the amount, the payment and
// the shortfall, and is credited with the payment. The customer does not see the tolerance.
func TestAShortPaymentWithinTheToleranceIsCreditedAsReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.CheckoutTolerance = checkout.Tolerance{BasisPoints: 50, Cents: 1} })
	tn := w.newTenant("merchant")
	made := w.newCheckout(tn, `,"acceptedChains":["polygon"]`)
	id := made.text("session", "id")
	require.Equal(t, 12, made.cents("session", "toleranceUsdCents"))
	require.Zero(t, made.cents("session", "shortfallUsdCents"))
	w.ok(w.pick(id, "USDC", "polygon"))
	require.NotContains(t, w.checkoutStatus(id).raw, "tolerance")
	w.observe(tn, id, "0xa", "24880000", 50)
	w.settled()
	full := w.ok(w.get(tn.all, checkoutPath+"/"+id))
	require.Equal(t, "completed", full.text("session", "status"))
	require.Equal(t, []int{2500, 2488, 0, 12}, []int{full.cents("session", "amountUsdCents"),
		full.cents("session", "receivedUsdCents"), full.cents("session", "dueUsdCents"),
		full.cents("session", "shortfallUsdCents")})
	require.Equal(t, 2488, w.stablecoins(tn))

	exact := w.newCheckout(tn, `,"acceptedChains":["polygon"]`).text("session", "id")
	w.ok(w.pick(exact, "USDC", "polygon"))
	w.observe(tn, exact, "0xb", "24870000", 50)
	require.Equal(t, "underpaid", w.checkoutStatus(exact).text("status"), "a cent beyond the tolerance")
}

// A member neither reads nor changes payment links, on the pages as over REST.
func TestAMemberDoesNotCancelALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	id := w.newCheckout(tn, "").text("session", "id")
	_, cookie := w.person(tn, workspace.Member)
	member := session(cookie).with("X-Workspace-Id", tn.workspace)
	w.fails(w.post(member, "/api/dashboard/checkout/sessions/"+id+"/cancel", ""), 403, "role_required")
	page := "/dashboard/" + tn.workspace + "/checkout/" + id
	require.Equal(t, 403, w.visit(session(cookie), page, nil).status)
	require.Equal(t, 403, w.visit(session(cookie), page+"/cancel", url.Values{}).status)
	require.Equal(t, "pending", w.checkoutStatus(id).text("status"))
	_, cookie = w.person(tn, workspace.Admin)
	require.Equal(t, 303, w.visit(session(cookie), page+"/cancel", url.Values{}).status)
}

// Members see, and owners and admins act: a route that names members reads, or ends the caller's
// own membership.
func TestRoutesForMembersChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range w.server.table {
		if slices.Contains(r.roles, workspace.Member) && r.path != "/api/dashboard/members/leave" {
			require.Equal(t, "GET", r.method, r.path)
		}
	}
}

func TestCheckoutEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	cancel := func(id string) testReply {
		return w.post(session(tn.cookie), "/api/dashboard/checkout/sessions/"+id+"/cancel", "")
	}
	pending := w.newCheckout(tn, `,"metadata":{"k":[1],"service_cancelled_at":"mine"}`).text("session", "id")
	w.clock.turn(time.Minute)
	cancelled := w.ok(cancel(pending))
	require.Equal(t, "expired", cancelled.text("session", "status"))
	require.Equal(t, "2026-11-20T12:01:00.000Z", cancelled.text("session", "expiresAt"))
	require.Equal(t, "2026-11-20T12:01:00.000Z", cancelled.text("session", "metadata", "service_cancelled_at"))
	require.Equal(t, []any{1.0}, cancelled.at("session", "metadata", "k"), "other metadata is kept")
	w.clock.turn(time.Minute)
	require.JSONEq(t, cancelled.raw, w.ok(cancel(pending)).raw, "a second time")
	require.Equal(t, true, w.checkoutStatus(pending).at("cancelled"))
	w.fails(w.pick(pending, "USDC", "polygon"), 410, "link_ended")
	w.fails(w.post(tn.all, checkoutPath+"/"+pending+"/simulate", ""), 409, "link_expired")
	w.fails(w.post(tn.all, "/api/dashboard/checkout/sessions/"+pending+"/cancel", ""), 403, "session_required")

	late := w.newCheckout(tn, `,"expiresInSeconds":300,"acceptedChains":["polygon"]`).text("session", "id")
	w.ok(w.pick(late, "USDC", "polygon"))
	w.clock.turn(5 * time.Minute)
	require.Equal(t, "expired", w.checkoutStatus(late).text("status"), "at once, whatever is still looked for")
	require.Equal(t, false, w.checkoutStatus(late).at("cancelled"))
	require.Equal(t, "expired", w.ok(w.get(tn.all, checkoutPath+"/"+late)).text("session", "status"))
	w.fails(w.pick(late, "USDC", "polygon"), 410, "link_ended")
	w.fails(cancel(late), 409, "link_expired")
	w.observe(tn, late, "0xlate", "25000000", 50)
	require.Equal(t, "completed", w.checkoutStatus(late).text("status"), "sent before the end, to the second")
	w.fails(cancel(late), 409, "payment_seen")

	held := w.newCheckout(tn, `,"acceptedChains":["polygon"]`).text("session", "id")
	w.ok(w.pick(held, "USDC", "polygon"))
	w.ok(cancel(held))
	require.Equal(t, true, w.checkoutStatus(held).at("cancelled"))
	w.observe(tn, held, "0xheld", "25000000", 50)
	require.Equal(t, "completed", w.checkoutStatus(held).text("status"), "sent before it was cancelled")
	require.Equal(t, false, w.checkoutStatus(held).at("cancelled"), "said of an expired link")

	for _, path := range []string{"", "/status", "/select", "/simulate"} {
		for _, id := range []string{"cs_nobody", "card_01kagj5fkve16r6sydcvyx2dnv", "cs_01kagj5fkve16r6sydcvyx2dnv"} {
			method, body := "GET", ""
			if path == "/select" || path == "/simulate" {
				method = "POST"
			}
			if path == "/select" {
				body = `{"asset":"USDC","chain":"polygon"}`
			}
			w.fails(w.do(tn.all, method, checkoutPath+"/"+id+path, body), 404, "not_found")
		}
	}
}

func TestCheckoutRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	w.ok(w.get(tn.all, checkoutPath)) // records the key's first use
	before := w.settled()
	for body, named := range map[string]string{
		`{"amountUsdCents":2500}`:                                                                                     "successUrl",
		`{"amountUsdCents":10000001,"successUrl":"https://a.example"}`:                                                "amountUsdCents",
		`{"amountUsdCents":0,"successUrl":"https://a.example"}`:                                                       "amountUsdCents",
		`{"amountUsdCents":1,"successUrl":"javascript:alert(1)"}`:                                                     "successUrl",
		`{"amountUsdCents":1,"successUrl":"https://a.example","cancelUrl":"//a.example"}`:                             "cancelUrl",
		`{"amountUsdCents":1,"successUrl":"https://a.example","merchantReference":""}`:                                "merchantReference",
		`{"amountUsdCents":1,"successUrl":"https://a.example","expiresInSeconds":299}`:                                "expiresInSeconds",
		`{"amountUsdCents":1,"successUrl":"https://a.example","expiresInSeconds":86401}`:                              "expiresInSeconds",
		`{"amountUsdCents":1,"successUrl":"https://a.example","acceptedAssets":[]}`:                                   "acceptedAssets",
		`{"amountUsdCents":1,"successUrl":"https://a.example","acceptedAssets":["SOL"]}`:                              "SOL cannot be paid on any network",
		`{"amountUsdCents":1,"successUrl":"https://a.example","acceptedAssets":["USDT"],"acceptedChains":["base"]}`:   "it can be paid on ethereum, polygon, arbitrum, optimism",
		`{"amountUsdCents":1,"successUrl":"https://a.example","settlementOption":"both"}`:                             "settlementOption",
		`{"amountUsdCents":1,"successUrl":"https://a.example","metadata":{"k":"` + strings.Repeat("x", 8<<10) + `"}}`: "metadata",
		`{"amountUsdCents":1,"successUrl":"https://a.example","description":"` + strings.Repeat("x", 501) +
			`"}`: "description",
		`{"amountUsdCents":1,"successUrl":"https://` + strings.Repeat("x", 2048) + `"}`: "successUrl",
	} {
		got := w.post(tn.all, checkoutPath, body)
		w.fails(got, 400, "invalid_body")
		require.Contains(t, got.text("message"), named)
	}
	require.Equal(t, before, w.settled(), "no index is taken for a link that cannot be")

	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	live := w.newCheckout(tn, "")
	require.Equal(t, false, live.at("session", "sandbox"))
	w.fails(w.post(tn.all, checkoutPath+"/"+live.text("session", "id")+"/simulate", ""), 403, "sandbox_only")
}

// Every link has its own addresses, for every caller, for concurrent and repeated requests.
func TestCheckoutAddressesAreGivenOnce(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 12
	w := newWorld(t)
	tenants := []tenant{w.newTenant("one"), w.newTenant("two")}
	var mu sync.Mutex
	owners := map[string]string{}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := range each {
				who := tenants[i%2].all.with("Idempotency-Key", uuid.NewString())
				body := `{"amountUsdCents":1,"successUrl":"https://a.example","acceptedAssets":["USDC","BTC"]}`
				made := w.post(who, checkoutPath, body)
				again := w.post(who, checkoutPath, body)
				mu.Lock()
				if made.status != 200 || again.raw != made.raw {
					t.Errorf("%d: %s, and again %s", n, made.raw, again.raw)
				}
				for p := range 5 {
					address := made.text("session", "receivingAddresses", p, "address")
					if other, given := owners[address]; address != "" && given && other != made.text("session", "id") {
						t.Errorf("%s is given to %s and %s", address, other, made.text("session", "id"))
					}
					owners[address] = made.text("session", "id")
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, owners, 2*clients*each)
	list := w.ok(w.get(tenants[0].all, checkoutPath))
	require.Len(t, list.at("data"), clients*each/2)
	for range 3 {
		w.newCheckout(tenants[0], "")
	}
	newest := w.newCheckout(tenants[0], "").text("session", "id")
	list = w.ok(w.get(tenants[0].all, checkoutPath))
	require.Len(t, list.at("data"), defaultLimit)
	require.Equal(t, newest, list.text("data", 0, "id"))
}

func TestStablecoinDeposits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("one"), w.newTenant("two")
	report := func(body string) testReply {
		return w.post(as{"partner-signature": webhook.Sign(testSecret, w.clock.now(), []byte(body))},
			"/api/webhooks/partner-stablecoin-deposit", body)
	}
	deposit := func(event string, tn tenant, rest string) string {
		return fmt.Sprintf(`{"id":%q,"type":"deposit.completed","data":{"workspaceId":%q,"asset":"USDC",%s}}`, event,
			tn.workspace, rest)
	}
	good := `"chain":"polygon","amountUsdCents":1500,"txHash":"0xabc"`
	w.fails(w.post(as{"partner-signature": "t=1,v1=00"}, "/api/webhooks/partner-stablecoin-deposit",
		deposit("e1", tn, good)),
		401, "signature_invalid")
	for range 3 {
		w.ok(report(deposit("e1", tn, good)))
	}
	require.Equal(t, 1500, w.stablecoins(tn), "a repeat does nothing")
	w.ok(report(deposit("e1", other, good)))
	require.Zero(t, w.stablecoins(other), "the id is another workspace's")
	w.keptUnmatched(1)
	w.ok(w.report(fmt.Sprintf(`{"id":"e1","type":"deposit.received","data":{"workspaceId":%q,"amountUsdCents":7,"rail":"ach","reference":""}}`,
		tn.workspace)))
	require.Equal(t, 7, w.ok(w.get(tn.all, "/api/treasury")).cents("snapshot", "fiatUsdCents"),
		"the bank's ids are the bank's own")
	for i, rest := range []string{`"chain":"bitcoin","amountUsdCents":1500,"txHash":"0xabc"`,
		`"chain":"polygon","amountUsdCents":-1,"txHash":"0xabc"`, `"chain":"polygon","amountUsdCents":1`, `"chain":7`} {
		w.ok(report(deposit(fmt.Sprint("bad-", i), tn, rest)))
		w.keptUnmatched(2 + i)
	}
	require.Equal(t, 1500, w.stablecoins(tn))
}

// A transfer that is reported under several event ids is credited once, however its hash is
// written. Transfers that differ in anything that reports say are credited each.
func TestATransferOfStablecoinsIsCreditedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("one"), w.newTenant("two")
	events := 0
	report := func(tn tenant, chain, asset, hash string, cents int) {
		events++
		body := fmt.Sprintf(`{"id":"e%d","type":"deposit.completed","data":{"workspaceId":%q,"asset":%q,"chain":%q,`+
			`"amountUsdCents":%d,"txHash":%q}}`, events, tn.workspace, asset, chain, cents, hash)
		for range 2 {
			w.ok(w.sendReport("/api/webhooks/partner-stablecoin-deposit", body))
		}
	}
	report(tn, "polygon", "USDC", "0xabc", 1500)
	report(tn, "polygon", "USDC", "0xabc", 1500)
	report(tn, "polygon", "USDC", "0xABC", 1500)
	report(tn, "polygon", "USDC", "abc", 1500)
	report(tn, "polygon", "USDC", " 0Xabc ", 1500)
	require.Equal(t, 1500, w.stablecoins(tn))
	w.keptUnmatched(4)

	report(other, "polygon", "USDC", "0xabc", 1500)
	require.Equal(t, 1500, w.stablecoins(other))
	report(tn, "polygon", "USDC", "0xabc", 20)
	report(tn, "polygon", "USDT", "0xabc", 1500)
	report(tn, "ethereum", "USDC", "0xabc", 1500)
	report(tn, "solana", "USDC", "abc", 1500)
	report(tn, "solana", "USDC", "ABC", 1500)
	require.Equal(t, 5*1500+20, w.stablecoins(tn))
	w.keptUnmatched(4)
}

// The watch record of a session exists exactly while its addresses need watching.
func TestCheckoutWatchRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	id := w.newCheckout(tn, "").text("session", "id")
	_, err := w.system.Record(context.Background(), checkout.RecordWatch, tn.workspace, id)
	require.Error(t, err)
	w.ok(w.pick(id, "USDC", "polygon"))
	record, err := w.system.Record(context.Background(), checkout.RecordWatch, tn.workspace, id)
	require.NoError(t, err)
	var watch checkout.Watch
	require.NoError(t, json.Unmarshal(record.Document, &watch))
	require.Equal(t, id, watch.Session)
	require.Len(t, watch.Pairs, 4)
	w.clock.turn(91 * time.Minute)
	require.Eventually(t, func() bool {
		_, err := w.system.Record(context.Background(), checkout.RecordWatch, tn.workspace, id)
		return err != nil
	}, time.Minute, 10*time.Millisecond)
}
