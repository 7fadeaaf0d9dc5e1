package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/bench"
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
	return m, bench.Config{Cards: 20, Workspaces: 4, Declines: 10, Seed: 1,
		Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(),
			Admin:   "http://" + m.listeners.admin.Addr().String(),
			Secret:  strings.TrimSpace(string(secret))}}
}

// benchLoad is a load of some streams.
func benchLoad(t *testing.T, duration time.Duration, streams ...string) bench.Load {
	t.Helper()
	l := bench.Load{Duration: duration}
	for _, text := range streams {
		var s bench.Stream
		require.NoError(t, s.UnmarshalText([]byte(text)))
		l.Streams = append(l.Streams, s)
	}
	return l
}

// Every kind of stream runs against a real server. Each answer is the expected one, the balances
// add up, and the declines have every reason that a run causes.
func TestBenchOfEveryKind(t *testing.T) {
	onlyInFullLength(t)
	_, c := startWithoutRateLimits(t)
	c.Declines = 60
	var missing []string
	// A slow machine needs longer for the same work.
	for times := time.Duration(1); times <= maxLoadStretch; times *= 2 {
		c.Loads = []bench.Load{
			benchLoad(t, times*time.Second, "authorize:8"),
			benchLoad(t, times*time.Second, "authorize:4@200", "lifecycle:4", "card-updates:4@20", "card-reads:4@20",
				"treasury-reads:4@20"),
		}
		r, err := bench.Run(t.Context(), c)
		require.NoError(t, err)
		require.Empty(t, r.Failure())
		require.Len(t, r.Stages, 6)
		if missing = missingResults(r); len(missing) == 0 {
			return
		}
	}
	require.Empty(t, missing)
}

// maxLoadStretch bounds how many times longer than usual a load runs on a slow machine.
const maxLoadStretch = 16

// missingResults returns the measures of all stages without a sample, and the reasons that no swipe
// of the first stage had.
func missingResults(r bench.Report) (missing []string) {
	for _, s := range r.Stages {
		for _, m := range s.Measures {
			if m.Count == 0 {
				missing = append(missing, s.Name+": "+m.Name)
			}
		}
	}
	for _, reason := range []string{"approved", "invalid_request", "card_terminated", "card_frozen",
		"currency_not_supported", "mcc_not_allowed", "merchant_not_allowed", "per_transaction_limit_exceeded",
		"monthly_limit_exceeded", "insufficient_funds", "authorization_not_found"} {
		if r.Stages[0].Outcomes[reason] == 0 {
			missing = append(missing, reason)
		}
	}
	return missing
}

// A server of the run's own is killed with -9 under swipes and comes back. The report is left where
// it was asked for.
func TestBenchOfAnOwnServer(t *testing.T) {
	path, out := buildProgram(t), filepath.Join(t.TempDir(), "result")
	text, err := exec.Command(path, "bench", "authorize:4", "card-reads:2", "--cards=20", "--workspaces=4", "--duration=200ms",
		"--yardstick=20ms", "--kills=1", "--kill-after=200ms", "--out="+out).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "kill -9 to first correct swipe")
	require.Contains(t, string(text), "processor time per answer")
	var r bench.Report
	written, err := os.ReadFile(out + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, &r))
	require.Len(t, r.Stages, 4)
	require.Positive(t, r.Yardstick.SyncP50Micros)
	page, err := os.ReadFile(out + ".html")
	require.NoError(t, err)
	require.Contains(t, string(page), "<svg")
}

// This build is compared with itself.
func TestBenchCompare(t *testing.T) {
	path := buildProgram(t)
	text, err := exec.Command(path, "bench", "compare", "authorize:4", "--own", "--other="+path, "--rounds=2", "--cards=20",
		"--workspaces=4", "--duration=200ms", "--yardstick=20ms").CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "round 2, other: authorize:4")
	require.Contains(t, string(text), "this / other")
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

// A falsified answer of the card network is found. It ends the run: no load follows.
func TestBenchFindsAFalsifiedAnswer(t *testing.T) {
	onlyInFullLength(t)
	for _, c := range []struct{ kind, from, to string }{
		{bench.Authorize, `"approved"`, `"declined"`},
		{bench.Lifecycle, `"posted"`, `"unmatched"`},
	} {
		_, config := startWithoutRateLimits(t)
		config.Target.Network = startFalsifyingProxy(t, config.Target.Network, func(answer []byte) []byte {
			return bytes.ReplaceAll(answer, []byte(c.from), []byte(c.to))
		})
		load := benchLoad(t, maxLoadStretch*time.Second, c.kind+":4") // on a slow machine a falsified answer comes late
		config.Loads = []bench.Load{load, load}
		r, err := bench.Run(t.Context(), config)
		require.NoError(t, err)
		require.Len(t, r.Stages, 1)
		require.Contains(t, r.Failure(), "; the request was ")
	}
}

// A server with rate limits cannot be measured. The error names the setting that turns them off.
func TestBenchNamesRateLimits(t *testing.T) {
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	secret := m.config.NetworkSecrets[0]
	_, err := bench.Run(t.Context(), bench.Config{Cards: 200, Workspaces: 1,
		Loads: []bench.Load{benchLoad(t, time.Millisecond, bench.Authorize)},
		Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(), Secret: secret}})
	require.ErrorIs(t, err, bench.ErrLimited)
	require.ErrorContains(t, err, "PURSER_RATE_LIMITS=off")
}
