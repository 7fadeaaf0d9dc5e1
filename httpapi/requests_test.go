package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// lines stores the lines that a logger writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the records that have a value under a name.
func (l *lines) with(t *testing.T, name, value string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		if record[name] == value {
			found = append(found, record)
		}
	}
	return found
}

func logged(level slog.Level) (*lines, func(*Config)) {
	l := &lines{}
	return l, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level})) }
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ids")
	f := func(sent, want string) {
		t.Helper()
		got := w.get(tn.all.with("X-Request-Id", sent), "/api/workspaces").header("X-Request-Id")
		if want == "" {
			require.Regexp(t, `^[0-9a-f]{16}$`, got)
			return
		}
		require.Equal(t, want, got)
	}
	f("order-7.retry_2", "order-7.retry_2")
	f(strings.Repeat("a", maxRequestID), strings.Repeat("a", maxRequestID))
	f("", "")
	f(strings.Repeat("a", maxRequestID+1), "")
	f("a b", "")
	f("ada@example.com", "")
	f(tn.secret, "")
	for _, prefix := range ident.SecretPrefixes() {
		f(prefix+"_0123", "")
		f("retry."+prefix+"_0123", "")
	}
	f("used_0123", "used_0123")
	first, second := w.get(nil, "/api/nothing"), w.get(nil, "/api/nothing")
	require.NotEqual(t, first.header("X-Request-Id"), second.header("X-Request-Id"))
	require.NotEmpty(t, w.do(tn.all, "PUT", "/api/cards", "").header("X-Request-Id"), "405")
}

func TestARequestIsLoggedByItsRouteAndNothingElse(t *testing.T) {
	t.Parallel()
	log, withLog := logged(slog.LevelDebug)
	w := newWorld(t, withLog)
	tn := w.newTenant("logs")
	id := w.get(tn.all, "/api/cards/card_unknown?x=secretive").header("X-Request-Id")
	var found []map[string]any
	require.Eventually(t, func() bool { found = log.with(t, "request", id); return len(found) == 1 }, waitFor, pause)
	delete(found[0], "time")
	require.Contains(t, found[0], "took")
	delete(found[0], "took")
	require.Equal(t, map[string]any{"level": "DEBUG", "msg": "request", "request": id, "method": "GET",
		"route": "/api/cards/{id}", "status": 400.0, "code": "invalid_query"}, found[0])
	require.NotContains(t, log.text.String(), tn.secret)
	require.NotContains(t, log.text.String(), "secretive")
	require.NotContains(t, log.text.String(), "@")
}

// An internal fault is logged whole, at the operators' log level, under the id that the caller
// gets.
func TestAnInternalFaultIsFoundByItsRequestID(t *testing.T) {
	t.Parallel()
	log, withLog := logged(slog.LevelWarn)
	w := newWorld(t, withLog)
	tn := w.newTenant("faults")
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) { return nil, errors.New("the cable was cut") })
	r := w.get(tn.all, "/api/workspaces")
	w.fails(r, 500, "internal")
	id := r.header("X-Request-Id")
	require.Contains(t, r.text("message"), id)
	require.NotContains(t, r.raw, "cable")
	require.Eventually(t, func() bool { return len(log.with(t, "request", id)) == 2 }, waitFor, pause)
	require.Len(t, log.with(t, "err", "the cable was cut"), 1)
	require.Len(t, log.with(t, "msg", "request"), 1, "only what went wrong is logged at this level")
}

func TestUnavailableHasRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("busy")
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) {
		return nil,
			fault.New(fault.Unavailable, "busy")
	})
	r := w.get(tn.all, "/api/workspaces")
	w.fails(r, 503, "unavailable")
	require.Equal(t, "1", r.header("Retry-After"))
	require.Empty(t, r.header("x-ratelimit-reset-ms"))
}

func TestMetricsOfTheInterface(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *Config) {
		c.Registry, c.RateLimits = registry, RateLimits{PerKey: 3, PerWorkspace: 1000, PerAddress: 1000}
	})
	tn := w.newTenant("limits")
	limited := func(what string) float64 {
		return metric(t, registry, "purser_rate_limited_total", map[string]string{"limit": what})
	}
	for limited("key") == 0 {
		require.Contains(t, []int{200, 429}, w.get(key(tn.secret), "/api/cards").status)
	}
	require.Equal(t, 1.0, limited("key"))
	require.Zero(t, limited("address"))
	f := func(method, route, status string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return metric(t, registry, "purser_http_requests_total",
				map[string]string{"method": method, "route": route, "status": status}) > 0
		}, waitFor, pause)
	}
	f("GET", "/api/cards", "200")
	f("GET", "/api/cards", "429")
	w.get(nil, "/api/nothing")
	f("-", "-", "404")
	w.clock.turn(rateWindow)
	w.server.keyUsage.waitIdle() // or an earlier use's record may enter instead
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	let := sync.OnceFunc(func() { close(leave) })
	defer let() // or a failure here waits for ever
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) {
		entered <- struct{}{}
		<-leave
		return nil, fault.New(fault.Unavailable, "")
	})
	answered := make(chan testReply, 1)
	go func() { answered <- w.get(tn.all, "/api/workspaces") }()
	select {
	case <-entered:
	case r := <-answered:
		t.Fatal("it never ran: ", r.raw)
	}
	require.Equal(t, 1.0, metric(t, registry, "purser_http_in_flight", nil))
	let()
	<-answered
	require.Eventually(t, func() bool { return metric(t, registry, "purser_http_in_flight", nil) == 0 }, waitFor, pause)
}

// metric returns the value of a counter or gauge; 0 when none has these labels.
func metric(t *testing.T, r *prometheus.Registry, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	metrics:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] != l.GetValue() {
					continue metrics
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}
