package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/httpapi/web"
)

// askAs requests a path as a client that accepts the given media types.
func (w *world) askAs(path, accept string) (status int, contentType, policy, body string) {
	w.t.Helper()
	return w.showPage(as{"Accept": accept}, path)
}

// showPage requests a page as a browser does.
func (w *world) showPage(who as, path string) (status int, contentType, policy, body string) {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test" + path)
	for name, value := range who {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	require.NoError(w.t, w.client.Do(req, resp))
	return resp.StatusCode(), string(resp.Header.ContentType()), string(resp.Header.Peek("Content-Security-Policy")),
		string(resp.Body())
}

// The root leads a signed-in person home: to the only workspace, or to the list of them.
func TestRootLeadsASignedInPersonHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	browser := session(tn.cookie).with("Accept", "text/html")
	require.Equal(t, "/dashboard/"+tn.workspace, w.visit(browser, "/", nil).location)
	w.ok(w.post(session(tn.cookie), "/api/workspaces", `{"name":"Second","plan":"growth"}`))
	require.Equal(t, "/dashboard", w.visit(browser, "/", nil).location)
	require.Empty(t, w.visit(as{"Accept": "text/html"}, "/", nil).location)
	require.Contains(t, w.visit(session(tn.cookie), "/", nil).text, `"name":"Purser"`, "a program gets JSON")
}

// The root lists the entry points: HTML to a browser, JSON to every other client.
func TestRootListsTheEntryPoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status, contentType, policy, body := w.askAs("/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	require.Equal(t, 200, status)
	require.Equal(t, "text/html; charset=utf-8", contentType)
	require.Equal(t, web.Policy, policy)
	for _, want := range []string{"/api/v1/openapi.json", "/api/dashboard/signup", "Sandbox."} {
		require.Contains(t, body, want)
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html;q=0.5", "text/html;q=0",
		"text/html;q=x"} {
		status, contentType, _, body := w.askAs("/", accept)
		require.Equal(t, 200, status, accept)
		require.Equal(t, "application/json", contentType, accept)
		require.Contains(t, body, `"rel":"description","method":"GET","href":"`+w.server.cfg.BaseURL+
			`/api/v1/openapi.json"`)
	}
}

// An address that a person types answers with a page, or leads to one. A program gets JSON.
func TestPathsThatAPersonTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		path     string
		status   int
		location string // where a redirect leads, for every Accept
	}{
		{"/", 200, ""}, {"/docs/", 308, "/docs"}, {"/login", 303, "/dashboard/sign-in"},
		{"/nope", 404, ""}, {"/nope/", 404, ""}, {"/api/nope", 404, ""}, {"/docs/a/b", 404, ""},
		{"/checkout", 404, ""}, {"/api/dashboard/signup", 405, ""},
	} {
		moved := w.visit(as{}, c.path, nil)
		require.Equal(t, c.status, moved.status, c.path)
		require.Equal(t, c.location, moved.location, c.path)
		if c.location != "" {
			continue
		}
		status, contentType, policy, body := w.askAs(c.path, "text/html,*/*;q=0.8")
		require.Equal(t, c.status, status, c.path)
		require.Equal(t, "text/html; charset=utf-8", contentType, c.path)
		require.Equal(t, web.Policy, policy, c.path)
		require.Contains(t, body, "<!doctype html>", c.path)
		for _, accept := range []string{"", "*/*", "application/json"} {
			status, contentType, _, body = w.askAs(c.path, accept)
			require.Equal(t, c.status, status, c.path)
			require.Equal(t, "application/json", contentType, c.path)
			require.True(t, json.Valid([]byte(body)), c.path)
		}
	}
	w.server.limits.rates = RateLimits{PerAddress: 1}
	w.askAs("/docs", "") // the last one that is admitted
	for _, path := range []string{"/", "/nope"} {
		status, contentType, _, body := w.askAs(path, "text/html")
		require.Equal(t, 429, status, path)
		require.Equal(t, "text/html; charset=utf-8", contentType, path)
		require.Contains(t, body, "Too many requests", path)
	}
}

// The log has the number that a page asks to quote, with method, route and status. The page brings
// its style, as does the page of a limit, because the limit may refuse all files.
func TestARefusalPageStandsAloneAndItsNumberIsInTheLog(t *testing.T) {
	t.Parallel()
	l, toLog := logged(slog.LevelWarn)
	w := newWorld(t, toLog)
	tn := w.newTenant("alone")
	link := "/checkout/" + w.newCheckout(tn, "").text("session", "id")
	form := url.Values{"pair": {"USDC/base"}}
	for _, broken := range []func(context.Context, actors.Envelope) (any, error){
		func(context.Context, actors.Envelope) (any, error) { return nil, errBroken },
		func(context.Context, actors.Envelope) (any, error) { panic("a bug with a secret") },
	} {
		w.actors.hook(broken)
		page := w.visit(as{"Accept": "text/html"}, link+"/select", form)
		require.Contains(t, page.text, "can not be shown")
		quoted := regexp.MustCompile("<code>([0-9a-f]{16})</code>").FindStringSubmatch(page.text)
		require.Len(t, quoted, 2)
		require.True(t, slices.ContainsFunc(l.with(t, "request", quoted[1]), func(line map[string]any) bool {
			return line["method"] == "POST" && line["route"] == "/checkout/{id}/select" && line["status"] == 500.0
		}))
	}
	w.actors.hook(nil)
	w.server.limits.rates = RateLimits{PerAddress: 1}
	w.askAs("/docs", "") // the last one that is admitted
	for _, path := range []string{link, "/docs", "/dashboard/sign-in"} {
		status, _, policy, body := w.askAs(path, "text/html")
		require.Equal(t, 429, status, path)
		require.Contains(t, body, "Too many requests", path)
		require.NotContains(t, body, `rel="stylesheet"`, path)
		_, style, _ := strings.Cut(body, "<style>")
		style, _, _ = strings.Cut(style, "</style>")
		sum := sha256.Sum256([]byte(style))
		require.Contains(t, policy, base64.StdEncoding.EncodeToString(sum[:]), path)
	}
}

// A refused request for the hosted page is answered with a page of the same status.
func TestTheHostedPageRefusesAsAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := func(path string, want int, text string) {
		t.Helper()
		status, contentType, policy, body := w.askAs(path, "text/html")
		require.Equal(t, want, status, path)
		require.Equal(t, "text/html; charset=utf-8", contentType, path)
		require.Equal(t, web.Policy, policy, path)
		require.True(t, strings.HasPrefix(body, "<!doctype html>"), body)
		require.Contains(t, body, text, path)
	}
	f("/checkout/cs_nothing", 404, "There is no such link")
	f("/checkout/files/nothing.css", 404, "There is no such link")
	f("/checkout/cs_nothing/events", 404, "There is no such link")
	var ctx fasthttp.RequestCtx
	w.server.writeRefusal(&ctx, &unrouted, errors.New("a fault of ours"))
	w.server.checkouts.showRefusal(&ctx, web.Missing)
	require.Equal(t, 500, ctx.Response.StatusCode())
	require.Contains(t, string(ctx.Response.Body()), "This page can not be shown now")
	require.NotContains(t, string(ctx.Response.Body()), "a fault of ours")
	w.server.limits.rates.PerAddress = 1
	w.server.limits.rates.Off = false
	f("/checkout/cs_nothing", 404, "There is no such link")
	f("/checkout/cs_nothing", 429, "Too many requests")
}
