package httpapi

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors/partner/sandbox"
	"purser/httpapi/web"
)

// browsed is what a browser is sent.
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

// shows waits until the page has a text.
func (w *world) shows(id, want string) string {
	w.t.Helper()
	html := ""
	require.Eventually(w.t, func() bool {
		html = w.browse("GET", "/checkout/"+id, "").html
		return strings.Contains(html, want)
	}, time.Minute, 20*time.Millisecond, "%s\n%s", want, html)
	return html
}

// paidAt waits until the watcher has looked at a session, then pays it on the sandbox chain.
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

// A customer picks, pays on the chain, and sees it confirmed; then the merchant has the money.
func TestHostedPageFromThePickToTheEnd(t *testing.T) {
	w := newWorld(t)
	tn := w.newTenant("merchant")
	made := w.newCheckout(tn, `,"acceptedChains":["polygon","base"],"description":"two <b>books</b>","merchantReference":"</p><script>",
		"cancelUrl":"https://shop.example/cart?a=1&b=2"`)
	id := made.text("session", "id")
	first := w.browse("GET", "/checkout/"+id, "")
	require.Equal(t, []any{200, web.Policy, "text/html; charset=utf-8"}, []any{first.status, first.policy, first.contentType})
	for _, want := range []string{"$25.00", "two &lt;b&gt;books&lt;/b&gt;", "&lt;/p&gt;&lt;script&gt;", `value="USDC/polygon"`,
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
	require.Contains(t, w.shows(id, "$25.00 of $25.00 received"), "Payment seen") // the watcher tells of one after the other
	require.NoError(t, w.chains.Chain("polygon").Reorganise(t.Context(), 2))
	w.clock.turn(10 * time.Second)
	w.shows(id, "<strong>0 of 3</strong>")
	w.clock.turn(time.Minute)
	html = w.shows(id, "Payment complete")
	require.Contains(t, html, `href="https://shop.example/thanks"`)
	w.settled()
	require.Equal(t, 2500, w.stablecoins(tn))
	require.NotContains(t, html, `id="address"`)
}

func TestHostedPageOfEveryEnd(t *testing.T) {
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
	require.Contains(t, w.shows(short, "Some of the payment is missing"), `<span id="coins">5</span> USDC`)
	w.shows(wrong, "Pay with USDC on Polygon")

	cancelled := open()
	w.ok(w.post(session(tn.cookie), "/api/dashboard/checkout/sessions/"+cancelled+"/cancel", ""))
	require.Contains(t, w.shows(cancelled, "This link was cancelled"), `href="https://shop.example/cart"`)
	w.clock.turn(time.Second)
	to := w.ok(w.get(tn.all, checkoutPath+"/"+cancelled)).text("session", "receivingAddresses", 0, "address")
	_, err := w.chains.Chain("polygon").Pay(t.Context(), "cancelled", "0xpayer",
		sandbox.ChainPayment{Asset: "USDC", Address: to, Amount: "25000000"})
	require.NoError(t, err)
	over := open()
	w.payOnChain(over, "USDC", "30000000")
	w.clock.turn(2 * time.Minute)
	require.Contains(t, w.shows(cancelled, "A payment came after the link had ended"), "This link was cancelled")
	require.Contains(t, w.shows(over, "Payment complete"), "$5.00 more than was asked has arrived")

	late := open()
	html := w.browse("GET", "/checkout/"+late, "").html
	_, rest, _ := strings.Cut(html, `<code id="address">`)
	address, _, _ := strings.Cut(rest, "<")
	w.clock.turn(31 * time.Minute)
	require.NotContains(t, w.shows(late, "This link has expired"), address)
	_, err = w.chains.Chain("polygon").Pay(t.Context(), "late", "0xpayer",
		sandbox.ChainPayment{Asset: "USDC", Address: address, Amount: "25000000"})
	require.NoError(t, err)
	w.clock.turn(2 * time.Minute)
	w.shows(late, "A payment came after the link had ended")
	w.settled()
	require.Equal(t, 2500, w.stablecoins(tn), "of the link that was paid, what it asked")

	missing := w.browse("GET", "/checkout/cs_01kkv0000000000000000000aa", "")
	require.Equal(t, 404, missing.status)
	require.Contains(t, missing.html, "There is no such link")
	require.Equal(t, 303, w.browse("POST", "/checkout/"+late+"/select", "pair=x%0d%0aSet-Cookie:+a").status)
	require.Equal(t, "/checkout/unknown", w.browse("POST", "/checkout/%2F%2Fevil.example/select", "pair=x").location)
}

func TestHostedFilesAndPart(t *testing.T) {
	w := newWorld(t)
	tn := w.newTenant("merchant")
	id := w.newCheckout(tn, "").text("session", "id")
	whole := w.browse("GET", "/checkout/"+id, "").html
	part := w.browse("GET", "/checkout/"+id+"?part=1", "").html
	require.True(t, strings.HasPrefix(part, `<div class="card"`))
	require.Contains(t, whole, part)
	for _, mark := range []string{`<link rel="stylesheet" href="`, `<script src="`} {
		_, rest, _ := strings.Cut(whole, mark)
		path, _, _ := strings.Cut(rest, `"`)
		require.Equal(t, 200, w.browse("GET", path, "").status, path)
	}
	require.Equal(t, 404, w.browse("GET", "/checkout/files/page.html", "").status)
}

// News reach an open page before its stream ends, which here lasts as long as a busy machine may need.
func TestHostedPageIsToldNews(t *testing.T) {
	w := newWorld(t)
	w.server.streamFor, w.server.door.http.WriteTimeout = waitFor, 2*waitFor // the server cuts off what it writes for too long
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
