// Package bench is the load harness: it sends requests over the wire and measures until the answer, as a black box. It
// knows nothing of what it talks to but the URL, a bearer secret and the bodies it is given.
//
// A run is a closed loop: each connection sends its next request when the last one is answered. So the figures say what the
// server does with that many callers, not at a given rate.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of a run.
const (
	MaxConnections = 4096
	MaxRequests    = 10_000_000
	answerWithin   = 10 * time.Second
)

// Config says what to send. All fields but Secret are required.
type Config struct {
	URL         string
	Secret      string // bearer
	Connections int    // open at once, each with one request under way
	Requests    int    // in all
	// Body appends the body of the i-th request to dst. It is called by many goroutines at once.
	Body func(dst []byte, i int) []byte
}

// Validate names every fault at once.
func (c *Config) Validate() error {
	var faults []error
	check := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New("bench: "+text))
		}
	}
	check(c.URL == "", "no URL")
	check(c.Body == nil, "no bodies")
	check(c.Connections < 1 || c.Connections > MaxConnections, fmt.Sprintf("connections must be from 1 to %d", MaxConnections))
	check(c.Requests < 1 || c.Requests > MaxRequests, fmt.Sprintf("requests must be from 1 to %d", MaxRequests))
	return errors.Join(faults...)
}

// Result is what came of a run. Latencies are of the requests that were answered 200.
type Result struct {
	Answered, Failed   int
	Elapsed            time.Duration
	P50, P90, P99, Max time.Duration
}

// PerSecond is the rate of the answers.
func (r Result) PerSecond() float64 { return float64(r.Answered) / r.Elapsed.Seconds() }

// Run sends the requests and returns when all are answered or the context ends; then its error comes with what was measured.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	client := &fasthttp.Client{MaxConnsPerHost: c.Connections, ReadTimeout: answerWithin, WriteTimeout: answerWithin,
		NoDefaultUserAgentHeader: true}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	loops := make([]loop, c.Connections)
	var running sync.WaitGroup
	began := time.Now()
	for i := range loops {
		running.Go(func() { loops[i].run(ctx, client, &c, &next) })
	}
	running.Wait()
	return sum(loops, time.Since(began)), ctx.Err()
}

// loop is one connection.
type loop struct {
	failed    int
	latencies []time.Duration
}

func (l *loop) run(ctx context.Context, client *fasthttp.Client, c *Config, next *atomic.Int64) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(c.URL)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	if c.Secret != "" {
		req.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+c.Secret)
	}
	var body []byte
	for i := next.Add(1) - 1; i < int64(c.Requests) && ctx.Err() == nil; i = next.Add(1) - 1 {
		body = c.Body(body[:0], int(i))
		req.SetBodyRaw(body)
		sent := time.Now()
		if err := client.Do(req, resp); err != nil || resp.StatusCode() != fasthttp.StatusOK {
			l.failed++
			continue
		}
		l.latencies = append(l.latencies, time.Since(sent))
	}
}

func sum(loops []loop, elapsed time.Duration) Result {
	r := Result{Elapsed: elapsed}
	var all []time.Duration
	for _, l := range loops {
		r.Failed += l.failed
		all = append(all, l.latencies...)
	}
	r.Answered = len(all)
	if r.Answered == 0 {
		return r
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100] }
	r.P50, r.P90, r.P99, r.Max = at(50), at(90), at(99), at(100)
	return r
}
