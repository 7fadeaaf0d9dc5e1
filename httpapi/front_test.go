package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/authorizer/front"
)

// TestAFrontRefusesUntilItIsGivenAServer calls the same port before and after Open, and then shuts
// it down.
func TestAFrontRefusesUntilItIsGivenAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	front, memory := NewFront("http://127.0.0.1", front.Options{}, slog.New(slog.DiscardHandler)), fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	go func() { served <- front.Serve(memory) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return memory.Dial() }}}
	ask := func(method, path string) (*http.Response, string) {
		req, err := http.NewRequest(method, "http://purser"+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(text)
	}
	for _, path := range []string{"/api/v1/openapi.json", "/api/cards", "/nowhere"} {
		resp, text := ask("POST", path)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, path)
		require.JSONEq(t, `{"error":"unavailable","message":"The server is starting; nothing changed."}`, text)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	}
	req, err := http.NewRequest(http.MethodGet, "http://purser/checkout/x", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/html")
	page, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, page.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"), "a page to a browser")
	require.NoError(t, page.Body.Close())
	front.Open(w.server)
	resp, _ := ask("GET", "/api/v1/openapi.json")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, _ = ask("GET", "/nowhere")
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	client.CloseIdleConnections()
	require.NoError(t, front.Shutdown(t.Context()))
	require.NoError(t, <-served)
}
