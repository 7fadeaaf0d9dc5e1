package httpapi

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// headAndRest sends one request with a key. It returns the status line and headers without those
// that differ between answers, and the rest.
func (w *world) headAndRest(method, path, secret string) (head, rest string) {
	w.t.Helper()
	conn, err := w.listen.Dial()
	require.NoError(w.t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, method+" "+path+
		" HTTP/1.1\r\nHost: purser.test\r\nConnection: close\r\nAuthorization: Bearer "+
		secret+"\r\n\r\n")
	require.NoError(w.t, err)
	all, err := io.ReadAll(bufio.NewReader(conn))
	require.NoError(w.t, err)
	head, rest, found := strings.Cut(string(all), "\r\n\r\n")
	require.True(w.t, found, "%s %s: %s", method, path, all)
	var kept []string
	for line := range strings.Lines(head) {
		if name, _, _ := strings.Cut(strings.ToLower(line), ":"); name != "date" && name != "x-request-id" {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n"), rest
}

// HEAD has the status and the headers of GET, Content-Length included, and no body, on every route:
// those of the table with ids that exist where the tenant has them, and those of the hosted page.
func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	id := w.newCheckout(tn, "").text("session", "id")
	paths := []string{"/checkout/" + id, "/checkout/cs_01kkv0000000000000000000aa", "/checkout/files/none",
		"/favicon.ico", "/checkout/cs_01kkv0000000000000000000aa/receipt",
		checkoutPath + "/" + id, "/nothing", "/api/cards?limit=101"}
	for _, file := range []string{`href="/checkout/files/`, `src="/checkout/files/`} {
		_, rest, found := strings.Cut(w.browse("GET", "/checkout/"+id, "").html, file)
		require.True(t, found)
		name, _, _ := strings.Cut(rest, `"`)
		paths = append(paths, "/checkout/files/"+name)
	}
	for i := range w.server.table {
		if r := &w.server.table[i]; r.method == fasthttp.MethodGet {
			paths = append(paths, strings.NewReplacer("{id}", id, "{userId}", "usr_x", "{currency}",
				"EUR", "/api/requests", "/api/requests?requestId=none").Replace(r.path))
		}
	}
	for _, path := range paths {
		want, body := w.headAndRest("GET", path, tn.secret)
		got, none := w.headAndRest("HEAD", path, tn.secret)
		require.Equal(t, want, got, path)
		require.Contains(t, want, "Content-Length: ", path)
		require.Empty(t, none, path)
		require.NotEmpty(t, body, path)
	}
	head, none := w.headAndRest("HEAD", "/checkout/"+id+"/events", tn.secret)
	require.Contains(t, head, "200 OK")
	require.Contains(t, head, "Content-Type: text/event-stream")
	require.Empty(t, none, "a stream is not begun")
	head, _ = w.headAndRest("HEAD", "/api/mcp", tn.secret)
	require.Contains(t, head, "405", "a path without a GET has no HEAD")
}
