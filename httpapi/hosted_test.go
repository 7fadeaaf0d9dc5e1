package httpapi

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/partner/sandbox"
	"purser/actors/processes"
	"purser/actors/workspace"
	"purser/httpapi/web"
	"purser/persistence/ident"
)

// browsed is the response to a browser.
type browsed struct {
	status           int
	html             string
	policy, location string
	contentType      string
}

func (w *world) browse(method, path, form string) browsed {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test" + path)
	req.Header.SetMethod(method)
	if form != "" {
		req.Header.SetContentType("application/x-www-form-urlencoded")
		req.SetBodyString(form)
	}
	require.NoError(w.t, w.client.Do(req, resp))
	return browsed{resp.StatusCode(), string(resp.Body()), string(resp.Header.Peek("Content-Security-Policy")),
		string(resp.Header.Peek("Location")), string(resp.Header.ContentType())}
}

// awaitText waits until the page contains a text.
func (w *world) awaitText(id, want string) string {
	w.t.Helper()
	html := ""
	require.Eventually(w.t, func() bool {
		html = w.browse("GET", "/checkout/"+id, "").html
		return strings.Contains(html, want)
	}, time.Minute, 20*time.Millisecond, "%s\n%s", want, html)
	return html
}

// payOnChain waits until the watcher watches a session's address, and then pays it on the sandbox
// chain.
func (w *world) payOnChain(id, asset, units string) {
	w.t.Helper()
	html := w.browse("GET", "/checkout/"+id, "").html
	_, rest, found := strings.Cut(html, `<code id="address">`)
	require.True(w.t, found, html)
	address, _, _ := strings.Cut(rest, "<")
	_, err := w.chains.Chain("polygon").Pay(w.t.Context(), id+asset+units, "0xpayer",
		sandbox.ChainPayment{Asset: asset, Address: address, Amount: units})
	require.NoError(w.t, err)
}

// A customer selects a coin, pays on the chain and sees the confirmations; then the merchant is
// credited.
func TestHostedPageFromThePickToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	made := w.newCheckout(tn, `,"acceptedChains":["polygon","base"],"description":"two <b>books</b>","merchantReference":"</p><script>",
		"cancelUrl":"https://shop.example/cart?a=1&b=2"`)
	id := made.text("session", "id")
	first := w.browse("GET", "/checkout/"+id, "")
	require.Equal(t, []any{200, web.Policy, "text/html; charset=utf-8"},
		[]any{first.status, first.policy, first.contentType})
	for _, want := range []string{"$25.00", "two &lt;b&gt;books&lt;/b&gt;", "&lt;/p&gt;&lt;script&gt;",
		`value="USDC/polygon"`,
		"Do not send real money", "30:00"} {
		require.Contains(t, first.html, want)
	}
	require.NotContains(t, first.html, `id="address"`, "no address before a pick")
	picked := w.browse("POST", "/checkout/"+id+"/select", "pair=USDC%2Fpolygon")
	require.Equal(t, []any{303, "/checkout/" + id}, []any{picked.status, picked.location})
	html := w.browse("GET", "/checkout/"+id, "").html
	require.Contains(t, html, "Pay with USDC on Polygon")
	require.Contains(t, html, `href="ethereum:0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359@137/transfer?address=0x`)
	require.Contains(t, html, `&amp;uint256=25000000"`)

	w.payOnChain(id, "USDC", "10000000")
	w.payOnChain(id, "USDC", "15000000")
	w.clock.turn(20 * time.Second)
	// The watcher reports one payment after the other.
	require.Contains(t, w.awaitText(id, "$25.00 of $25.00 received"), "Payment seen")
	require.NoError(t, w.chains.Chain("polygon").Reorganise(t.Context(), 2))
	w.clock.turn(10 * time.Second)
	w.awaitText(id, "<strong>0 of 3</strong>")
	require.Equal(t, []any{303, "/checkout/" + id}, w.receiptOf(id), "no receipt before the payment is complete")
	w.clock.turn(time.Minute)
	html = w.awaitText(id, "Payment complete")
	require.Contains(t, html, `href="https://shop.example/thanks"`)
	require.Contains(t, html, "10 USDC on Polygon")
	require.Contains(t, html, "leads to <strong>shop.example</strong>")
	require.NotContains(t, html, "polygonscan.com", "no explorer has a sandbox transaction")
	receipt := w.browse("GET", "/checkout/"+id+"/receipt", "")
	require.Equal(t, []any{200, web.Policy, "text/html; charset=utf-8"},
		[]any{receipt.status, receipt.policy, receipt.contentType})
	hash := w.ok(w.get(tn.all, checkoutPath+"/"+id)).text("session", "txHash")
	for _, want := range []string{"$25.00", "10 USDC on Polygon", "15 USDC on Polygon", hash, "0xpayer", id,
		"two &lt;b&gt;books",
		"No real money was paid", "20 November 2026, 12:0"} {
		require.Contains(t, receipt.html, want)
	}
	w.settled()
	require.Equal(t, 2500, w.stablecoins(tn))
	require.NotContains(t, html, `id="address"`)
}

// receiptOf requests the receipt of a link, and returns the status and the redirect.
func (w *world) receiptOf(id string) []any {
	w.t.Helper()
	got := w.browse("GET", "/checkout/"+id+"/receipt", "")
	return []any{got.status, got.location}
}

// The page and the receipt of a live link have a link to the network's explorer for each payment.
func TestALivePaymentIsOnAnExplorer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.CheckoutTolerance = checkout.Tolerance{BasisPoints: 50} })
	tn := w.newTenant("merchant")
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	id := w.newCheckout(tn, `,"acceptedChains":["polygon"]`).text("session", "id")
	w.browse("POST", "/checkout/"+id+"/select", "pair=USDC%2Fpolygon")
	w.payOnChain(id, "USDC", "24900000")
	w.clock.turn(2 * time.Minute)
	html := w.awaitText(id, "Payment complete")
	require.Contains(t, html, "$24.90 of $25.00 has arrived, which completes the payment")
	hash := w.ok(w.get(tn.all, checkoutPath+"/"+id)).text("session", "txHash")
	receipt := w.browse("GET", "/checkout/"+id+"/receipt", "").html
	for _, shown := range []string{html, receipt} {
		require.Contains(t, shown, `href="https://polygonscan.com/tx/`+hash+`"`)
		require.NotContains(t, shown, "Sandbox.")
	}
	require.Contains(t, receipt, "$0.10", "the shortfall")
}

func TestHostedPageOfEveryFinalStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	open := func() string {
		id := w.newCheckout(tn, `,"acceptedChains":["polygon"],"cancelUrl":"https://shop.example/cart"`).text("session", "id")
		w.browse("POST", "/checkout/"+id+"/select", "pair=USDC%2Fpolygon")
		return id
	}
	short := open()
	w.payOnChain(short, "USDC", "20000000")
	wrong := open()
	w.payOnChain(wrong, "USDC.e", "25000000")
	w.clock.turn(2 * time.Minute)
	require.Contains(t, w.awaitText(short, "Some of the payment is missing"), `<span id="coins">5</span> USDC`)
	w.awaitText(wrong, "Pay with USDC on Polygon")

	cancelled := open()
	w.ok(w.post(session(tn.cookie), "/api/dashboard/checkout/sessions/"+cancelled+"/cancel", ""))
	require.Contains(t, w.awaitText(cancelled, "This link was cancelled"), `href="https://shop.example/cart"`)
	w.clock.turn(time.Second)
	to := w.ok(w.get(tn.all, checkoutPath+"/"+cancelled)).text("session", "receivingAddresses", 0, "address")
	_, err := w.chains.Chain("polygon").Pay(t.Context(), "cancelled", "0xpayer",
		sandbox.ChainPayment{Asset: "USDC", Address: to, Amount: "25000000"})
	require.NoError(t, err)
	over := open()
	w.payOnChain(over, "USDC", "30000000")
	w.clock.turn(2 * time.Minute)
	require.Contains(t, w.awaitText(cancelled, "A payment came after the link had ended"), "This link was cancelled")
	require.Contains(t, w.awaitText(over, "Payment complete"), "$5.00 more than was asked has arrived")

	late := open()
	html := w.browse("GET", "/checkout/"+late, "").html
	_, rest, _ := strings.Cut(html, `<code id="address">`)
	address, _, _ := strings.Cut(rest, "<")
	w.clock.turn(31 * time.Minute)
	require.NotContains(t, w.awaitText(late, "This link has expired"), address)
	hash := w.ok(w.get(tn.all, checkoutPath+"/"+short)).text("session", "payments", 0, "txHash")
	require.Contains(t, w.awaitText(short, "can not be sent any more"), hash)
	_, err = w.chains.Chain("polygon").Pay(t.Context(), "late", "0xpayer",
		sandbox.ChainPayment{Asset: "USDC", Address: address, Amount: "25000000"})
	require.NoError(t, err)
	w.clock.turn(2 * time.Minute)
	w.awaitText(late, "A payment came after the link had ended")
	w.settled()
	require.Equal(t, 2500, w.stablecoins(tn), "of the link that was paid, what it asked")

	for _, path := range []string{"", "/receipt"} {
		missing := w.browse("GET", "/checkout/cs_01kkv0000000000000000000aa"+path, "")
		require.Equal(t, 404, missing.status)
		require.Contains(t, missing.html, "There is no such link")
	}
	require.Equal(t, 303, w.browse("POST", "/checkout/"+late+"/select", "pair=x%0d%0aSet-Cookie:+a").status)
	require.Equal(t, "/checkout/unknown", w.browse("POST", "/checkout/%2F%2Fevil.example/select", "pair=x").location)
}

// The page, the merchant's session, the public status, the dashboard and the webhook of a link tell
// one story of money that came late: it is received, does not count, and is named. They name the
// coin that was paid.
func TestLateMoneyIsToldAlikeEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	open := func() string {
		made := w.newCheckout(tn, `,"acceptedAssets":["USDC","ETH"],"acceptedChains":["polygon","base"]`)
		id := made.text("session", "id")
		w.ok(w.pick(id, "USDC", "polygon"))
		w.ok(w.pick(id, "ETH", "base"))
		return id
	}
	half, whole := open(), open()
	w.observe(tn, half, "0xhalf", "12500000", 50)
	require.Contains(t, w.browse("GET", "/checkout/"+half, "").html, `<span id="coins">12.5</span> USDC`)
	w.observe(tn, whole, "0xwhole", "26000000", 50)
	w.clock.turn(31 * time.Minute)
	w.observe(tn, half, "0xlate", "12500000", 50)
	w.observe(tn, whole, "0xlate", "12500000", 50)
	w.settled()
	for id, told := range map[string]struct {
		status              string
		received, late, due int
		txHash              any
		page, board         []string
	}{
		half: {"underpaid", 2500, 1250, 1250, nil, []string{"$12.50 of $25.00 has arrived in time",
			"<strong>$12.50</strong> is still due", "after the link had ended: $12.50."},
			[]string{"<dt>Received in time</dt><dd><span>\u2212$12.50", "<dt>Came too late</dt><dd><span>$12.50",
				"$12.50 are missing"}},
		whole: {"completed", 3850, 1250, -100, "0xwhole", []string{"$1.00 more than was asked",
			"after the link had ended: $12.50.", "12.5 USDC on Polygon, too late"},
			[]string{"<small>$26.00, $12.50 late</small>", "paid $1.00 more than the link asked"}},
	} {
		full := w.ok(w.get(tn.all, checkoutPath+"/"+id)).at("session").(map[string]any)
		public := w.checkoutStatus(id)
		for name := range public.at().(map[string]any) {
			if name != "receivingAddresses" { // of an ended link none can be paid
				require.Equal(t, full[name], public.at(name), name)
			}
		}
		require.Equal(t, []any{told.status, "USDC", "polygon", told.txHash},
			[]any{full["status"], full["asset"], full["chain"], full["txHash"]})
		require.Equal(t, []int{told.received, told.late, told.due},
			[]int{public.cents("receivedUsdCents"), public.cents("lateUsdCents"), public.cents("dueUsdCents")})
		page := w.browse("GET", "/checkout/"+id, "").html
		for _, want := range told.page {
			require.Contains(t, page, want)
		}
		board := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/checkout/"+id, nil).text
		for _, want := range append(told.board, "12.5 USDC on Polygon came after the link had ended") {
			require.Contains(t, board, want)
		}
	}
	require.Equal(t, 2500, w.stablecoins(tn))
	receipt := w.browse("GET", "/checkout/"+whole+"/receipt", "").html
	require.Contains(t, receipt, "<dt>Received</dt><dd>$26.00</dd>")
	require.Contains(t, receipt, "<dt>Came too late</dt><dd>$12.50</dd>")
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(t, err)
	events, err := w.journal.Events(t.Context(), slot.Shard(), 0, 1000)
	require.NoError(t, err)
	var announced []string
	for _, e := range events {
		if announce := processes.WebhookAnnouncements()[e.Type]; announce != nil {
			sent, err := announce(e)
			require.NoError(t, err)
			announced = append(announced, sent.Body)
		}
	}
	require.Equal(t, []string{`{"id":"` + whole +
		`","amountUsdCents":2500,"txHash":"0xwhole","payerAddress":"0xpayer"}`}, announced)
}

func TestHostedFilesAndPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("merchant")
	id := w.newCheckout(tn, "").text("session", "id")
	whole := w.browse("GET", "/checkout/"+id, "").html
	part := w.browse("GET", "/checkout/"+id+"?part=1", "").html
	require.True(t, strings.HasPrefix(part, `<div class="card"`))
	require.Contains(t, whole, part)
	for _, mark := range []string{`<link rel="stylesheet" href="`, `<script src="`,
		`sizes="48x48">
<link rel="icon" href="`} {
		_, rest, _ := strings.Cut(whole, mark)
		path, _, _ := strings.Cut(rest, `"`)
		require.Equal(t, 200, w.browse("GET", path, "").status, path)
	}
	require.Equal(t, 404, w.browse("GET", "/checkout/files/page.html", "").status)
	icon := w.browse("GET", "/favicon.ico", "")
	require.Equal(t, []any{200, "image/x-icon", web.Policy}, []any{icon.status, icon.contentType, icon.policy})
	head, _ := w.headAndRest("HEAD", "/favicon.ico", "")
	require.Contains(t, head, "Cache-Control: public, max-age=86400")
	require.Contains(t, whole, `<link rel="icon" href="/favicon.ico"`)
}

// A status change reaches an open page before its stream ends. streamFor is long here, for slow
// machines.
func TestHostedPageStreamsStatusChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The server aborts an answer that takes longer than WriteTimeout.
	w.server.streams.lasting, w.server.httpServer.http.WriteTimeout = waitFor, 2*waitFor
	tn := w.newTenant("merchant")
	id := w.newCheckout(tn, "").text("session", "id")
	conn, err := w.listen.Dial()
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /checkout/" + id + "/events HTTP/1.1\r\nHost: purser.test\r\nConnection: close\r\n\r\n"))
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 64<<10)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") {
				require.Contains(t, lines.Text(), want)
				return
			}
		}
		require.Fail(t, "the stream has ended without news", "%s: %v", want, lines.Err())
	}
	next(`"status":"pending"`)
	w.ok(w.pick(id, "USDC", "base"))
	next(`"status":"awaiting_payment"`)
}

// Pages beyond Config.Streams get 503 and poll, so that pages leave connections to other callers.
func TestHostedPagesBeyondTheirShareGetNoStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Streams = 1 })
	w.server.streams.lasting, w.server.httpServer.http.WriteTimeout = waitFor, 2*waitFor
	id := w.newCheckout(w.newTenant("merchant"), "").text("session", "id")
	conn, err := w.listen.Dial()
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /checkout/" + id + "/events HTTP/1.1\r\nHost: purser.test\r\n\r\n"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, fasthttp.StatusServiceUnavailable, w.browse("GET", "/checkout/"+id+"/events", "").status)
}

// A request of the hosted page releases its turn while it waits for an actor.
func TestTheHostedPageWaitsWithoutATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Edge.AtOnce = 1 })
	id := w.newCheckout(w.newTenant("shop"), "").text("session", "id")
	waits, release := make(chan struct{}), make(chan struct{})
	w.actors.mu.Lock()
	w.actors.ask = func(ctx context.Context, e actors.Envelope) (any, error) {
		if e.Kind == "checkout" {
			waits <- struct{}{}
			<-release
		}
		return w.actors.Actors.Ask(ctx, e)
	}
	w.actors.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.browse("POST", "/checkout/"+id+"/select", "pair=USDC%2Fpolygon")
	}()
	<-waits
	require.Equal(t, fasthttp.StatusNotFound, w.browse("GET", "/nothing", "").status)
	close(release)
	<-done
}
