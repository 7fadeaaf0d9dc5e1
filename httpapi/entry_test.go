package httpapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

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
	w.server.writeRefusal(&ctx, errors.New("a fault of ours"))
	w.server.checkouts.showRefusal(&ctx)
	require.Equal(t, 500, ctx.Response.StatusCode())
	require.Contains(t, string(ctx.Response.Body()), "This page can not be shown now")
	require.NotContains(t, string(ctx.Response.Body()), "a fault of ours")
	w.server.limits.rates.PerAddress = 1
	w.server.limits.rates.Off = false
	f("/checkout/cs_nothing", 404, "There is no such link")
	f("/checkout/cs_nothing", 429, "Too many requests")
}
