package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/hold"
	"purser/bench"
	"purser/cmd/purser/buildinfo"
)

// unlimited starts a server that may be asked as often as one likes, and says how bench reaches it.
func unlimited(t *testing.T) (*Main, bench.Config) {
	t.Helper()
	data := t.TempDir()
	config := testConfig(t, data)
	config.RateLimits.Off = true
	m := NewMain(config, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	secret, err := os.ReadFile(filepath.Join(data, "network-secret"))
	require.NoError(t, err)
	return m, bench.Config{Cards: 20, Workspaces: 4, YardstickFor: 20 * time.Millisecond, DiskDir: data, Seed: 1,
		Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(), Admin: "http://" + m.listeners.admin.Addr().String(),
			Secret: strings.TrimSpace(string(secret))}}
}

// declineReasons are all that the network can bring about by itself; timeout, backlog_full and system_unavailable are the
// server's.
var declineReasons = []string{"invalid_request", "card_not_found", "card_terminated", "card_frozen", "currency_not_supported",
	"mcc_not_allowed", "merchant_not_allowed", "per_transaction_limit_exceeded", "monthly_limit_exceeded", "insufficient_funds",
	"authorization_not_found", "duplicate_mismatch", "reversed_before_arrival"}

// Every workload runs against the real server: each answer is the one that must come, the dollars add up, and the mix of declines
// has every reason.
func TestBenchOfEveryWorkload(t *testing.T) {
	_, c := unlimited(t)
	c.Declines = 60
	var left []string
	for times := time.Duration(1); times <= mostLonger; times *= 2 { // a slow machine does less in the same time
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
		if left = notMet(r); len(left) == 0 {
			return
		}
	}
	require.Empty(t, left)
}

// mostLonger is how much longer than usual a load is run at last on a machine that does not come to all of it.
const mostLonger = 16

// notMet is what a run has not come to: measures of its stages, and reasons of the swipes of the first one.
func notMet(r bench.Report) (left []string) {
	for _, s := range r.Stages {
		for _, m := range s.Measures {
			if m.Count == 0 {
				left = append(left, s.Name+": "+m.Name)
			}
		}
	}
	for _, reason := range append(slices.Clone(declineReasons), "approved") {
		if r.Stages[0].Outcomes[reason] == 0 {
			left = append(left, reason)
		}
	}
	return left
}

func TestBenchSustains(t *testing.T) {
	_, c := unlimited(t)
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

// Every goal of the short set is of one of its loads. Swipes beside card updates have one; with reads besides they have none.
func TestBenchGoalsAreOfTheShortSet(t *testing.T) {
	reads := map[string]int{}
	for _, l := range shortSet() {
		reads[l.Name] = l.ReadRate
	}
	require.Len(t, reads, len(shortSet()))
	var of []string
	for _, g := range shortGoals() {
		name, _, _ := strings.Cut(g.Stage, ":")
		require.Contains(t, reads, name)
		of = append(of, name)
	}
	require.Contains(t, of, "mixed with writes")
	require.Zero(t, reads["mixed with writes"])
	require.NotContains(t, of, "mixed with reads")
	require.Positive(t, reads["mixed with reads"])
}

// A load by itself has the goals that it has in the short set, when it does what they are for.
func TestBenchGoalsOfALoadByItself(t *testing.T) {
	goals := func(change func(l *bench.Load), l bench.Load) (of []string) {
		change(&l)
		for _, g := range loadGoals(l) {
			of = append(of, g.Stage+", "+g.Quantity)
		}
		return of
	}
	same := func(*bench.Load) {}
	rest := bench.Load{Name: bench.REST, Workload: bench.REST, Connections: 64}
	mixed := bench.Load{Name: bench.Mixed, Workload: bench.Mixed, Connections: 64, Rate: 5000, RESTRate: 200}
	require.Equal(t, []string{"rest: PATCH card, /s", "rest: PATCH card, p99, µs"}, goals(same, rest))
	require.Equal(t, []string{"mixed: swipes, p99, µs"}, goals(same, mixed))
	for _, other := range []func(l *bench.Load){func(l *bench.Load) { l.Connections = 256 }, func(l *bench.Load) { l.Rate = 20_000 },
		func(l *bench.Load) { l.RESTRate = 900 }, func(l *bench.Load) { l.ReadRate = 200 }} {
		require.Empty(t, goals(other, mixed))
	}
	require.Empty(t, goals(func(l *bench.Load) { l.Connections = 8 }, rest))
	for _, l := range shortSet() {
		for _, g := range loadGoals(l) {
			require.Contains(t, shortGoals(), g)
		}
	}
}

// Medians are written beside the results they are of.
func TestBenchMediansOfResults(t *testing.T) {
	dir := t.TempDir()
	b := benchReport{Results: dir}
	r := bench.Report{Stages: []bench.Stage{{Name: "rest", Measures: []bench.Measure{{Name: "PATCH card", Count: 1, PerSecond: 77}}}}}
	for range 3 {
		require.NoError(t, b.deliver(&r, io.Discard, "rest"))
	}
	var out strings.Builder
	require.NoError(t, run([]string{"bench", "medians", "--results", dir, "--write", "rest-1", "rest-2", "rest-3"}, &out))
	text, err := os.ReadFile(filepath.Join(dir, "rest-medians.md"))
	require.NoError(t, err)
	for _, written := range []string{out.String(), string(text)} {
		require.Contains(t, written, "PATCH card")
		require.Contains(t, written, "77")
	}
	require.ErrorContains(t, run([]string{"bench", "medians", "--results", dir, "rest-1", "rest-9"}, &out), "rest-9")
}

// The empty handler has the processors that the server has.
func TestTheEmptyHandlerHasTheServersProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before, stdin := runtime.GOMAXPROCS(0), os.Stdin
	in, end, err := os.Pipe()
	require.NoError(t, err)
	os.Stdin = in
	defer func() {
		os.Stdin = stdin
		runtime.GOMAXPROCS(before)
		require.NoError(t, in.Close())
	}()
	require.NoError(t, end.Close())
	require.NoError(t, run([]string{"bench", "empty"}, io.Discard))
	require.Equal(t, before+inCalls, runtime.GOMAXPROCS(0))
}

// liar stands before the card network's port and changes one answer in so many.
func liar(t *testing.T, network string, lie func(answer []byte) []byte) string {
	t.Helper()
	const truthful = 40
	var answers atomic.Int64
	client := &fasthttp.Client{}
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Request.SetHost(strings.TrimPrefix(network, "http://"))
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		if answers.Add(1)%truthful == 0 {
			ctx.Response.SetBody(lie(bytes.Clone(ctx.Response.Body())))
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

// A wrong answer is found, whichever field it is in.
func TestBenchFindsALie(t *testing.T) {
	for _, c := range []struct{ load, from, to string }{
		{bench.Authorize, `"approved"`, `"declined"`},
		{bench.Lifecycle, `"posted"`, `"unmatched"`},
		{bench.Soak, `"approvedAmountCents":`, `"approvedAmountCents":1`},
		{bench.Soak, `"heldAmountCents":`, `"heldAmountCents":1`},
		{bench.Soak, `"authorizationId":"auth_`, `"authorizationId":"auth_0`},
	} {
		_, config := unlimited(t)
		config.Target.Network = liar(t, config.Target.Network, func(answer []byte) []byte {
			return bytes.ReplaceAll(answer, []byte(c.from), []byte(c.to))
		})
		var r bench.Report
		// A slow machine is late to meet the lie.
		for during := time.Second; r.Wrong == 0 && during <= mostLonger*time.Second; during *= 2 {
			config.Loads = []bench.Load{{Workload: c.load, Connections: 4, Duration: during}}
			var err error
			r, err = bench.Run(t.Context(), config)
			require.NoError(t, err)
		}
		require.Positive(t, r.Wrong, "%s: %s", c.load, c.to)
		require.True(t, r.Failed)
		require.NotEmpty(t, r.Stages[0].Differences)
	}
}

// A server that counts requests cannot be measured, and says how it can.
func TestBenchNamesRateLimits(t *testing.T) {
	m := start(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	secret := m.config.NetworkSecrets[0]
	_, err := bench.Run(t.Context(), bench.Config{Cards: 200, Workspaces: 1, YardstickFor: time.Millisecond,
		Loads: []bench.Load{{Workload: bench.Authorize}}, Target: bench.Target{REST: "http://" + m.listeners.http.Addr().String(),
			Network: "http://" + m.listeners.authorizer.Addr().String(), Secret: secret}})
	require.ErrorIs(t, err, bench.ErrLimited)
	require.ErrorContains(t, err, "PURSER_RATE_LIMITS=off")
}

// TestServeAsAChild is no test of its own: it is the server that TestBenchOfAServerOfItsOwn starts and kills.
func TestServeAsAChild(t *testing.T) {
	if os.Getenv("PURSER_TEST_SERVE") != "" {
		require.NoError(t, run([]string{"serve"}, io.Discard))
	}
}

func TestEmptyAsAChild(t *testing.T) {
	if os.Getenv("PURSER_TEST_EMPTY") != "" {
		require.NoError(t, run([]string{"bench", "empty"}, os.Stdout))
	}
}

// The yardstick's empty handler answers from a process of its own, and ends when it is told to.
func TestBenchOfTheEmptyHandler(t *testing.T) {
	t.Setenv("PURSER_TEST_EMPTY", "1")
	url, end, err := startEmpty(os.Args[0], "-test.run", "^TestEmptyAsAChild$")
	require.NoError(t, err)
	status, _, err := fasthttp.Post(nil, url, nil)
	require.NoError(t, err)
	require.Equal(t, fasthttp.StatusOK, status)
	require.NoError(t, end())
	_, _, err = fasthttp.Post(nil, url, nil)
	require.Error(t, err)

	t.Setenv("PURSER_TEST_EMPTY", "")
	_, _, err = startEmpty(os.Args[0], "-test.run", "^TestEmptyAsAChild$")
	require.Error(t, err, "it says no URL")
}

// A server of the run's own is killed with -9 in a storm and comes back with the same answers; the report is left where it was
// asked for.
func TestBenchOfAServerOfItsOwn(t *testing.T) {
	t.Setenv("PURSER_TEST_SERVE", "1")
	own, err := newOwnServer(t.Context(), "", os.Args[0], "-test.run", "^TestServeAsAChild$")
	require.NoError(t, err)
	c := bench.Config{Target: own.target, Server: own, Cards: 20, Workspaces: 4,
		YardstickFor: 20 * time.Millisecond, Loads: []bench.Load{{Workload: bench.Recovery, Connections: 8,
			Duration: 300 * time.Millisecond}}}
	r, err := bench.Run(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, own.close())
	require.NoDirExists(t, own.data)
	require.False(t, r.Failed, "%+v", r.Stages)
	require.Len(t, r.Stages, 3)
	for _, s := range r.Stages {
		require.Positive(t, s.Compared, "answers were asked again")
	}
	dir := t.TempDir()
	var out strings.Builder
	b := benchReport{JSON: true, Results: dir, HTML: filepath.Join(dir, "page.html")}
	require.NoError(t, b.deliver(&r, &out, "recovery"))
	require.NoError(t, b.deliver(&r, io.Discard, "recovery"))
	var again bench.Report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &again))
	require.Equal(t, r.Stages[0].Measures, again.Stages[0].Measures)
	for _, name := range []string{"recovery-1.json", "recovery-1.html", "recovery-1.md", "recovery-2.json", "page.html"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NotContains(t, string(text), own.data, "results name no path")
	}
}

// Stores that are filled without the server are the server's own: it starts on them, approves swipes of their cards, takes those
// decisions into the balances, and holds what it had when it is killed. All of it is done again, with loads that last twice as
// long, when there was too little traffic to fill the cache: a machine may stand still.
func TestBenchOfCardsThatAreThereAlready(t *testing.T) {
	t.Setenv("PURSER_TEST_SERVE", "1")
	t.Setenv("PURSER_AUTHORIZER_CACHE", "16MiB") // a share of it for each shard: less than the cards take
	for during := 200 * time.Millisecond; ; during *= 2 {
		r := benchCards(t, during)
		memory := map[string]float64{}
		for _, f := range r.Stages[2].Figures {
			memory[f.Name] = f.Value
		}
		if memory["evictions"] == 0 && during < 4*time.Second {
			continue
		}
		require.Len(t, r.Goals, 3)
		last := r.Stages[len(r.Stages)-1]
		require.Contains(t, strings.Join(last.Notes, "\n"), "what 10 workspaces have spent since before the run")
		require.Equal(t, "cards: memory full", r.Stages[2].Name)
		require.GreaterOrEqual(t, memory["highest resident memory"], memory["resident memory"])
		require.Positive(t, memory["evictions"])
		require.Positive(t, r.Stages[2].Outcomes["approved"])
		return
	}
}

// benchCards is a run over stores that were filled for it.
func benchCards(t *testing.T, during time.Duration) bench.Report {
	dir, s := t.TempDir(), stock{cards: 4000, workspaces: 10}
	require.NoError(t, fillStores(t.Context(), dir, s, 4500, func(bench.Progress) {}))
	require.ErrorContains(t, fillStores(t.Context(), dir, s, 0, nil), "has stores already")
	have, err := s.in(dir)
	require.NoError(t, err)
	own, err := newOwnServer(t.Context(), dir, os.Args[0], "-test.run", "^TestServeAsAChild$")
	require.NoError(t, err)
	r, err := bench.Run(t.Context(), bench.Config{Target: own.target, Server: own, Cards: s.cards, Workspaces: s.workspaces,
		Stock: have, Goals: cardsGoals(), YardstickFor: 20 * time.Millisecond, Loads: []bench.Load{{Workload: bench.Cards,
			Connections: 8, Duration: during}}})
	require.NoError(t, err)
	require.False(t, r.Failed, "%+v", r.Stages)
	require.NoError(t, own.close()) // it drains: nothing of the relay was refused
	log, err := os.ReadFile(filepath.Join(dir, "bench.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "refused")
	return r
}

// A server's profiles of waiting have samples: those of a few swipes over some connections.
func TestWaitingIsProfiled(t *testing.T) {
	t.Setenv("PURSER_TEST_SERVE", "1")
	own, err := newOwnServer(t.Context(), "", os.Args[0], "-test.run", "^TestServeAsAChild$")
	require.NoError(t, err)
	defer func() { require.NoError(t, own.close()) }()
	p := &process{admin: own.target.Admin, http: http.DefaultClient}
	profile := func(name string) string { return p.ask("/debug/pprof/" + name + "?debug=1") }
	require.Contains(t, profile("mutex"), fmt.Sprint("sampling period=", mutexProfileFraction))
	p.await(t, "the server's loops wait, and are seen to", func() bool { return strings.Contains(profile("block"), "purser/") })
}

func TestAFillRefusesItsNumbers(t *testing.T) {
	for text, s := range map[string]stock{"--cards": {workspaces: 1}, "--workspaces": {cards: 5, workspaces: 6}} {
		require.ErrorContains(t, fillStores(t.Context(), t.TempDir(), s, 1, nil), text)
	}
	require.ErrorContains(t, fillStores(t.Context(), t.TempDir(), stock{cards: 1, workspaces: 1}, -1, nil), "--decisions")
}

// Holds that end while nobody counts are not taken for a server's wrong sums.
func TestAFillIsRefusedWhenItsHoldsEnd(t *testing.T) {
	dir, s := t.TempDir(), stock{cards: 4, workspaces: 2}
	began := time.Now()
	require.NoError(t, fillStores(t.Context(), dir, s, 4, func(bench.Progress) {}))
	_, err := s.funds(dir, began.Add(hold.DefaultHoldLife-time.Second))
	require.NoError(t, err)
	_, err = s.funds(dir, time.Now().Add(hold.DefaultHoldLife))
	require.ErrorContains(t, err, "the first holds of the fill are older than 168h")
}

// A child that does not start is told with its last words.
func TestAServerOfItsOwnThatDoesNotStart(t *testing.T) {
	t.Setenv("PURSER_TEST_SERVE", "1")
	t.Setenv("PURSER_BACKLOG_MAX", "few")
	_, err := newOwnServer(t.Context(), "", os.Args[0], "-test.run", "^TestServeAsAChild$")
	require.ErrorContains(t, err, "PURSER_BACKLOG_MAX")
}

// One that dies during a run is told likewise, with how it ended, before its log goes with its directory: by the kill of a
// recovery, which finds it dead, or at the end of the run.
func TestAServerOfItsOwnThatDies(t *testing.T) {
	t.Setenv("PURSER_TEST_SERVE", "1")
	for name, find := range map[string]func(*ownServer) error{"kill": (*ownServer).Kill, "end": (*ownServer).close} {
		t.Run(name, func(t *testing.T) {
			own, err := newOwnServer(t.Context(), "", os.Args[0], "-test.run", "^TestServeAsAChild$")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(own.data)) })
			_, err = own.log.WriteString("nothing left to write to")
			require.NoError(t, err)
			require.NoError(t, own.cmd.Process.Kill())
			<-own.ended
			err = find(own)
			require.ErrorContains(t, err, "signal: killed")
			require.ErrorContains(t, err, "nothing left to write to")
			require.Nil(t, own.cmd)
		})
	}
}
