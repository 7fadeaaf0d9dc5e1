package httpapi

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// BenchmarkLoad measures whole requests from 1 and from 64 clients, over connections and a file
// system in memory: the cost of the service alone. An empty handler of the same HTTP server is
// measured in the same run. x-empty is the ratio of the medians and x-empty-p99 that of the 99th
// percentiles; they compare across machines.
func BenchmarkLoad(b *testing.B) {
	w := newWorld(b, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	empty, stop := emptyServer(b)
	defer stop()
	routes := []struct{ name, method, path, body string }{
		{"GET card", "GET", "/api/cards/" + card, ""},
		{"PATCH card", "PATCH", "/api/cards/" + card, `{"monthlyLimitUsdCents":%d}`},
		{"POST card", "POST", "/api/cards",
			`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":%d,"perTxnLimitUsdCents":5}`},
	}
	for _, clients := range []int{1, 64} {
		for _, route := range routes {
			b.Run(fmt.Sprintf("%s/clients=%d", route.name, clients), func(b *testing.B) {
				base := load{listen: empty, clients: clients, method: route.method, path: route.path,
					body: route.body}.run(b,
					b.N)
				full := load{listen: w.listen, clients: clients, method: route.method, path: route.path,
					body:   route.body,
					secret: tn.secret}
				b.ResetTimer()
				took := full.run(b, b.N)
				b.StopTimer()
				reportLoad(b, took, base)
			})
		}
	}
}

func reportLoad(b *testing.B, took, base []time.Duration) {
	p50, p99, e50, e99 := quantile(took, .5), quantile(took, .99), quantile(base, .5), quantile(base, .99)
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
	b.ReportMetric(float64(e50.Nanoseconds())/1e3, "empty-p50-µs")
	b.ReportMetric(float64(e99.Nanoseconds())/1e3, "empty-p99-µs")
	b.ReportMetric(float64(p50)/float64(e50), "x-empty")
	b.ReportMetric(float64(p99)/float64(e99), "x-empty-p99")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// emptyServer answers every request with an empty response, through the same HTTP library and
// settings.
func emptyServer(b *testing.B) (*fasthttputil.InmemoryListener, func()) {
	ln := fasthttputil.NewInmemoryListener()
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, ReadBufferSize: maxHeader, MaxRequestBodySize: maxBody,
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, NoDefaultServerHeader: true}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	return ln, func() {
		require.NoError(b, server.Shutdown())
		require.NoError(b, <-done)
	}
}

// load is a number of clients that send requests one after the other.
type load struct {
	listen                     *fasthttputil.InmemoryListener
	clients                    int
	method, path, body, secret string
}

// run sends n requests and returns their durations, sorted.
func (l load) run(b *testing.B, n int) []time.Duration {
	client := dial(l.listen)
	client.MaxConns = l.clients
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var next, refused atomic.Int64
	took := make([]time.Duration, n)
	for range l.clients {
		wg.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(resp)
			req.SetRequestURI("http://purser.test" + l.path)
			req.Header.SetMethod(l.method)
			req.Header.Set("Authorization", "Bearer "+l.secret)
			req.Header.SetContentType("application/json")
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if l.body != "" {
					// Another limit each time, because an unchanged limit commits nothing.
					req.SetBodyString(fmt.Sprintf(l.body, 10+i))
				}
				start := time.Now()
				err := client.Do(req, resp)
				took[i-1] = time.Since(start)
				if err != nil || resp.StatusCode() != 200 {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(b, refused.Load())
	slices.Sort(took)
	return took
}
