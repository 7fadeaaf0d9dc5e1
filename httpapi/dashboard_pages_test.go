package httpapi

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/html"

	"purser/httpapi/dashboard"
	"purser/httpapi/password"
)

// pageReply is a page, or a redirect to another.
type pageReply struct {
	status                 int
	text, location, cookie string
	saved                  bool // the browser saves the answer as a file and does not show it
}

// visit requests a page of the dashboard; with a form it posts it. The form's question is answered
// unless the form has the field sure.
func (w *world) visit(who as, address string, form url.Values) pageReply {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test" + address)
	if form != nil {
		req.Header.SetMethod(fasthttp.MethodPost)
		req.Header.SetContentType("application/x-www-form-urlencoded")
		body := form.Encode()
		if !form.Has("sure") {
			body += "&sure=yes"
		}
		req.SetBodyString(body)
	}
	for name, value := range who {
		req.Header.Set(name, value)
	}
	require.NoError(w.t, w.client.Do(req, resp))
	r := pageReply{status: resp.StatusCode(), text: string(resp.Body()),
		location: string(resp.Header.Peek("Location")),
		saved: strings.HasPrefix(string(resp.Header.Peek("Content-Disposition")), "attachment;") &&
			string(resp.Header.Peek("X-Content-Type-Options")) == "nosniff"}
	var cookie fasthttp.Cookie
	cookie.SetKey(sessionCookie)
	if resp.Header.Cookie(&cookie) {
		r.cookie = string(cookie.Value())
	}
	return r
}

func newUUID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// completeForm has a value for every field that a form of the pages requires.
var completeForm = url.Values{"amountUsdCents": {"1"}, "amountCents": {"1"}, "holderLabel": {"x"},
	"holderKind":           {"agent"},
	"monthlyLimitUsdCents": {"5"}, "perTxnLimitUsdCents": {"5"}, "merchant": {"m"}, "mcc": {"5812"}, "name": {"Bob"},
	"routingNumber": {"021000021"}, "accountNumber": {"12345678"}, "accountType": {"checking"}, "rail": {"ach"},
	"description": {"d"}, "acceptedAssets": {"USDC"}, "successUrl": {"https://shop.example/t"}, "label": {"k"},
	"amountMinor": {"5"}, "currency": {"GBP"}, "buyCurrency": {"JPY"}, "email": {"eve@example.com"},
	"role": {"member"}, "scopes": {"read:cards"}, "allowedMccs": {"5812"},
	"url": {hookURL}, "events": {"*"}}

// A slash behind the address of a page leads to the page, with the same query. The addresses of the
// interface for programs stay exact.
func TestASlashBehindAPageLeadsToThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	link := "/checkout/" + w.newCheckout(tn, "").text("session", "id")
	for _, page := range []string{"/dashboard", "/dashboard/sign-in", "/dashboard/" + tn.workspace,
		"/dashboard/" + tn.workspace + "/cards", link, link + "/receipt", "/docs", "/docs/webhooks", "/docs/api"} {
		moved := w.visit(session(tn.cookie), page+"/", nil)
		require.Equal(t, 308, moved.status, page)
		require.Equal(t, page, moved.location)
		require.Equal(t, page+"?a=%2Fb", w.visit(session(tn.cookie), page+"/?a=%2Fb", nil).location)
		require.NotEqual(t, 308, w.visit(session(tn.cookie), page, nil).status, page)
	}
	for _, address := range []string{"/", "/api/cards/", "/nowhere/"} {
		require.NotEqual(t, 308, w.visit(session(tn.cookie), address, nil).status, address)
	}
	sent := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/cards/mint/", url.Values{})
	require.NotEqual(t, 308, sent.status, "a form is not moved")
}

func TestSigningInReplacesTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	joined := w.visit(nil, "/dashboard/sign-up/join", url.Values{"email": {"ada@example.com"},
		"password": {"a long password"}})
	require.Equal(t, 303, joined.status, joined.text)
	again := w.visit(session(joined.cookie), "/dashboard/sign-in/enter?next=%2Fdashboard%2Faccount",
		url.Values{"email": {"ada@example.com"}, "password": {"a long password"}})
	require.Equal(t, "/dashboard/account", again.location)
	require.NotEqual(t, joined.cookie, again.cookie)
	require.Equal(t, 303, w.visit(session(joined.cookie), "/dashboard/account", nil).status)
	require.Equal(t, 200, w.visit(session(again.cookie), "/dashboard/account", nil).status)
	changed := w.visit(session(again.cookie), "/dashboard/account/password",
		url.Values{"currentPassword": {"a long password"}, "newPassword": {"a longer password"}})
	require.Equal(t, 303, changed.status, changed.text)
	require.Equal(t, 303, w.visit(session(again.cookie), "/dashboard/account", nil).status)
	require.Equal(t, 200, w.visit(session(changed.cookie), "/dashboard/account?done=password", nil).status)
	for _, next := range []string{"https://evil.example", "//evil.example", `/dashboard/\evil.example`, "/dashboardx",
		"/dashboard/../checkout/cs_1", "/dashboard/a\tb", "/dashboard/a\x00"} {
		in := w.visit(nil, "/dashboard/sign-in/enter?next="+url.QueryEscape(next),
			url.Values{"email": {"ada@example.com"}, "password": {"a longer password"}})
		require.Equal(t, "/", in.location, next)
	}
	out := w.visit(session(changed.cookie), "/dashboard/sign-out", url.Values{})
	require.Equal(t, "/dashboard/sign-in", out.location)
	require.Equal(t, 303, w.visit(session(changed.cookie), "/dashboard/account", nil).status)
}

// A sign-in that waits for the queue of passwords does not hold the turn of other connections.
func TestASignInByFormHoldsNoTurn(t *testing.T) {
	t.Parallel()
	deriving, derived := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(c *Config) {
		c.Edge.AtOnce = 1
		c.DerivePassword = func(d password.Derivation) ([]byte, error) {
			deriving <- struct{}{}
			<-derived
			return deriveCheaply(d)
		}
	})
	done := make(chan pageReply)
	go func() {
		done <- w.visit(nil, "/dashboard/sign-up/join", url.Values{"email": {"ada@example.com"},
			"password": {"a long password"}})
	}()
	<-deriving
	require.Equal(t, 200, w.visit(nil, "/dashboard/sign-in", nil).status, "another connection is answered meanwhile")
	close(derived)
	require.Equal(t, 303, (<-done).status)
}

func TestAnAddressWithoutAFormIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	for _, address := range []string{"/dashboard", "/dashboard/", "/dashboard/nothing", "/dashboard/" +
		tn.workspace} {
		require.Equal(t, 404, w.visit(session(tn.cookie), address, completeForm).status, address)
	}
	require.Equal(t, "/dashboard/sign-in", w.visit(nil, "/dashboard/sign-in/enter", nil).location,
		"a form's address leads to its page")
}

// The form of the allowlists changes nothing that a person does not change.
func TestTheFormOfAllowlistsKeepsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	field := regexp.MustCompile(`(?s)<textarea[^>]* name="(allowed\w+)"[^>]*>(.*?)</textarea>`)
	choice := regexp.MustCompile(`(?s)<select[^>]* name="(mccs|names)">.*?value="(\w+)" selected`)
	for _, lists := range []string{`"allowedMccs":null,"allowedMerchants":null`, `"allowedMccs":[],"allowedMerchants":["Acme, Inc."]`,
		`"allowedMccs":["5812","5813"],"allowedMerchants":["a","b*"]`} {
		card := w.mint(tn, ","+lists).text("card", "id")
		address := "/dashboard/" + tn.workspace + "/cards/" + card
		page, form := w.visit(session(tn.cookie), address, nil), url.Values{}
		for _, found := range append(field.FindAllStringSubmatch(page.text, -1),
			choice.FindAllStringSubmatch(page.text, -1)...) {
			form.Set(found[1], html.UnescapeString(found[2]))
		}
		require.Len(t, form, 4, page.text)
		sent := w.visit(session(tn.cookie), address+"/merchants", form)
		require.Equal(t, 303, sent.status, sent.text)
		shown := w.ok(w.get(tn.all, "/api/cards/"+card))
		require.Contains(t, shown.raw, lists)
	}
}

func TestAFormThatIsSentTwiceActsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace
	form := url.Values{"key": {newUUID(7)}}
	for range 2 {
		require.Equal(t, home+"?done=deposit", w.visit(session(tn.cookie), home+"/deposit", form).location)
	}
	require.Equal(t, 100_000, w.ok(w.get(tn.all, "/api/treasury")).cents("balances", 0, "incomingCents"))
}

// requireOnlyOurs requires that a page has no element and no attribute that could run a script, but
// the one script of the dashboard.
func requireOnlyOurs(t testing.TB, page string) {
	t.Helper()
	tokens := html.NewTokenizer(strings.NewReader(page))
	for tokens.Next() != html.ErrorToken {
		token := tokens.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		require.NotContains(t, []string{"img", "iframe", "b", "svg/onload=alert(1)"}, token.Data, page)
		for _, a := range token.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on"), page)
			require.NotEqual(t, "style", a.Key, page)
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				require.False(t, strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.Val)), "javascript:"), page)
			}
		}
		if token.Data == "script" {
			require.Contains(t, fmt.Sprint(token.Attr), dashboard.FilesPath, page)
		}
	}
}
