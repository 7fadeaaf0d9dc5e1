package bench

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// After a kill a message is repeated until its answer is no timeout.
func TestARepeatWaitsForItsAnswer(t *testing.T) {
	var asked atomic.Int64
	url := listen(t, func(ctx *fasthttp.RequestCtx) {
		if asked.Add(1) < 4 {
			ctx.SetBodyString(`{"decision":"declined","reason":"timeout"}`)
			return
		}
		ctx.SetBodyString(`{"decision":"approved","reason":"approved"}`)
	})
	w := newWorker(runAt(url), 0, "again")
	defer w.closeWires()
	status, answer, err := w.repeatExchange(&exchange{path: authorizations, body: []byte(`{}`)})
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, `{"decision":"approved","reason":"approved"}`, string(answer))
	require.EqualValues(t, 4, asked.Load())
}

// stormAt returns a connection of a storm whose swipes a handler answers.
func stormAt(t *testing.T, answer fasthttp.RequestHandler) (*storm, *worker, *recorder) {
	w, rec := workerAt(listen(t, answer), 1)
	t.Cleanup(w.closeWires)
	pick := func(*worker) *card { return &card{tenant: &tenant{}} }
	return &storm{swipes: swipes{run: w.run, pick: pick}, lines: make([]line, 1)}, w, rec
}

func approve(ctx *fasthttp.RequestCtx) {
	cents, _ := centsField(ctx.PostBody(), "amountCents")
	fmt.Fprintf(ctx, `{"id":%q,"decision":"approved","reason":"approved","approvedAmountCents":%d}`, textField(ctx.PostBody(), "id"),
		cents)
}

// An answer that the server is starting is not wrong after a kill, on old and on new connections.
func TestOnlyAServerThatWasKilledMayBeStarting(t *testing.T) {
	for killed, wrong := range map[bool]int64{false: 1, true: 0} {
		s, w, _ := stormAt(t, func(ctx *fasthttp.RequestCtx) { ctx.Error(`{"error":"unavailable"}`, 503) })
		s.killed.Store(killed)
		s.unit(w, time.Now())
		require.Equal(t, wrong, w.faults.count)
		require.Equal(t, killed, s.lines[0].broken)
		require.Equal(t, killed, w.outcomes[whileDown] != nil)
	}
}

// The outcome of a swipe without an answer before the kill stays uncertain, also after an answered
// repeat.
func TestNoAnswerBeforeTheKillIsTold(t *testing.T) {
	s, w, _ := stormAt(t, hangUp)
	for _, killed := range []bool{false, true} {
		s.killed.Store(killed)
		s.unit(w, time.Now())
		require.Equal(t, killed, s.lines[0].broken)
	}
	require.Len(t, s.lines[0].unanswered, 1)
	s.lines = nil
	var stage Stage
	stage.Outcomes = map[string]int64{}
	stage.countWorker(w)
	require.NoError(t, s.repeatAll(&stage))
	require.Equal(t, map[string]int64{noAnswer: 1}, stage.Outcomes)
}

// Swipes without an answer at the end of a storm, and timeouts from before the kill, are repeated
// and count when they are approved.
func TestWhatIsUnsettledAfterAKillIsAskedAgain(t *testing.T) {
	s, w, _ := stormAt(t, approve)
	owner := &tenant{}
	next := func(cents int64) swipe {
		one := s.nextSwipe(w)
		one.id, one.card, one.cents = bytes.Clone(one.id), &card{tenant: owner}, cents
		return one
	}
	s.lines = []line{{unanswered: []swipe{next(1), next(10)}}, {unanswered: []swipe{next(100)}, timeouts: []swipe{next(1000)}}}
	require.NoError(t, s.repeatAll(&Stage{}))
	require.EqualValues(t, -1111, owner.moved.Load())
}

// The latency of a swipe that waits for a restart counts from its first sending.
func TestASwipeThatWaitsThroughAKillIsMeasured(t *testing.T) {
	var asked atomic.Int64
	s, w, rec := stormAt(t, func(ctx *fasthttp.RequestCtx) {
		if asked.Add(1) < 3 {
			ctx.Error("", 503)
			return
		}
		approve(ctx)
	})
	s.killed.Store(true)
	s.unit(w, time.Now().Add(-time.Hour))
	for range 3 {
		s.unit(w, time.Now())
	}
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 2, rec.allLatencies(0).TotalCount())
	require.GreaterOrEqual(t, rec.allLatencies(0).Max(), highestNanos)
	require.Less(t, rec.allLatencies(0).Min(), highestNanos, "the one after it waited for nothing")
}

// A walk over cards visits every card before it repeats one.
func TestAWalkComesToEveryCard(t *testing.T) {
	const cards = 10_007
	seen := map[string]bool{}
	k := walk{cards: &portfolio{given: newGiven(Config{Cards: cards, Workspaces: 1,
		Stock: &Stock{Token: func(i int) string { return fmt.Sprint(i) }, Owner: func(int) int { return 0 }}})}}
	for range cards {
		require.False(t, k.isOver())
		seen[k.pickNext(nil).token] = true
	}
	require.Len(t, seen, cards)
	require.True(t, k.isOver())
}
