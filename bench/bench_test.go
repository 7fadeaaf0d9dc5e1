package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"
)

// listen serves a handler on a free port and returns its base URL.
func listen(t *testing.T, handler fasthttp.RequestHandler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &fasthttp.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
	})
	return "http://" + ln.Addr().String()
}

// runAt returns a run against a server without cards.
func runAt(url string) *run {
	return &run{Config: Config{Target: Target{REST: url, Network: url, Secret: "s"}}.withDefaults()}
}

func TestFaultsAreNamedAtOnce(t *testing.T) {
	c := Config{Target: Target{REST: "ftp://x", Network: "", Admin: "https://x:1"}, Cards: -1, Workspaces: 5000, Merchants: -1,
		Skew: 0.5, Declines: 99, YardstickFor: time.Hour, Loads: []Load{{Workload: "dance", Connections: 5000, Rate: -1,
			RESTRate: -1, Duration: -1, Spread: "thin"}, {Name: "m", Workload: Mixed, Connections: 9},
			{Name: "r", Workload: REST, Rate: 5, ReadRate: -1}, {Name: "k", Workload: Recovery},
			{Name: "a", Workload: Authorize, Search: true},
			{Name: "s", Workload: Soak, Connections: 4000}, {Name: "c", Workload: Cards, Rate: 5, Spread: SpreadWorkspace}}}
	_, err := Run(t.Context(), c)
	for _, fault := range []string{"REST URL", "Network URL", "Admin URL", "secret", "cards", "workspaces", "merchants", "skew",
		"declines", "yardstick", `no workload "dance"`, "dance: connections", "dance: rate", "dance: REST rate",
		"dance: duration", `no spread "thin"`, "m: needs a rate", "r: is a closed loop", "r: read rate must",
		"r: only mixed takes a rate of reads", "m: needs a card for each of 9 connections", "k: needs a server",
		"a: only sustain searches", "s: at most 512", "c: needs cards", "c: leaves no server", "c: needs a server", "c: is a closed loop",
		"c: does not know"} {
		require.ErrorContains(t, err, fault)
	}
	require.ErrorContains(t, Config{}.Validate(), "loads must be")
	good := Config{Target: Target{REST: "http://h:1", Network: "http://h:2", Secret: "s"}, Loads: []Load{{Workload: Authorize}}}
	require.NoError(t, good.Validate())
	good.Target = good.Target.OverTLS(nil)
	require.Equal(t, []string{"https://h:1", "https://h:2"}, []string{good.Target.REST, good.Target.Network})
	require.NoError(t, good.Validate())
	good.Stock = &Stock{}
	require.ErrorContains(t, good.Validate(), "authorize: makes cards of its own")
}

// A server that stalls once delays every request that is due meanwhile, and each latency includes
// the rest of the stall. Latencies from the time of sending would show the stall once per
// connection.
//
// The run ends after a number of requests, not by the clock, because a paused machine makes more
// requests late, not fewer due.
func TestAnOpenLoopChargesAStallToAllThatWereDue(t *testing.T) {
	const rate, connections, stall, stalled, last = 500, 4, 600 * time.Millisecond, 300, 700 // from 250 on they are recorded
	ctx, end := context.WithCancel(t.Context())
	var gate sync.Mutex
	requests := 0
	url := listen(t, func(*fasthttp.RequestCtx) {
		gate.Lock()
		defer gate.Unlock()
		switch requests++; requests {
		case stalled:
			time.Sleep(stall)
		case last:
			end()
		}
	})
	stages, err := runAt(url).runFlows(ctx, &Load{Duration: time.Hour}, nil,
		flow{traffic: &nothing{}, connections: connections, rate: rate})
	require.ErrorIs(t, err, context.Canceled)
	s := stages[0]
	require.Zero(t, s.Wrong)
	require.GreaterOrEqual(t, s.Measures[0].MaxMicros, toMicros(int64(stall))*0.95)
	require.GreaterOrEqual(t, slowerThan(s.Measures[0], stall/2), float64(rate)*stall.Seconds()/4)
	require.Greater(t, s.LateP99Micros, toMicros(int64(stall/4)), "what waited for a connection was sent late")
}

// slowerThan estimates from the curve how many answers took longer.
func slowerThan(m Measure, d time.Duration) float64 {
	for _, p := range m.Curve {
		if p.Micros > toMicros(int64(d)) {
			return float64(m.Count) * (100 - p.Percentile) / 100
		}
	}
	return 0
}

// Every due request is sent or counted as unsent.
func TestWhatWasDueIsSentOrCountedAsUnsent(t *testing.T) {
	const rate, connections = 200, 2
	l := &Load{Duration: time.Second}
	release := make(chan struct{})
	var sent atomic.Int64
	url := listen(t, func(*fasthttp.RequestCtx) {
		if sent.Add(1) == 1 {
			time.AfterFunc(2*l.Duration, func() { close(release) }) // time was up by then: the load has begun before this
		}
		<-release
	})
	stages, err := runAt(url).runFlows(t.Context(), l, nil, flow{traffic: &nothing{}, connections: connections, rate: rate})
	require.NoError(t, err)
	due := int64((l.Duration + l.Duration/10) / (time.Second / rate))
	require.LessOrEqual(t, sent.Load(), int64(connections))
	require.Equal(t, due, sent.Load()+stages[0].Unsent)
}

// A flow that is late at the end of the load counts the requests that were due before the end as
// unsent. A request due exactly at the end does not count.
func TestDuesThatComeTooLateAreCountedAsUnsent(t *testing.T) {
	const period = 5 * time.Millisecond
	for _, dues := range []int64{1, 220} {
		for _, rest := range []time.Duration{1, period - 1, period} {
			until := time.Now()
			p := pace{began: until.Add(-time.Duration(dues-1)*period - rest), until: until, period: period,
				dues: make(chan time.Time)} // without a receiver
			p.sendDueTimes(t.Context())
			require.Equal(t, dues, p.unsent.Load(), "%s before the end", rest)
		}
	}
}

func TestAClosedLoopSendsOneRequestAtATimeOnEachConnection(t *testing.T) {
	const connections = 8
	ctx, end := context.WithCancel(t.Context())
	var now, most atomic.Int64
	url := listen(t, func(ctx *fasthttp.RequestCtx) {
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		now.Add(-1)
		if string(ctx.Request.Header.Peek("Authorization")) != "Bearer s" || string(ctx.Path()) != authorizations {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
		}
	})
	r := runAt(url)
	r.Progress = func(p Progress) {
		if p.PerSecond > 0 {
			end()
		}
	}
	closed := flow{traffic: &nothing{}, connections: connections}
	stages, err := r.runFlows(ctx, &Load{Duration: time.Minute}, nil, closed)
	require.ErrorIs(t, err, context.Canceled, "it tells of its progress")
	require.Zero(t, stages[0].Wrong, stages[0].Differences)
	require.LessOrEqual(t, most.Load(), int64(connections))
	require.Positive(t, stages[0].Measures[0].Count)
	require.NotEmpty(t, stages[0].Moments)
	_, err = r.runFlows(t.Context(), &Load{Duration: time.Millisecond}, nil, closed)
	require.NoError(t, err, "it ends by itself")
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := listen(t, func(*fasthttp.RequestCtx) { cancel() })
	for _, rate := range []int{0, 100} {
		_, err := runAt(url).runFlows(ctx, &Load{Duration: time.Hour}, nil, flow{traffic: &nothing{}, connections: 2, rate: rate})
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestCardsAreDrawnFromASeededZipf(t *testing.T) {
	draw := func(seed uint64, connection int) (cards []uint64, first int) {
		r := runAt("http://h:1")
		r.Seed, r.cards = seed, &portfolio{plain: make([]*card, 100)}
		w := newWorker(r, connection, "1a")
		for range 1000 {
			c := w.cards.Uint64()
			require.Less(t, c, uint64(100))
			if cards = append(cards, c); c == 0 {
				first++
			}
		}
		return cards, first
	}
	one, first := draw(1, 0)
	again, _ := draw(1, 0)
	require.Equal(t, one, again)
	require.Greater(t, first, 100, "the first card is drawn far more often than one time in a hundred")
	for _, other := range [][2]int{{2, 0}, {1, 1}} {
		cards, _ := draw(uint64(other[0]), other[1])
		require.NotEqual(t, one, cards)
	}
}

// The sum over the lanes has every recorded latency.
func TestLanesAreMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.SliceOfN(rapid.Int64Range(0, 2*highestNanos), 1, 200).Draw(t, "took")
		rec, all := newRecorder(2), newHistogram(wholeDigits)
		for i, nanos := range took {
			rec.laneOf(i).recordAnswered(i%2, time.Duration(nanos))
			recordNanos(all, min(nanos, highestNanos))
		}
		sum := rec.allLatencies(0)
		require.Zero(t, sum.Merge(rec.allLatencies(1)))
		require.True(t, sum.Equals(all))
		rec.laneOf(len(took)).recordUndecided(1)
		require.Zero(t, rec.countUndecided(0))
		require.EqualValues(t, 1, rec.countUndecided(1))
		moment, undecided := rec.momentLatencies()
		require.EqualValues(t, len(took), moment.TotalCount())
		require.EqualValues(t, 1, undecided)
		moment, undecided = rec.momentLatencies()
		require.Zero(t, moment.TotalCount(), "a moment begins anew")
		require.Zero(t, undecided)
	})
}

func TestHighestFindsTheRateThatIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, first := rapid.IntRange(1, 200_000).Draw(t, "limit"), rapid.IntRange(1000, 20_000).Draw(t, "first")
		probes := 0
		rate, err := highestHeld(first, func(rate int) (bool, error) { probes++; return rate <= limit, nil })
		require.NoError(t, err)
		require.LessOrEqual(t, rate, max(limit, 1))
		require.LessOrEqual(t, probes, maxDoublings+maxBisections)
		if limit > first/16 {
			require.GreaterOrEqual(t, float64(rate), 0.9*float64(min(limit, first<<(maxDoublings-1))))
		}
	})
}

// A wrong or missing answer to a probe ends the search and is reported.
func TestAFaultyProbeEndsASearch(t *testing.T) {
	admin := listen(t, func(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "%s 0\n", backlogGauge) })
	for name, lie := range map[string]func(o *office, q *request){
		"wrong":     func(_ *office, q *request) { q.cents++ },
		"no answer": func(_ *office, q *request) { q.noAnswer = true },
	} {
		r := officeRun(t, lie)
		r.Target.Admin = admin
		l := Load{Workload: Sustain, Connections: 2, Rate: 500, Duration: time.Second, Search: true}
		l.setDefaults()
		all, err := r.runLoad(t.Context(), &l)
		require.NoError(t, err)
		require.Len(t, all, 1, name)
		require.True(t, all[0].hasFailed(), name)
		require.Equal(t, "sustain: probe at 500/s", all[0].Name)
	}
}

func TestABacklogIsBoundedOrNot(t *testing.T) {
	held := func(backlog func(second int) float64, change func(s *Stage)) bool {
		s := Stage{Rate: 1000, Seconds: 60, Outcomes: map[string]int64{"approved": 60_000}}
		for i := range 60 {
			s.Moments = append(s.Moments, Moment{AtSeconds: float64(i), Gauges: map[string]float64{backlogGauge: backlog(i)}})
		}
		change(&s)
		s.judgeBacklog()
		require.Equal(t, s.Held, len(s.NotHeld) == 0, "it says why")
		return s.Held
	}
	same := func(*Stage) {}
	require.True(t, held(func(int) float64 { return 0 }, same))
	require.True(t, held(func(int) float64 { return 5000 }, same), "much, but no more and more")
	require.True(t, held(func(s int) float64 { return float64(s) * 15 }, same), "less than a second's swipes")
	require.False(t, held(func(s int) float64 { return float64(s) * 100 }, same))
	none := func(int) float64 { return 0 }
	require.True(t, held(none, func(s *Stage) { s.Unsent = 1000 }))
	require.False(t, held(none, func(s *Stage) { s.Unsent = 1001 }), "over a second's swipes")
	require.False(t, held(none, func(s *Stage) { s.Seconds, s.Unsent = 10, 201 }), "a queue that grows")
	require.True(t, held(none, func(s *Stage) { s.LateP99Micros = 1e6 }))
	require.False(t, held(none, func(s *Stage) { s.LateP99Micros = 1e6 + 1 }), "a queue before the server")
	require.False(t, held(none, func(s *Stage) { s.Outcomes["timeout"] = 100 }))
	require.False(t, held(none, func(s *Stage) { s.Moments = nil }), "a server that tells nothing is not known to hold")
	require.False(t, held(none, func(s *Stage) {
		for i := range s.Moments {
			s.Moments[i].Gauges["purser_outbox_lag_seconds"] = float64(i)
		}
	}), "the outbox falls behind")
}

func TestFiguresOfTheServer(t *testing.T) {
	found, err := figuresOf(bytes.NewReader([]byte(`# HELP purser_backlog_entries x
# TYPE purser_backlog_entries gauge
purser_backlog_entries 1234
purser_backlog_limit_entries 1e+07
purser_relay_lag_seconds 0.25
purser_relay_lag_cents 9
purser_consumer_lag_events{consumer="book"} 3
purser_consumer_lag_events{consumer="webhook"} 4
purser_outbox_lag_seconds{shard="1"} 3
purser_outbox_lag_seconds{shard="2"} 2
purser_decisions_total{reason="approved"} 8
go_goroutines 12
`)), tellsBehind)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"purser_backlog_entries": 1234, "purser_relay_lag_seconds": .25,
		"purser_consumer_lag_events": 7, "purser_outbox_lag_seconds": 3}, found)
}
