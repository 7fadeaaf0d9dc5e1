package bench

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

func TestAStreamIsReadFromItsText(t *testing.T) {
	for text, want := range map[string]Stream{
		"authorize":             {Authorize, 64, 0},
		"card-reads:8":          {CardReads, 8, 0},
		"lifecycle@50":          {Lifecycle, 64, 50},
		"treasury-reads:2@5000": {TreasuryReads, 2, 5000},
	} {
		var s Stream
		require.NoError(t, s.UnmarshalText([]byte(text)))
		require.Equal(t, want, s)
		require.NoError(t, s.UnmarshalText([]byte(want.String())))
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "swipes", "authorize:0", "authorize:x", "authorize@", "authorize@0", "authorize:5000"} {
		require.Error(t, new(Stream).UnmarshalText([]byte(text)), text)
	}
}

func TestFaultsOfARunAreAllNamed(t *testing.T) {
	_, err := Run(t.Context(), Config{Cards: 4, Workspaces: 5, Declines: 91, Loads: []Load{{Kill: true, Spread: "wide",
		Streams: []Stream{{CardUpdates, 5, 0}, {CardUpdates, 1, 0}}}}})
	for _, text := range []string{"secret", "workspaces", "declines", "duration", "spread", "a server of the run's own",
		"a card for each of 5", "one writer"} {
		require.ErrorContains(t, err, text)
	}
	_, err = Compare(t.Context(), Config{}, Target{}, 0)
	require.ErrorContains(t, err, "rounds")
}

// Every kind of stream is measured, each answer is right, and the dollars add up.
func TestEveryKind(t *testing.T) {
	f := newFakeServer(t)
	c := f.config(t, "authorize:4@500", "lifecycle:2", "card-updates:2", "card-reads:2@100", "treasury-reads:2")
	c.Yardstick, c.DiskDir, c.Empty = 10*time.Millisecond, t.TempDir(), serve(t, func(*fasthttp.RequestCtx) {})
	c.Target.Process = os.Getpid
	r, err := Run(t.Context(), c)
	for ; err == nil && slices.ContainsFunc(r.Stages, isShort); r, err = Run(t.Context(), c) {
		c.Loads[0].Duration *= 2 // the machine is too busy for a request of each step
	}
	require.NoError(t, err)
	require.Empty(t, r.Failure())
	require.Len(t, r.Stages, 5)
	for _, s := range r.Stages {
		for _, m := range s.Measures {
			require.Positive(t, m.P50OfFloor)
		}
		require.Equal(t, s.Stream.Rate == 0, s.Measures[0].OfEmpty > 0)
	}
	require.Contains(t, r.Stages[0].listRemarks(), "most decisions in the backlog: 5")

	text, err := json.Marshal(&r)
	require.NoError(t, err)
	var again Report
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, r, again)
}

// isShort reports whether a step of a right stage has no answer.
func isShort(s Stage) bool {
	return s.Wrong == "" && slices.ContainsFunc(s.Measures, func(m Measure) bool { return m.Count == 0 })
}

// A wrong answer of each kind, and dollars that do not add up, end the run.
func TestALieIsFound(t *testing.T) {
	for _, c := range []struct{ kind, path, from, to string }{
		{Authorize, authorizations, `"decision":"approved"`, `"decision":"declined"`},
		{Authorize, authorizations, `"reason":"approved"`, `"reason":"card_frozen"`},
		{Authorize, authorizations, `"approvedAmountCents":`, `"approvedAmountCents":1`},
		{Authorize, authorizations, `"id":"`, `"id":"x`},
		{Authorize, "/api/treasury", `"availableCents":`, `"availableCents":1`},
		{Lifecycle, clearings, "posted", "unmatched"},
		{Lifecycle, refunds, `"id":"`, `"id":"x`},
		{CardUpdates, "/api/cards/", `UsdCents":`, `UsdCents":1`},
		{CardReads, "/api/cards/", `UsdCents":`, `UsdCents":1`},
		{CardReads, "/api/cards/", `"id":"`, `"id":"x`},
		{TreasuryReads, "/api/treasury", `"availableCents":`, `"availableCents":1`},
	} {
		t.Run(c.kind+" "+c.to, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t)
			config := f.config(t, c.kind+":4")
			config.Loads[0].Duration = 20 * time.Second // the lie ends it
			if c.kind == Authorize && c.path == "/api/treasury" {
				config.Loads[0].Duration = 20 * time.Millisecond
			}
			r, _, err := beginRun(t.Context(), config)
			require.NoError(t, err)
			f.alterFields(func() {
				f.lie = func(path, answer string) string {
					if strings.HasPrefix(path, c.path) {
						return strings.Replace(answer, c.from, c.to, 1)
					}
					return answer
				}
			})
			r.settleWithin = time.Millisecond
			stages, err := r.runLoad(t.Context(), &r.Loads[0])
			require.NoError(t, err)
			require.Contains(t, stages[0].Wrong, c.path)
			require.Contains(t, stages[0].Wrong, "purser audit")
		})
	}
}

// A server that stands still delays all requests that are due meanwhile. Each of them is charged
// with its own delay, or is counted as unsent.
func TestAStallIsChargedToAllThatWereDue(t *testing.T) {
	const stall, rate = 300 * time.Millisecond, 1000
	var once sync.Once
	r := newRun(Config{Target: Target{Network: serve(t, func(*fasthttp.RequestCtx) { once.Do(func() { time.Sleep(stall) }) })}})
	l := &Load{Streams: []Stream{{emptyRequests, 1, rate}}, Duration: 2 * stall}
	streams, _, err := r.runStreams(t.Context(), l)
	require.NoError(t, err)
	late, s := int64(0), streams[0]
	for _, bar := range s.whole[0].Distribution() {
		if bar.From >= int64(stall/3) {
			late += bar.Count
		}
	}
	warmUp := s.from.Sub(s.began)
	require.GreaterOrEqual(t, late+s.countUnsent(s.until), int64((stall-stall/3-warmUp)/time.Millisecond)-1)
	due := int64(s.until.Sub(s.began) / time.Millisecond)
	require.InDelta(t, due, s.next+s.countUnsent(s.until), 1)
}

// In a closed loop each connection has one request under way. The load ends once all have.
func TestAClosedLoopHasOneRequestUnderWayOnEachConnection(t *testing.T) {
	var mu sync.Mutex
	now, arrived := 0, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRun(Config{Target: Target{Network: serve(t, func(*fasthttp.RequestCtx) {
		mu.Lock()
		if now++; now == 3 {
			cancel()
			close(arrived)
		}
		mu.Unlock()
		<-arrived
	})}})
	_, _, err := r.runStreams(ctx, &Load{Streams: []Stream{{emptyRequests, 3, 0}}, Duration: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}

func TestARunEndsWithItsContext(t *testing.T) {
	f := newFakeServer(t)
	c := f.config(t, Authorize)
	ctx, cancel := context.WithCancel(t.Context())
	c.Loads[0].Duration = 10 * time.Second
	c.Progress = func(p Progress) {
		if p.Done > 0 {
			cancel()
		}
	}
	_, err := Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
}

// A server that does not answer is a failure; one without a decision is not.
func TestMissingAnswersFail(t *testing.T) {
	f := newFakeServer(t)
	r, report, err := beginRun(t.Context(), f.config(t, "authorize:2"))
	require.NoError(t, err)
	f.alterFields(func() { f.away = 5 })
	stages, err := r.runLoad(t.Context(), &r.Loads[0])
	require.NoError(t, err)
	require.False(t, stages[0].hasFailed(), "%+v", stages[0])
	require.EqualValues(t, 5, stages[0].Outcomes["503"])

	r.Target.Network = "http://127.0.0.1:1"
	stages, err = r.runLoad(t.Context(), &r.Loads[0])
	require.NoError(t, err)
	report.addStages(stages)
	require.Contains(t, report.Failure(), "no answer")
}

func TestAWrongSecretIsToldBeforeTheLoad(t *testing.T) {
	c := newFakeServer(t).config(t, Authorize)
	c.Target.Network = serve(t, func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(401) })
	_, err := Run(t.Context(), c)
	require.ErrorContains(t, err, "answered 401")
	c.Target.Network = "http://127.0.0.1:1"
	_, err = Run(t.Context(), c)
	require.ErrorContains(t, err, "does not answer")
}

// fakeKill answers 503 some times after a kill.
type fakeKill struct {
	f     *fakeServer
	kills int
}

func (k *fakeKill) Kill() error  { k.kills++; k.f.alterFields(func() { k.f.away = 30 }); return nil }
func (k *fakeKill) Start() error { return nil }

// A kill is measured until the first correct swipe. Attempts meanwhile are no failure.
func TestAKillIsMeasured(t *testing.T) {
	f := newFakeServer(t)
	k := &fakeKill{f: f}
	c := f.config(t, "authorize:4", "lifecycle:2")
	c.Server, c.Loads[0].Kill = k, true
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, r.Failure())
	require.Equal(t, 1, k.kills)
	require.Equal(t, "kill -9 to first correct swipe", r.Stages[0].Figures[0].Name)
	require.Positive(t, r.Stages[0].Figures[0].Value)
	require.Positive(t, r.Stages[0].Outcomes[whileDown])
}

// An approval that the server has lost by its restart is found by the dollars.
func TestALostApprovalIsFoundAfterAKill(t *testing.T) {
	owner := &tenant{deposited: 1000}
	owner.bookSwipe(-100, right, true)
	owner.bookSwipe(-10, missing, true)
	owner.bookSwipe(-1, undecided, true)
	least, most := owner.expectedBalance()
	require.Equal(t, []int64{889, 900}, []int64{least, most})
	owner.bookSwipe(50, missing, true)
	least, most = owner.expectedBalance()
	require.Equal(t, []int64{889, 950}, []int64{least, most})
	owner.bookSwipe(-1, undecided, false)
	least, _ = owner.expectedBalance()
	require.EqualValues(t, 889, least)
}

// An update without an answer may take effect at any later time, so that the acknowledged limits
// after it prove nothing.
func TestWhatACardMayShow(t *testing.T) {
	c := &card{id: "c"}
	answer := func(cents string) []byte { return []byte(`{"id":"c","monthlyLimitUsdCents":` + cents + `}`) }
	require.Empty(t, c.judgeAnswer(200, answer("499999999998"), 1, 2))
	require.NotEmpty(t, c.judgeAnswer(200, answer("500000000000"), 1, 2))
	require.NotEmpty(t, c.judgeAnswer(200, answer("499999999997"), 1, 2))
	require.NotEmpty(t, c.judgeAnswer(500, answer("499999999998"), 1, 2))
	require.NotEmpty(t, c.judgeAnswer(200, []byte(`{}`), 1, 2))
}

// Two servers are measured in turns; an other without REST gets the swipes of this one's cards.
func TestAComparisonAlternates(t *testing.T) {
	this, other := newFakeServer(t), newFakeServer(t)
	network := other.target
	network.REST, network.Admin = "", ""
	for _, target := range []Target{other.target, network} {
		r, err := Compare(t.Context(), this.config(t, "authorize:2"), target, 2)
		require.NoError(t, err)
		var names []string
		for _, s := range r.Stages {
			names = append(names, s.Name)
		}
		require.Equal(t, []string{"round 1, this: authorize:2", "round 1, other: authorize:2", "round 2, other: authorize:2",
			"round 2, this: authorize:2"}, names)
		require.Empty(t, r.Failure())
		require.Equal(t, "authorize authorize /s", r.Ratios[0].Figure)
		require.LessOrEqual(t, r.Ratios[0].Least, r.Ratios[0].Median)
	}
}

func TestRatiosHaveASpread(t *testing.T) {
	x := Ratio{This: []float64{2, 9, 4, 8}, Other: []float64{1, 3, 4, 2}}
	x.setSpread()
	require.Equal(t, []float64{2.5, 1, 4}, []float64{x.Median, x.Least, x.Most})
	x = Ratio{This: []float64{2, 0}, Other: []float64{1, 3}}
	x.setSpread()
	require.Zero(t, x.Median, "a round is not known")
	require.Zero(t, medianOf(nil))
}

// reportOfTwo is a report of two requests, of 100 and 300 µs.
func reportOfTwo() Report {
	h := newHistogram(wholeDigits)
	recordNanos(h, 100*time.Microsecond)
	recordNanos(h, 300*time.Microsecond)
	r := Report{Title: "two <requests>", Yardstick: Yardstick{SyncP50Micros: 40, Empty: []Empty{{1, 1000, 10}, {2, 50, 20}}}}
	s := Stage{Name: "authorize:2", Stream: Stream{Authorize, 2, 0}, Seconds: 0.5, Measures: []Measure{newMeasure("authorize", h, 1, 0.5)},
		Moments: []Moment{{AtSeconds: 0.25, PerSecond: 4, Gauges: map[string]float64{backlogGauge: 10}},
			{AtSeconds: 0.5, PerSecond: 0, Gauges: map[string]float64{backlogGauge: 20}}}}
	s.addUsage(usage{time.Second, 1}, usage{2 * time.Second, 4097}, []Stage{{Outcomes: map[string]int64{"approved": 1000, noAnswer: 7}}})
	s.addBacklog()
	r.addStages([]Stage{s})
	return r
}

func TestTheArithmeticOfAReport(t *testing.T) {
	r := reportOfTwo()
	m := r.Stages[0].Measures[0]
	require.EqualValues(t, 2, m.PerSecond, "the undecided one does not count")
	require.InEpsilon(t, 100, m.P50Micros, 0.01)
	require.InEpsilon(t, 300, m.MaxMicros, 0.01)
	require.InEpsilon(t, 0.04, m.OfEmpty, 0.001)
	require.InEpsilon(t, 2, m.P50OfFloor, 0.01)
	require.InEpsilon(t, 6, m.P99OfFloor, 0.01)
	require.Equal(t, []string{"processor time per answer: 1000 µs, 20 of floor", "written to the disk per answer: 4.1 bytes",
		"most decisions in the backlog: 20", "growth of the backlog in the second half: 0 /s", "outcomes: "}, r.Stages[0].listRemarks())
	require.Zero(t, roundDigits(0))
	require.EqualValues(t, -1235, roundDigits(-1234.5))
	require.EqualValues(t, 40, slopeOf([]float64{0.25, 0.5}, []float64{10, 20}))
}

func TestThePageRenders(t *testing.T) {
	r := reportOfTwo()
	var page, text bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, page.String(), "two &lt;requests&gt;")
	require.Equal(t, 3, strings.Count(page.String(), "<svg"), "percentiles, rate and backlog")
	require.Contains(t, page.String(), `points="212.5,0.0 355.0,214.0 "`, "the rate falls from its highest to 0")
	require.NotContains(t, page.String(), "NaN")
	require.NotContains(t, page.String(), "<script")
	require.Contains(t, text.String(), "authorize:2")
	require.Contains(t, page.String(), "Every answer was the expected one.")
	r.Stages[0].Wrong = "a lie"
	page.Reset()
	require.NoError(t, r.WriteHTML(&page))
	require.Contains(t, page.String(), "a lie")
}

func TestAWireKeepsItsConnection(t *testing.T) {
	connections := map[string]bool{}
	w := newWire(serve(t, func(ctx *fasthttp.RequestCtx) {
		connections[ctx.RemoteAddr().String()] = true
		if ctx.SetBody(ctx.PostBody()); string(ctx.PostBody()) == "last" {
			ctx.SetConnectionClose()
		}
	}), nil)
	defer w.close()
	for i, body := range []string{"one", "last", "three", "four"} {
		if i == 3 {
			w.used = w.used.Add(-maxIdle - time.Second)
		}
		status, answer, err := w.sendRequest("POST", "/", []byte(body))
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, body, string(answer))
	}
	require.Len(t, connections, 3, "one that is closed by the server, and one that is idle, are left")
	require.Equal(t, "POST / four", w.lastRequest())
}

func TestRequestsOverTLS(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler())
	defer authority.Close()
	base := secure(t, authority.TLS.Certificates[0], func(*fasthttp.RequestCtx) {})
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.Certificate())
	for authorities, good := range map[*x509.CertPool]bool{trusted: true, x509.NewCertPool(): false} {
		w := newWire(base, authorities)
		status, _, err := w.sendRequest("GET", "/", nil)
		require.Equal(t, good, err == nil && status == 200, "%v", err)
		w.close()
	}
	over := Target{REST: "http://a", Network: "http://b", Admin: "http://c"}.OverTLS(trusted)
	require.Equal(t, Target{REST: "https://a", Network: "https://b", Admin: "http://c", Authorities: trusted}, over)
}

func TestRateLimitsAreNamed(t *testing.T) {
	w := newWire(serve(t, func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(429) }), nil)
	defer w.close()
	require.ErrorIs(t, w.callJSON("GET", "/", nil, nil), ErrLimited)
}

func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"id":"x","cents":-12,"b": "y"}`), "cents")
	f.Fuzz(func(t *testing.T, object []byte, name string) {
		textField(object, name)
		centsField(object, name)
		availableDollars(object)
	})
}

func TestFields(t *testing.T) {
	object := []byte(`{"a":"cents","cents" : -12,"text":"x","open":"y`)
	cents, ok := centsField(object, "cents")
	require.True(t, ok)
	require.EqualValues(t, -12, cents)
	require.Equal(t, "x", string(textField(object, "text")))
	for _, name := range []string{"open", "cents", "none"} {
		require.Nil(t, textField(object, name), name)
	}
	_, ok = centsField(object, "text")
	require.False(t, ok)
}
