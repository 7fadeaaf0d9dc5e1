package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Limits of a recovery.
const (
	kills         = 3
	keptAnswers   = 16 // per connection, repeated after the kill
	keptTimeouts  = 64 // per connection, repeated after the kill
	startWithin   = 5 * time.Minute
	askAgainAfter = time.Millisecond
	stormPause    = 20 * time.Millisecond // before a connection of a storm retries
	repeatTries   = 100                   // of a message that is answered with a timeout
	repeatPause   = 50 * time.Millisecond
	killWithin    = 30 * time.Second       // a storm lasts no longer after the kill
	decideWithin  = 150 * time.Millisecond // the server's limit to decide and sync, after which the answer is a timeout
)

// killTook is the figure that every stage with a kill has.
const killTook = "kill -9 to first correct swipe"

// whileDown is the outcome of a try while the server was down or starting. Every such swipe gets an
// answer later.
const whileDown = "while down"

// exchange is a message with its answer.
type exchange struct {
	path         string
	body, answer []byte
}

// storm is traffic of swipes that continues while the server is killed and restarts.
//
// A timeout reports that the decision was not durable in time. The server then reverses an
// approval, unless the kill comes first. In that case the hold is in effect, and a repeat gets the
// approval. So the storm repeats timeouts too.
type storm struct {
	swipes
	lines  []line
	killed atomic.Bool // set just before the kill; from then on a connection may break
	over   atomic.Bool // the server is back
}

// line is one connection of a storm.
type line struct {
	kept       []exchange // the last answers before the kill, and answers of repeats
	timeouts   []swipe    // the last swipes before the kill that timed out
	unanswered []swipe    // swipes without an answer
	again      bool       // the last of unanswered is being repeated
	due        time.Time  // the due time of the last of unanswered
	broken     bool       // the server was killed
}

func newStorm(r *run, l *Load) *storm {
	return &storm{swipes: swipes{run: r, pick: r.cards.picker(l.Spread)}, lines: make([]line, l.Connections)}
}

// unit sends one swipe of the storm, or repeats the connection's swipe that has no answer yet. A
// connection of the load calls it.
func (t *storm) unit(w *worker, due time.Time) {
	c := &t.lines[w.index]
	s, again := t.nextSwipe(w), c.again
	if again {
		s = c.unanswered[len(c.unanswered)-1]
	}
	w.body = s.appendBody(w.body[:0])
	status, answer, err := w.network.sendRequest("POST", authorizations, w.body)
	killed := t.killed.Load()
	if w.stopped = t.over.Load(); err != nil ||
		killed && status == 503 { // the server is starting and has decided nothing
		outcome := noAnswer
		if killed {
			outcome, c.broken = whileDown, true
		}
		w.countOutcome(outcome)
		if c.again = true; !again {
			s.id = bytes.Clone(s.id)
			c.unanswered, c.due = append(c.unanswered, s), due
		}
		time.Sleep(stormPause)
		return
	}
	if again {
		due = c.due // waiting since then
	}
	w.recordLatency(0, due)
	reason := textField(answer, "reason")
	switch c.again = false; {
	case t.isApproved(w, &s, status, answer):
		c.keepExchange(exchange{authorizations, w.body, answer}, again)
	case isUndecided(reason):
		w.markUndecided(0, due)
		if string(reason) == "timeout" {
			c.keepTimedOut(s)
		}
		return // the outcome of a repeated swipe stays unknown
	}
	if again {
		c.unanswered = c.unanswered[:len(c.unanswered)-1]
	}
}

// keepExchange stores an exchange whose message was sent before the kill.
func (c *line) keepExchange(e exchange, again bool) {
	if c.broken && !again {
		return
	}
	c.kept = append(c.kept, exchange{e.path, bytes.Clone(e.body), bytes.Clone(e.answer)})
	if !c.broken {
		c.kept = c.kept[max(0, len(c.kept)-keptAnswers):]
	}
}

// keepTimedOut stores a swipe that was answered "timeout" before the kill.
func (c *line) keepTimedOut(s swipe) {
	if c.broken {
		return
	}
	s.id = bytes.Clone(s.id)
	c.timeouts = append(c.timeouts, s)
	c.timeouts = c.timeouts[max(0, len(c.timeouts)-keptTimeouts):]
}

// isApproved counts an answer and reports whether it is a correct approval, which it books. A wrong
// answer is recorded as a difference; an undecided one is not.
func (t *storm) isApproved(w *worker, s *swipe, status int, answer []byte) bool {
	reason := textField(answer, "reason")
	w.countBytes(reason)
	if status == 200 && string(reason) == "approved" && s.checkAnswer(answer) {
		s.card.tenant.moved.Add(-s.cents)
		return true
	}
	if status != 200 || !isUndecided(reason) {
		w.noteDifference("authorization in a storm", status, answer, "approved")
	}
	return false
}

// runRecovery runs the workload recovery: it kills the server in a storm of swipes, several times,
// and measures the time to the first correct swipe. The storm repeats swipes without an answer
// until they have one. Afterwards recovery repeats the last messages, which must have no second
// effect. A wrong answer ends it. It fails when the server does not start again or gives no correct
// answer within startWithin.
func (r *run) runRecovery(ctx context.Context, l *Load) ([]Stage, error) {
	var all []Stage
	var took []float64
	for i := range kills {
		s, seconds, err := r.killOnce(ctx, l, fmt.Sprintf("%s: kill %d", l.Name, i+1))
		all = append(all, s)
		if err != nil || foundWrong(all) {
			return all, err
		}
		took = append(took, seconds)
	}
	slices.Sort(took)
	last := &all[len(all)-1]
	last.Figures = append(last.Figures, newFigure(fmt.Sprintf("median of %d kills", kills), took[kills/2], "s"))
	return all, nil
}

// killOnce runs one storm with a kill and returns its stage and the seconds without an answered
// swipe. A wrong answer ends the storm, and leaves out the kill when that is still to come. It
// fails like killAndWait and repeatAll.
func (r *run) killOnce(ctx context.Context, l *Load, name string) (Stage, float64, error) {
	t, part := newStorm(r, l), *l
	part.Name, part.Duration = name, l.Duration+killWithin
	type outcome struct {
		took float64
		err  error
	}
	back := make(chan outcome, 1)
	r.flows++
	var faults differences
	first := newWorker(r, 0, fmt.Sprintf("%dfirst", r.flows)) // beside the storm, with its own ids
	untilWrong, stop := context.WithCancel(ctx)
	defer stop()
	first.faults, faults.stop = &faults, stop
	go func() {
		defer first.closeWires()
		took, err := t.killAndWait(untilWrong, l, first)
		t.over.Store(true)
		back <- outcome{took.Seconds(), err}
	}()
	stages, err := r.runFlows(ctx, &part, nil, flow{traffic: t, connections: l.Connections})
	if foundWrong(stages) {
		stop()
	}
	s, b := stages[0], <-back
	if s.addDifference(&faults); s.Wrong > 0 {
		return s, b.took, err
	}
	if err == nil {
		err = b.err
	}
	if err == nil {
		s.Figures = append(s.Figures, newFigure(killTook, b.took, "s"))
		err = t.repeatAll(&s)
	}
	if err == nil {
		err = r.settleWorkspaces(ctx, &s)
	}
	return s, b.took, err
}

// killAndWait kills the server after the load's duration and starts it again. It returns the time
// without an answered swipe. It fails when the server cannot be killed or started, and without a
// correct swipe within startWithin.
func (t *storm) killAndWait(ctx context.Context, l *Load, w *worker) (time.Duration, error) {
	if err := pause(ctx, l.Duration); err != nil {
		return 0, err
	}
	began := time.Now()
	t.killed.Store(true)
	if err := t.run.Server.Kill(); err != nil {
		return 0, err
	}
	if err := t.run.Server.Start(); err != nil {
		return 0, err
	}
	s := t.nextSwipe(w)
	for {
		w.body = s.appendBody(w.body[:0])
		status, answer, err := w.network.sendRequest("POST", authorizations, w.body)
		if err == nil && status != 503 && t.isApproved(w, &s, status, answer) {
			return time.Since(began), nil
		}
		if err == nil {
			s = t.nextSwipe(w) // a repeat would get the same decline
		}
		if time.Since(began) > startWithin {
			return 0, fmt.Errorf(
				"bench: no correct swipe within %s of a start: %d %s %v",
				startWithin,
				status,
				answer,
				err,
			)
		}
		if err := pause(ctx, askAgainAfter); err != nil {
			return 0, err
		}
	}
}

// repeatAll repeats the stored exchanges and expects the same answers. Then it sends the messages
// without an answer. Another answer is a difference of the stage. It fails when a message has no
// answer.
func (t *storm) repeatAll(s *Stage) error {
	var faults differences
	w := newWorker(t.run, 0, "again")
	w.faults = &faults
	defer w.closeWires()
	asked := 0
	for i := range t.lines {
		for _, e := range t.lines[i].kept {
			status, answer, err := w.repeatExchange(&e)
			if err != nil {
				return err
			}
			if asked++; !bytes.Equal(answer, e.answer) {
				w.noteDifference("repeat after the kill", status, answer, string(e.answer))
			}
		}
	}
	resent, late := t.uncertainSwipes()
	for i := range resent {
		status, answer, err := w.resolveMessage(authorizations, resent[i].appendBody(nil))
		if err != nil {
			return err
		}
		t.isApproved(w, &resent[i], status, answer)
	}
	tries := s.Outcomes[whileDown]
	delete(s.Outcomes, whileDown) // all of them have an answer now
	s.addDifference(&faults)
	s.Compared += asked
	s.Notes = append(s.Notes, fmt.Sprintf("%d tries while the server was down or starting", tries),
		fmt.Sprintf("%d messages without an answer by the first correct swipe sent again", len(resent)-late),
		fmt.Sprintf("%d answers and %d timeouts asked again after the kill", asked, late))
	return nil
}

// repeatExchange sends a message until the answer is no timeout. A server that has just started may
// time out. It fails when there is no answer. After repeatTries it returns the last answer.
func (w *worker) repeatExchange(e *exchange) (status int, answer []byte, err error) {
	for range repeatTries {
		status, answer, err = w.network.sendRequest("POST", e.path, e.body)
		if err != nil || !isUndecided(textField(answer, "reason")) {
			break
		}
		time.Sleep(repeatPause)
	}
	return status, answer, err
}

// resolveMessage sends a message until its answer is final. An immediate timeout is final: it is
// the stored answer. It fails when there is no answer. After repeatTries it returns the last
// answer.
func (w *worker) resolveMessage(path string, body []byte) (status int, answer []byte, err error) {
	for range repeatTries {
		began := time.Now()
		status, answer, err = w.network.sendRequest("POST", path, body)
		reason := textField(answer, "reason")
		if err != nil || !isUndecided(reason) || string(reason) == "timeout" && time.Since(began) < decideWithin {
			break
		}
		time.Sleep(repeatPause)
	}
	return status, answer, err
}

// uncertainSwipes returns the swipes whose outcome depends on the time of the kill: first the
// timeouts, as many as it returns, then those without an answer.
func (t *storm) uncertainSwipes() (all []swipe, timeouts int) {
	for i := range t.lines {
		all = append(all, t.lines[i].timeouts...)
	}
	timeouts = len(all)
	for i := range t.lines {
		all = append(all, t.lines[i].unanswered...)
	}
	return all, timeouts
}
