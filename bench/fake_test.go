package bench

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// fakeServer answers the routes that a run uses, on one port. lie may alter each answer; stall is
// called before a decision.
type fakeServer struct {
	mu       sync.Mutex
	limits   map[string]int64 // by card
	cents    map[string]int64 // available, by key
	owner    map[string]string
	requests []string
	away     int // requests that are answered 503
	lie      func(path, answer string) string
	stall    func()
	target   Target
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	f := &fakeServer{limits: map[string]int64{}, cents: map[string]int64{}, owner: map[string]string{}}
	f.target = Target{REST: serve(t, f.answer), Secret: "secret"}
	f.target.Network, f.target.Admin = f.target.REST, f.target.REST
	return f
}

// serve serves on a free port until the test ends, and returns the base URL.
func serve(t *testing.T, handler fasthttp.RequestHandler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveOn(t, listener, handler)
	return "http://" + listener.Addr().String()
}

func serveOn(t *testing.T, listener net.Listener, handler fasthttp.RequestHandler) {
	ended := make(chan error, 1)
	server := &fasthttp.Server{Handler: handler}
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		require.NoError(t, <-ended)
	})
}

func (f *fakeServer) answer(ctx *fasthttp.RequestCtx) {
	f.mu.Lock()
	stall := f.stall
	f.mu.Unlock()
	if stall != nil {
		stall()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	path := string(ctx.Path())
	f.requests = append(f.requests, path)
	if f.away > 0 {
		f.away--
		ctx.SetStatusCode(503)
		return
	}
	var body struct {
		ID, CardToken, Kind string
		AmountCents         int64
		AmountUsdCents      int64
		MonthlyLimit        int64 `json:"monthlyLimitUsdCents"`
	}
	_ = json.Unmarshal(ctx.PostBody(), &body) // some requests have none
	key := strings.TrimPrefix(string(ctx.Request.Header.Peek("Authorization")), "Bearer ")
	text := ""
	switch id, isCard := strings.CutPrefix(path, "/api/cards/"); {
	case isCard:
		if body.MonthlyLimit != 0 {
			f.limits[id] = body.MonthlyLimit
		}
		text = fmt.Sprintf(`{"id":%q,"monthlyLimitUsdCents":%d}`, id, f.limits[id])
	case path == "/api/dashboard/signup":
		ctx.Response.Header.Set("Set-Cookie", "session=1; Path=/")
		text = `{}`
	case path == "/api/workspaces":
		text = fmt.Sprintf(`{"workspace":{"id":"ws_%d"}}`, len(f.requests))
	case path == "/api/auth/keys":
		text = fmt.Sprintf(`{"secret":"key_%d"}`, len(f.requests))
	case path == "/api/treasury/deposits":
		f.cents[key] += body.AmountUsdCents
		text = `{}`
	case path == "/api/treasury":
		text = fmt.Sprintf(`{"balances":[{"account":"usd","availableCents":%d}]}`, f.cents[key])
	case path == "/api/cards":
		id := fmt.Sprint("card_", len(f.requests))
		f.limits[id], f.owner["token_"+id] = body.MonthlyLimit, key
		text = fmt.Sprintf(`{"card":{"id":%q,"partnerCardToken":"token_%s"}}`, id, id)
	case path == "/metrics":
		text = "# HELP\npurser_backlog_entries{shard=\"1\"} 2\npurser_backlog_entries{shard=\"2\"} 3\nother 1\n"
	case path == authorizations:
		f.cents[f.owner[body.CardToken]] -= body.AmountCents
		text = fmt.Sprintf(`{"id":%q,"decision":"approved","reason":"approved","approvedAmountCents":%d}`, body.ID, body.AmountCents)
	case path == refunds:
		f.cents[f.owner[body.CardToken]] += body.AmountCents
		fallthrough
	default:
		text = fmt.Sprintf(`{"id":%q,"status":"posted"}`, body.ID)
	}
	if f.lie != nil {
		text = f.lie(path, text)
	}
	ctx.SetBodyString(text)
}

// alterFields changes fields of the fake server under its lock.
func (f *fakeServer) alterFields(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// config is a run of some streams against the fake server.
func (f *fakeServer) config(t *testing.T, kinds ...string) Config {
	t.Helper()
	l := Load{Duration: 100 * time.Millisecond}
	for _, kind := range kinds {
		var s Stream
		require.NoError(t, s.UnmarshalText([]byte(kind)))
		l.Streams = append(l.Streams, s)
	}
	return Config{Target: f.target, Loads: []Load{l}, Cards: 8, Workspaces: 2, Seed: 1}
}

// secure serves the handler by TLS with a certificate of its own.
func secure(t *testing.T, certificate tls.Certificate, handler fasthttp.RequestHandler) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	serveOn(t, listener, handler)
	return "https://" + listener.Addr().String()
}
