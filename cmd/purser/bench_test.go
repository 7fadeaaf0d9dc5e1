package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/bench"
	"purser/cmd/purser/buildinfo"
)

// startWithoutRateLimits starts a server without rate limits. It returns the server and a benchmark
// configuration with its addresses.
func startWithoutRateLimits(t *testing.T) (*daemon, bench.Config) {
	t.Helper()
	data := t.TempDir()
	config := testConfig(t, data)
	config.RateLimits.Off = true
	m := newDaemon(config, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	secret, err := os.ReadFile(filepath.Join(data, "network-secret"))
	require.NoError(t, err)
	return m, bench.Config{Cards: 20, Workspaces: 4, YardstickFor: 20 * time.Millisecond, DiskDir: data, Seed: 1,
		Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(),
			Admin:   "http://" + m.listeners.admin.Addr().String(),
			Secret:  strings.TrimSpace(string(secret))}}
}

// declineReasons are the reasons that a message of the card network can cause. The others, timeout,
// backlog_full and system_unavailable, depend on the server's load and disks.
var declineReasons = []string{"invalid_request", "card_not_found", "card_terminated", "card_frozen",
	"currency_not_supported", "mcc_not_allowed", "merchant_not_allowed", "per_transaction_limit_exceeded",
	"monthly_limit_exceeded", "insufficient_funds", "authorization_not_found", "duplicate_mismatch",
	"reversed_before_arrival"}

// Every workload runs against a real server. Each answer is the expected one, the balances add up,
// and the declines have every reason of declineReasons.
func TestBenchOfEveryWorkload(t *testing.T) {
	onlyInFullLength(t)
	_, c := startWithoutRateLimits(t)
	c.Declines = 60
	var missing []string
	// A slow machine needs longer for the same work.
	for times := time.Duration(1); times <= maxLoadStretch; times *= 2 {
		c.Loads = []bench.Load{
			{Workload: bench.Authorize, Connections: 8, Duration: times * time.Second},
			{Workload: bench.Lifecycle, Connections: 4, Duration: times * 300 * time.Millisecond},
			{Workload: bench.REST, Connections: 4, Duration: times * 300 * time.Millisecond},
			{Workload: bench.Mixed, Connections: 4, Rate: 200, RESTRate: 20, Duration: times * 300 * time.Millisecond},
			{Name: "mixed with reads", Workload: bench.Mixed, Connections: 4, Rate: 200, RESTRate: 20, ReadRate: 20,
				Duration: times * 500 * time.Millisecond},
			{Workload: bench.Soak, Connections: 8, Duration: times * time.Second},
		}
		r, err := bench.Run(t.Context(), c)
		require.NoError(t, err)
		require.Zero(t, r.Wrong, "%+v", r.Stages)
		var names []string
		for _, s := range r.Stages {
			names = append(names, s.Name)
			require.Zero(t, s.Outcomes["no answer"], s.Name)
		}
		require.Equal(t, []string{"authorize", "lifecycle", "rest: PATCH card", "rest: GET card", "rest: GET treasury",
			"mixed: swipes", "mixed: REST", "mixed with reads: swipes", "mixed with reads: REST", "soak"}, names)
		require.Positive(t, r.Stages[0].Compared)
		if missing = missingResults(r); len(missing) == 0 {
			return
		}
	}
	require.Empty(t, missing)
}

// maxLoadStretch bounds how many times longer than usual a load runs on a slow machine.
const maxLoadStretch = 16

// missingResults returns the measures of all stages without a sample, and the outcomes that no
// swipe of the first stage had.
func missingResults(r bench.Report) (missing []string) {
	for _, s := range r.Stages {
		for _, m := range s.Measures {
			if m.Count == 0 {
				missing = append(missing, s.Name+": "+m.Name)
			}
		}
	}
	for _, reason := range append(slices.Clone(declineReasons), "approved") {
		if r.Stages[0].Outcomes[reason] == 0 {
			missing = append(missing, reason)
		}
	}
	return missing
}

// A sustained rate is judged, and the report has the facts of the server and its stores.
func TestBenchSustains(t *testing.T) {
	onlyInFullLength(t)
	_, c := startWithoutRateLimits(t)
	c.Loads = []bench.Load{{Workload: bench.Sustain, Connections: 4, Rate: 50, Duration: time.Second}}
	r, err := bench.Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, r.Stages[0].Judged)
	require.Len(t, r.Yardsticks, 2, "before and after")
	require.Positive(t, r.Seconds)
	require.Equal(t, "embedded journal (Pebble)", r.Facts["store"])
	require.Equal(t, "every answer is synced", r.Facts["authorizer"])
	require.Contains(t, r.Facts["server"], "purser "+buildinfo.Version)
	require.Zero(t, r.Wrong, "%+v", r.Stages)
	require.NotEmpty(t, r.Stages[0].Figures)
}

// startFalsifyingProxy starts a proxy of the card network's port that passes every 40th answer
// through falsify. It returns the proxy's base URL.
func startFalsifyingProxy(t *testing.T, network string, falsify func(answer []byte) []byte) string {
	t.Helper()
	const falsifyEvery = 40
	var answers atomic.Int64
	client := &fasthttp.Client{}
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Request.SetHost(strings.TrimPrefix(network, "http://"))
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		if answers.Add(1)%falsifyEvery == 0 {
			ctx.Response.SetBody(falsify(bytes.Clone(ctx.Response.Body())))
		}
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
		client.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String()
}

// A falsified answer of the card network is found in each field. It ends the run: no load follows,
// and no other difference is reported.
func TestBenchFindsAFalsifiedAnswer(t *testing.T) {
	onlyInFullLength(t)
	for _, c := range []struct{ load, from, to string }{
		{bench.Authorize, `"approved"`, `"declined"`},
		{bench.Lifecycle, `"posted"`, `"unmatched"`},
		{bench.Soak, `"approvedAmountCents":`, `"approvedAmountCents":1`},
		{bench.Soak, `"heldAmountCents":`, `"heldAmountCents":1`},
		{bench.Soak, `"authorizationId":"auth_`, `"authorizationId":"auth_0`},
	} {
		_, config := startWithoutRateLimits(t)
		config.Target.Network = startFalsifyingProxy(t, config.Target.Network, func(answer []byte) []byte {
			return bytes.ReplaceAll(answer, []byte(c.from), []byte(c.to))
		})
		var r bench.Report
		// On a slow machine a falsified answer comes late.
		for during := time.Second; r.Wrong == 0 && during <= maxLoadStretch*time.Second; during *= 2 {
			config.Loads = []bench.Load{{Workload: c.load, Connections: 4, Duration: during},
				{Name: "after", Workload: c.load, Connections: 4, Duration: during}}
			var err error
			r, err = bench.Run(t.Context(), config)
			require.NoError(t, err)
		}
		require.Positive(t, r.Wrong, "%s: %s", c.load, c.to)
		require.True(t, r.Failed)
		require.EqualValues(t, 1, r.Wrong, "%s: %s", c.load, c.to)
		last := r.Stages[len(r.Stages)-1]
		require.Equal(t, []string{r.FirstDifference()}, last.Differences)
		require.Contains(t, r.FirstDifference(), "; the request was ")
	}
}

// A server with rate limits cannot be measured. The error names the setting that turns them off.
func TestBenchNamesRateLimits(t *testing.T) {
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	secret := m.config.NetworkSecrets[0]
	_, err := bench.Run(t.Context(), bench.Config{Cards: 200, Workspaces: 1, YardstickFor: time.Millisecond,
		Loads: []bench.Load{{Workload: bench.Authorize}},
		Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(), Secret: secret}})
	require.ErrorIs(t, err, bench.ErrLimited)
	require.ErrorContains(t, err, "PURSER_RATE_LIMITS=off")
}
