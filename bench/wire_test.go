package bench

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

func TestAWireKeepsItsConnection(t *testing.T) {
	peers := map[string]bool{}
	url := listen(t, func(ctx *fasthttp.RequestCtx) {
		peers[ctx.RemoteAddr().String()] = true
		ctx.SetStatusCode(fasthttp.StatusAccepted)
		ctx.SetBodyString(string(ctx.Method()) + " " + string(ctx.Path()) + " " + string(ctx.PostBody()) + " " +
			string(ctx.Request.Header.Peek("Authorization")))
		if string(ctx.Path()) == "/last" {
			ctx.SetConnectionClose()
		}
	})
	w := newWire(url, "first", nil)
	defer w.closeConnection()
	ask := func(method, path string, body []byte, want string) {
		status, answer, err := w.sendRequest(method, path, body)
		require.NoError(t, err)
		require.Equal(t, 202, status)
		require.Equal(t, want, string(answer))
	}
	ask("POST", "/a", []byte("{}"), "POST /a {} Bearer first")
	w.setBearer("second")
	ask("GET", "/b", nil, "GET /b  Bearer second")
	ask("PATCH", "/last", []byte("x"), "PATCH /last x Bearer second")
	require.Len(t, peers, 1)
	ask("GET", "/c", nil, "GET /c  Bearer second")
	require.Len(t, peers, 2, "the server had closed the first one")
}

// A wire and a desk use TLS for an https URL and trust only the given authorities.
func TestRequestsOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, r.Method+" "+r.URL.Path)
		require.NoError(t, err)
	}))
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	w := newWire(server.URL, "", trusted)
	defer w.closeConnection()
	for range 2 {
		status, answer, err := w.sendRequest("POST", "/a", []byte("{}"))
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, "POST /a", string(answer))
	}
	_, err := signUp(t.Context(), Target{REST: server.URL, Authorities: trusted}, "run")
	require.NoError(t, err)

	stranger := newWire(server.URL, "", x509.NewCertPool())
	_, _, err = stranger.sendRequest("POST", "/a", nil)
	require.ErrorContains(t, err, "unknown authority")
	_, err = signUp(t.Context(), Target{REST: server.URL, Authorities: x509.NewCertPool()}, "run")
	require.ErrorContains(t, err, "unknown authority")
	require.Equal(t, "purser.test:443", newWire("https://purser.test", "", nil).address)
	require.Equal(t, "purser.test:80", newWire("http://purser.test", "", nil).address)
}

func TestAWireToNobodyFails(t *testing.T) {
	_, _, err := newWire("http://127.0.0.1:0", "", nil).sendRequest("GET", "/", nil) // nobody can listen on port 0
	require.Error(t, err)
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, text := range []string{"", "HTTP/1.1", "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes) + "\r\n\r\n"} {
		_, err := readOf([]byte(text))
		require.Error(t, err, text)
	}
}

func readOf(text []byte) (*wire, error) {
	w := newWire("http://h:1", "", nil)
	w.in.Reset(bytes.NewReader(text))
	_, err := w.readResponse()
	return w, err
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := readOf(text)
		if err == nil && !bytes.HasSuffix(text[:len(text)-w.in.Buffered()], w.answer) && len(text) < maxHeaderBytes {
			t.Fatalf("answer %q of %q", w.answer, text)
		}
	})
}

// The fields of a flat object are those that encoding/json reads.
func FuzzFields(f *testing.F) {
	f.Add("approved", int64(12))
	f.Add(`a"reason":"b`, int64(-5))
	f.Fuzz(func(t *testing.T, reason string, cents int64) {
		text, err := json.Marshal(map[string]any{"amount": cents, "reason": reason, "a": "amount"})
		require.NoError(t, err)
		got, ok := centsField(text, "amount")
		require.True(t, ok)
		require.Equal(t, cents, got)
		if plain := strconv.QuoteToASCII(reason); !strings.Contains(plain, `\`) && !strings.ContainsAny(reason, "<>&") {
			require.Equal(t, reason, string(textField(text, "reason")))
		}
	})
}

func TestFieldsThatAreNotThere(t *testing.T) {
	require.Nil(t, textField([]byte(`{"a":1,"b":"x`), "b"))
	require.Nil(t, textField([]byte(`{"a":1}`), "a"))
	_, ok := centsField([]byte(`{"a":"1"}`), "a")
	require.False(t, ok)
	_, ok = centsField([]byte(`{}`), "a")
	require.False(t, ok)
	require.Equal(t, "x", string(textField([]byte("{ \"b\" :\n\"x\" }"), "b")))
}

// A connection that was idle for long may be closed by the server. No request is lost on it.
func TestAWireLeavesAnIdleConnection(t *testing.T) {
	peers := map[string]bool{}
	w := newWire(listen(t, func(ctx *fasthttp.RequestCtx) { peers[ctx.RemoteAddr().String()] = true }), "", nil)
	defer w.closeConnection()
	for range 2 {
		_, _, err := w.sendRequest("GET", "/", nil)
		require.NoError(t, err)
		w.used = w.used.Add(-2 * maxIdle)
	}
	require.Len(t, peers, 2)
}
