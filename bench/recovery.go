package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// Limits of a recovery.
const (
	kills         = 3
	keptAnswers   = 16 // of each connection, asked again after the kill
	keptTimeouts  = 64 // of each connection, asked again likewise
	startWithin   = 5 * time.Minute
	askAgainAfter = time.Millisecond
	repeatTries   = 100 // until a repeat has an answer other than that none was possible in time
	repeatPause   = 50 * time.Millisecond
	killWithin    = 30 * time.Second
	decideWithin  = 150 * time.Millisecond // of the server: what is not decided and synced by then is a timeout
)

// exchange is a message and what it was answered with.
type exchange struct {
	path         string
	body, answer []byte
}

// storm is swipes of which every connection keeps the last answers and the one that had none.
//
// A timeout says that the answer came too late to be durable. What was approved all the same is reversed right afterwards, unless
// the kill comes first: then the hold stands, and the network, which asks again, is told so. So these are asked again too.
type storm struct {
	swipes
	kept     [][]exchange // by connection
	timeouts [][]swipe    // by connection: the last that were answered so
	pending  []swipe      // sent and not answered when the server was killed; its id is empty when there is none
}

func newStorm(r *run, l *Load) *storm {
	return &storm{swipes: swipes{run: r, pick: r.cards.pick(l.Spread)}, kept: make([][]exchange, l.Connections),
		timeouts: make([][]swipe, l.Connections), pending: make([]swipe, l.Connections)}
}

func (t *storm) unit(w *worker, due time.Time) {
	s := t.next(w)
	w.body = s.append(w.body[:0])
	status, answer, ok := w.ask(w.network, 0, due, "POST", authorizations)
	if !ok {
		s.id = bytes.Clone(s.id)
		t.pending[w.index], w.stopped = s, true
		return
	}
	if !t.approved(w, &s, status, answer) {
		if string(textField(answer, "reason")) == "timeout" {
			s.id = bytes.Clone(s.id)
			late := append(t.timeouts[w.index], s)
			t.timeouts[w.index] = late[max(0, len(late)-keptTimeouts):]
		}
		return
	}
	kept := append(t.kept[w.index], exchange{authorizations, bytes.Clone(w.body), bytes.Clone(answer)})
	t.kept[w.index] = kept[max(0, len(kept)-keptAnswers):]
}

func (t *storm) approved(w *worker, s *swipe, status int, answer []byte) bool {
	reason := textField(answer, "reason")
	w.countBytes(reason)
	if status == 200 && string(reason) == "approved" {
		s.card.tenant.moved.Add(-s.cents)
		return true
	}
	if !couldNot(reason) {
		w.differs("authorization in a storm", status, answer, "approved")
	}
	return false
}

// recovery kills the server in a storm of swipes, several times, and measures until the first correct swipe. Then everything that
// was answered last is asked again, and what had no answer is sent again, which must have one effect.
func (r *run) recovery(ctx context.Context, l *Load) ([]Stage, error) {
	var all []Stage
	var took []float64
	for i := range kills {
		s, seconds, err := r.killOnce(ctx, l, fmt.Sprintf("%s: kill %d", l.Name, i+1))
		all = append(all, s)
		if err != nil {
			return all, err
		}
		took = append(took, seconds)
	}
	slices.Sort(took)
	last := &all[len(all)-1]
	last.Figures = append(last.Figures, newFigure(fmt.Sprintf("median of %d kills", kills), took[kills/2], "s"))
	return all, nil
}

func (r *run) killOnce(ctx context.Context, l *Load, name string) (Stage, float64, error) {
	t, part := newStorm(r, l), *l
	part.Name, part.Duration = name, l.Duration+killWithin // the storm ends with the server
	type outcome struct {
		took float64
		err  error
	}
	back := make(chan outcome, 1)
	r.flows++
	first := newWorker(r, 0, fmt.Sprintf("%dfirst", r.flows)) // beside the storm, under ids of its own
	go func() {
		defer first.close()
		took, err := r.killAndWait(ctx, l, first)
		back <- outcome{took.Seconds(), err}
	}()
	stages, err := r.drive(ctx, &part, nil, flow{traffic: t, connections: l.Connections})
	s, b := stages[0], <-back
	if err == nil {
		err = b.err
	}
	if err == nil {
		s.Figures = append(s.Figures, newFigure("kill -9 to first correct swipe", b.took, "s"))
		err = t.askAgain(&s)
	}
	if err == nil {
		err = r.settle(ctx, &s)
	}
	return s, b.took, err
}

// killAndWait kills the server after the load's duration, starts it again and returns how long no swipe was answered.
func (r *run) killAndWait(ctx context.Context, l *Load, w *worker) (time.Duration, error) {
	if err := pause(ctx, l.Duration); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.Server.Kill(); err != nil {
		return 0, err
	}
	if err := r.Server.Start(); err != nil {
		return 0, err
	}
	plain := &swipes{run: r, pick: r.cards.pick(l.Spread)}
	s := plain.next(w)
	for {
		body := s.append(nil)
		status, answer, err := w.network.send("POST", authorizations, body)
		if err == nil && status == 200 && string(textField(answer, "reason")) == "approved" {
			s.card.tenant.moved.Add(-s.cents)
			return time.Since(began), nil
		}
		if err == nil {
			s = plain.next(w) // a repeat would get the same decline
		}
		if time.Since(began) > startWithin {
			return 0, fmt.Errorf("bench: no correct swipe within %s of a start: %d %s %v", startWithin, status, answer, err)
		}
		if err := pause(ctx, askAgainAfter); err != nil {
			return 0, err
		}
	}
}

// askAgain sends what is kept once more and expects the same answers, then what had none.
func (t *storm) askAgain(s *Stage) error {
	var faults differences
	w := newWorker(t.run, 0, "again")
	w.faults = &faults
	defer w.close()
	asked := 0
	for _, kept := range t.kept {
		for _, e := range kept {
			status, answer, err := w.repeat(&e)
			if err != nil {
				return err
			}
			if asked++; !bytes.Equal(answer, e.answer) {
				w.differs("repeat after the kill", status, answer, string(e.answer))
			}
		}
	}
	resent, late := t.unsettled()
	for i := range resent {
		status, answer, err := w.resolve(authorizations, resent[i].append(nil))
		if err != nil {
			return err
		}
		t.approved(w, &resent[i], status, answer)
	}
	delete(s.Outcomes, "no answer") // every one of them has been answered now
	s.blame(&faults)
	s.Compared += asked
	s.Notes = append(s.Notes, fmt.Sprintf("%d answers and %d timeouts asked again after the kill, %d messages without one sent again",
		asked, late, len(resent)-late))
	return nil
}

// repeat sends a message again until it is answered: a server that has just started may not come to it in time, and says so.
func (w *worker) repeat(e *exchange) (status int, answer []byte, err error) {
	for range repeatTries {
		status, answer, err = w.network.send("POST", e.path, e.body)
		if err != nil || !couldNot(textField(answer, "reason")) {
			break
		}
		time.Sleep(repeatPause)
	}
	return status, answer, err
}

// resolve sends a message until it has the answer that it keeps. A timeout that comes at once is one: it is remembered.
func (w *worker) resolve(path string, body []byte) (status int, answer []byte, err error) {
	for range repeatTries {
		began := time.Now()
		status, answer, err = w.network.send("POST", path, body)
		reason := textField(answer, "reason")
		if err != nil || !couldNot(reason) || string(reason) == "timeout" && time.Since(began) < decideWithin {
			break
		}
		time.Sleep(repeatPause)
	}
	return status, answer, err
}

// unsettled returns the swipes of which the kill alone decided whether they stand: timeouts, so many, and what had no answer.
func (t *storm) unsettled() (all []swipe, timeouts int) {
	for _, late := range t.timeouts {
		all = append(all, late...)
	}
	timeouts = len(all)
	for _, p := range t.pending {
		if p.id != nil {
			all = append(all, p)
		}
	}
	return all, timeouts
}
