package bench_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors/ident"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/bench"
)

// listen serves a handler on a free port and returns its address.
func listen(t testing.TB, handler fasthttp.RequestHandler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &fasthttp.Server{Handler: handler}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return "http://" + ln.Addr().String()
}

func TestEveryRequestIsSentOnceAndCounted(t *testing.T) {
	var got [1000]atomic.Int64
	url := listen(t, func(ctx *fasthttp.RequestCtx) {
		i, err := strconv.Atoi(string(ctx.PostBody()))
		if err != nil || string(ctx.Request.Header.Peek("Authorization")) != "Bearer s" {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			return
		}
		if got[i].Add(1); i%10 == 0 {
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
	})
	r, err := bench.Run(t.Context(), bench.Config{URL: url, Secret: "s", Connections: 8, Requests: len(got),
		Body: func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(i), 10) }})
	require.NoError(t, err)
	require.Equal(t, 900, r.Answered)
	require.Equal(t, 100, r.Failed)
	require.True(t, 0 < r.P50 && r.P50 <= r.P90 && r.P90 <= r.P99 && r.P99 <= r.Max && r.Max <= r.Elapsed, r)
	for i := range got {
		require.EqualValues(t, 1, got[i].Load(), i)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := listen(t, func(*fasthttp.RequestCtx) { cancel() })
	r, err := bench.Run(ctx, bench.Config{URL: url, Connections: 1, Requests: 100, Body: func(dst []byte, _ int) []byte { return dst }})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, r.Answered, 100)
}

func TestFaultsAreNamedAtOnce(t *testing.T) {
	_, err := bench.Run(t.Context(), bench.Config{})
	for _, fault := range []string{"URL", "bodies", "connections", "requests"} {
		require.ErrorContains(t, err, fault)
	}
}

// BenchmarkDurableSwipe is an authorization over loopback, synced to disk before its answer, beside an empty handler with the same
// client: the ratios say what the authorizer costs on this machine.
func BenchmarkDurableSwipe(b *testing.B) {
	url, secret, token := network(b)
	empty := listen(b, func(*fasthttp.RequestCtx) {})
	var ids atomic.Int64
	body := func(dst []byte, _ int) []byte {
		return fmt.Appendf(dst, `{"id":"b%d","cardToken":"%s","amountCents":1,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`,
			ids.Add(1), token)
	}
	for _, connections := range []int{1, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			c := bench.Config{URL: url + "/v1/authorizations", Secret: secret, Connections: connections, Requests: b.N, Body: body}
			swipes, err := bench.Run(b.Context(), c)
			require.NoError(b, err)
			require.Zero(b, swipes.Failed)
			b.StopTimer()
			c.URL = empty
			nothing, err := bench.Run(b.Context(), c)
			require.NoError(b, err)
			b.ReportMetric(float64(swipes.P50.Microseconds()), "p50-µs")
			b.ReportMetric(float64(swipes.P99.Microseconds()), "p99-µs")
			b.ReportMetric(swipes.PerSecond(), "swipes/s")
			b.ReportMetric(swipes.PerSecond()/nothing.PerSecond(), "of-empty-rate")
		})
	}
}

// network is an authorizer on the disk of the test, with one funded card, and its server.
func network(b *testing.B) (url, secret, token string) {
	e, err := authorizer.Open(authorizer.Options{Dir: b.TempDir(), Deployment: ident.Derive(0, time.UnixMilli(1), "bench"),
		Entropy: rand.Reader, Fatal: func(err error) { b.Error(err) }})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, e.Close()) })
	workspace := ident.Derive(9, time.UnixMilli(1), "workspace")
	card, err := ident.NewToken(9, rand.Reader)
	require.NoError(b, err)
	const plenty = 1 << 50
	require.NoError(b, e.Follow(workspace.Shard(), authorizer.Follow{Through: 1,
		Rules: []hold.Rule{{Token: card, Card: ident.Derive(9, time.UnixMilli(1), "card"), Workspace: workspace, Version: 1,
			State: hold.CardActive, PerTxnCents: plenty, MonthCents: plenty}},
		Credits: []authorizer.Credit{{Workspace: workspace, Cents: plenty}}}))
	server, err := authorizer.NewServer(authorizer.ServerOptions{Decider: e, Secrets: []string{"a-secret-of-the-benchmark"}, Clock: time.Now})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = server.Serve(ln) }()
	b.Cleanup(func() { require.NoError(b, server.Shutdown(context.Background())) })
	return "http://" + ln.Addr().String(), "a-secret-of-the-benchmark", card.String()
}
