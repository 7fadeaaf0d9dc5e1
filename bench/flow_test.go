package bench

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// workerAt returns a worker whose answers are recorded.
func workerAt(url string, measures int) (*worker, *recorder) {
	rec := newRecorder(measures)
	w := newWorker(runAt(url), 0, "1a")
	w.faults, w.lane = &differences{}, rec.laneOf(0)
	return w, rec
}

func hangUp(ctx *fasthttp.RequestCtx) {
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {}) // which closes it
}

// The latency of a request without an answer counts from its due time. The rate does not include
// it.
func TestARequestWithoutAnAnswerIsMeasured(t *testing.T) {
	w, rec := workerAt(listen(t, hangUp), 1)
	defer w.closeWires()
	due := time.Now().Add(-time.Second)
	_, _, ok := w.sendMeasured(w.network, 0, due, "POST", authorizations)
	require.False(t, ok)
	require.EqualValues(t, 1, rec.allLatencies(0).TotalCount())
	require.GreaterOrEqual(t, rec.allLatencies(0).Max(), int64(time.Second))
	require.EqualValues(t, 1, rec.countUndecided(0))
	require.EqualValues(t, 1, *w.outcomes[noAnswer])
}

// A sample shows the rate of decided requests, as the stage does.
func TestAMomentIsOfWhatWasDecided(t *testing.T) {
	d := &drive{recorder: newRecorder(1)}
	for range 3 {
		d.recorder.laneOf(0).recordAnswered(0, time.Millisecond)
	}
	d.recorder.laneOf(0).recordUndecided(0)
	require.InDelta(t, 4, d.sampleMoment(time.Now(), time.Second/2).PerSecond, 1e-9)
	d.recorder.laneOf(0).recordUndecided(0)
	require.Zero(t, d.sampleMoment(time.Now(), time.Second/2).PerSecond, "it was answered in the moment before")
}

// Requests without an answer fail the run. A storm repeats them until they have one.
func TestARunWithoutAnAnswerFails(t *testing.T) {
	r := Report{Stages: []Stage{{Name: "a", Outcomes: map[string]int64{"approved": 99, noAnswer: 2}}}}
	r.judgeAnswers()
	require.True(t, r.Failed)
	require.EqualValues(t, 2, r.Unanswered)
	require.NotContains(t, r.verdictLine(), "every answer")
	require.Contains(t, strings.Join(r.Stages[0].stageRemarks(), "\n"), "NO ANSWER to 2 requests")
	delete(r.Stages[0].Outcomes, noAnswer)
	r.judgeAnswers()
	require.False(t, r.Failed)
	require.Zero(t, r.Unanswered)
	require.Contains(t, r.verdictLine(), "every answer was the one")
}

// undecidedLies are answers without a decision, which fail no load.
var undecidedLies = []struct {
	load Load
	lie  func() func(o *office, q *request)
}{
	{swipeLoad, onceInTen("authorize", func(q *request) { q.reason, q.kept = "timeout", 0 })},
	{livesLoad, onceInTen("authorize", func(q *request) { q.reason, q.kept = "backlog_full", 0 })},
	{livesLoad, onceInTen("clear", func(q *request) { q.status, q.kept = 503, 0 })},
	{restLoad, always(func(_ *office, q *request) {
		if q.n%10 == 0 && (q.call != "GET card" || q.n > officeCards) && (q.call != "GET treasury" || q.n > officeTenants) {
			q.status = 503
		}
	})},
}

// The rate excludes answers without a decision, the latencies include them. More than a few are a
// missed goal.
func TestAnswersWithoutADecisionAreNoRate(t *testing.T) {
	for _, c := range undecidedLies {
		none := func(s Stage) bool { n, _ := s.withoutDecision(); return n == 0 }
		all := officeLoad(t, c.lie, c.load, func(all []Stage) bool {
			for _, s := range all {
				if none(s) {
					return false
				}
			}
			return true
		})
		r := Report{Stages: all}
		r.judgeAnswers()
		require.False(t, r.Failed, all)
		for _, s := range all {
			require.False(t, none(s), s.Name)
			for _, m := range s.Measures {
				require.InDelta(t, float64(m.Count-m.Undecided)/s.Seconds, m.PerSecond, 1e-6)
			}
		}
		require.Equal(t, len(all), r.countMissed(), r.goalLines())
		require.Contains(t, r.goalLines()[0], "MISSED: "+all[0].Name+": no decision for ")
	}
}

// A few answers without a decision miss no goal. Under a judged rate they are a reason that it was
// not held.
func TestFewAnswersWithoutADecisionMissNoGoal(t *testing.T) {
	r := Report{Stages: []Stage{{Measures: []Measure{{Count: 1500, Undecided: 1}, {Count: 500, Undecided: 1}}}}}
	require.Zero(t, r.countMissed())
	r.Stages[0].Measures[0].Undecided++
	require.Equal(t, 1, r.countMissed())
	r.Stages[0].Judged, r.Stages[0].Held = true, true
	require.Zero(t, r.countMissed())
	r.Stages[0].Judged, r.Stages[0].Figures = false, []Figure{newFigure(killTook, 1, "s")}
	require.Zero(t, r.countMissed(), "a server that starts decides late")
}

// Declines that the server answers without a write are measured apart.
func TestDeclinesWithoutAWriteAreMeasuredApart(t *testing.T) {
	var reason string
	w, rec := workerAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		fmt.Fprintf(ctx, `{"id":%q,"decision":"declined","reason":%q,"approvedAmountCents":0}`, textField(ctx.PostBody(), "id"), reason)
	}), 2)
	defer w.closeWires()
	traffic := &swipes{run: w.run, declines: 10}
	require.Len(t, traffic.measures(), 2)
	require.Len(t, (&swipes{}).measures(), 1, "there are none")
	apart := []string{"card_not_found", "duplicate_mismatch"}
	for _, spoil := range spoilers {
		reason = spoil.reason
		traffic.sendSwipe(w, &swipe{id: w.nextID(), card: &card{tenant: &tenant{}}, cents: 5, reason: reason}, time.Now())
	}
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, len(apart), rec.allLatencies(unstoredAnswer).TotalCount())
	require.EqualValues(t, len(spoilers)-len(apart), rec.allLatencies(durableAnswer).TotalCount())
	for _, reason = range append(apart, "timeout") {
		traffic.sendSwipe(w, &swipe{id: w.nextID(), cents: 5, reason: apart[0]}, time.Now())
	}
	require.EqualValues(t, 1, w.faults.count, "one reason is not another")
	require.EqualValues(t, 1, rec.countUndecided(unstoredAnswer))
}

// The answer to a reversal before its authorization must accept it and name it.
func TestAnEarlyReversalIsJudged(t *testing.T) {
	const right = `{"id":"x-1-early","authorizationId":null,"heldAmountCents":0}`
	for _, c := range []struct {
		status int
		answer string
		wrong  int64
	}{{200, right, 0}, {409, right, 1}, {500, right, 1}, {200, `{"id":"x-1","heldAmountCents":0}`, 1},
		{200, `{"id":"x-1-early","heldAmountCents":5}`, 1}, {200, `{"id":"x-1-early"}`, 1}} {
		var asked atomic.Int64
		w, _ := workerAt(listen(t, func(ctx *fasthttp.RequestCtx) {
			if ctx.SetStatusCode(503); asked.Add(1) > 1 { // the first time it is not taken
				ctx.SetStatusCode(c.status)
				ctx.SetBodyString(c.answer)
			}
		}), 1)
		require.Equal(t, c.wrong == 0, reverseEarly(w, &swipe{id: []byte("x-1")}), c.answer)
		require.Equal(t, c.wrong, w.faults.count, "%d %s", c.status, c.answer)
		require.EqualValues(t, 2, asked.Load())
		w.closeWires()
	}
	w, _ := workerAt(listen(t, hangUp), 1)
	defer w.closeWires()
	require.False(t, reverseEarly(w, &swipe{id: []byte("x-1")}))
	require.Zero(t, w.faults.count)
	require.EqualValues(t, 1, *w.outcomes[noAnswer])
}

// The first wrong answer ends a load at once, closed or open. The difference has the request
// without its secret, the answer, and advice.
func TestTheFirstWrongAnswerEndsALoad(t *testing.T) {
	const rightAnswers, connections = 20, 5
	for _, rate := range []int{0, 2000} {
		var asked atomic.Int64
		r := officeRun(t, func(_ *office, q *request) {
			if q.call == "authorize" && asked.Add(1) > rightAnswers {
				q.status, q.reason = 401, "unauthorized"
			}
		})
		l := Load{Workload: Authorize, Connections: connections, Rate: rate, Duration: time.Hour}
		l.setDefaults()
		stages, err := r.runLoad(t.Context(), &l)
		require.NoError(t, err)
		require.LessOrEqual(t, asked.Load(), int64(rightAnswers+connections))
		require.EqualValues(t, 1, stages[0].Wrong)
		require.Len(t, stages[0].Differences, 1)
		require.GreaterOrEqual(t, stages[0].Seconds, 0.0)
		require.Regexp(t, `^authorization \S+ of \d+ cents: answered 401 \{.*"reason":"unauthorized".*\}, `+
			`want approved; the request was POST /v1/authorizations \{"id":.*\}; `+
			`the server no longer takes the secret`, stages[0].Differences[0])
		require.NotContains(t, stages[0].Differences[0], "Bearer")
	}
}

// The advice about a wrong answer depends on its status.
func TestAdviceOnAWrongAnswer(t *testing.T) {
	for status, says := range map[int]string{401: "secret", 404: "address", 429: "PURSER_RATE_LIMITS=off", 500: "log",
		200: "purser audit"} {
		require.Contains(t, adviceOn(status), says)
	}
	var d differences
	d.addSum("%d cents", 5)
	require.Equal(t, []string{"5 cents; " + auditAdvice}, d.first)
}

// The request of a difference is the last one of the worker, to either port.
func TestTheLastRequestIsThatOfEitherPort(t *testing.T) {
	w, _ := workerAt(listen(t, func(*fasthttp.RequestCtx) {}), 1)
	defer w.closeWires()
	_, _, err := w.network.sendRequest("POST", clearings, []byte(`{"id":"x"}`))
	require.NoError(t, err)
	require.Equal(t, `POST /v1/clearings {"id":"x"}`, w.lastRequest())
	_, _, err = w.rest.sendRequest("GET", "/api/treasury", nil)
	require.NoError(t, err)
	require.Equal(t, "GET /api/treasury", w.lastRequest())
}
