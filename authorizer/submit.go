package authorizer

import (
	"errors"
	"sync"
	"time"
	"unsafe"

	"purser/authorizer/hold"
)

// Submit decides a message and returns when the answer may be sent: once durable, or after
// AnswerWithin as "timeout" (an authorization) or status 503 (the others). It is safe for
// concurrent use and does not retain m's strings. An answer with Status 0 must not be sent: the
// engine has stopped (see Options.Fatal). It has no error: a failure is an answer.
func (e *Engine) Submit(m *hold.Message) hold.Answer { return e.intake.submit(m) }

// intake takes the card network's messages, has each decided, and answers it once its commit is
// durable or its time is over.
type intake struct {
	commits  *committer
	decider  *decider
	failStop *failStop
	listener Listener
	clock    func() time.Time
	suspect  func() bool // Options.ClockSuspect

	places   chan struct{} // an entry for each decision beside its caller
	deciding sync.WaitGroup
}

func newIntake(c *committer, d *decider, o *Options) *intake {
	return &intake{
		commits: c, decider: d, failStop: c.failStop, listener: o.Listener, clock: o.Clock, suspect: o.ClockSuspect,
		places: make(chan struct{}, deciders),
	}
}

// close waits for decisions beside their callers. No message may arrive during or after it.
func (in *intake) close() { in.deciding.Wait() }

// submit is Engine.Submit.
func (in *intake) submit(m *hold.Message) hold.Answer {
	t := in.admitArrival(m.Waited)
	if m.Waited >= in.commits.answerWithin {
		return in.turnAway(t, m, errLate)
	}
	if err := in.takeMessage(t, m); err != nil {
		return in.turnAway(t, m, err)
	}
	in.handOver(t)
	return in.awaitAnswer(t, m)
}

// admitArrival makes the ticket of a message that arrived now and waited before.
func (in *intake) admitArrival(waited time.Duration) *ticket {
	began := in.clock()
	t := in.commits.newTicket(actDecide)
	in.commits.armTicket(t, waited)
	t.began = began
	return t
}

// takeMessage fills the ticket of a message that gets a place and its claims. It fails with errLate
// when the deadline comes first, and with ErrStopped.
func (in *intake) takeMessage(t *ticket, m *hold.Message) error {
	if err := in.failStop.failure(); err != nil {
		return err
	}
	if !in.commits.admitTicket(t) || !in.commits.claims.takeMessage(t, m) {
		return errLate
	}
	t.keep(m)
	t.view.Now, t.view.MonthStays = t.began.UnixMilli(), in.suspect()
	return nil
}

// handOver has a message decided: on this goroutine when all its data is in memory, which saves two
// changes of goroutines. Any other message gets a goroutine of its own, because a read may block
// while the disk stalls, and a blocked caller could not answer.
func (in *intake) handOver(t *ticket) {
	kind, began := t.message.Kind, t.began
	done, queued, err := in.decider.decideHot(t)
	if !done {
		in.deciding.Go(func() { in.decideBeside(t) })
		return
	}
	in.settleDecided(t, kind, began, queued, err)
}

// turnAway answers a message without a decider, and releases its ticket.
func (in *intake) turnAway(t *ticket, m *hold.Message, err error) hold.Answer {
	began := t.began
	in.commits.release(t)
	return in.reportAnswer(m, began, hold.Answer{}, err)
}

// awaitAnswer waits for a decider's result and answers it. After errLate the ticket may belong to
// another goroutine; otherwise awaitAnswer releases it.
func (in *intake) awaitAnswer(t *ticket, m *hold.Message) hold.Answer {
	began := t.began
	err := in.commits.wait(t)
	if errors.Is(err, errLate) {
		return in.reportAnswer(m, began, hold.Answer{}, err)
	}
	a := t.answer
	a.ID, a.Message = m.ID, m.Invalid
	in.commits.release(t)
	return in.reportAnswer(m, began, a, err)
}

// reportAnswer reports an answer to the listener and returns it.
func (in *intake) reportAnswer(m *hold.Message, began time.Time, a hold.Answer, err error) hold.Answer {
	switch {
	case err == nil:
	case in.failStop.failure() != nil:
		<-in.failStop.failed
		return hold.Answer{}
	case errors.Is(err, errLate):
		a = refuse(m, hold.ReasonTimeout)
	default:
		a = refuse(m, hold.ReasonSystemUnavailable)
	}
	in.listener.Decided(m.Kind, a.Decision, a.Reason, in.clock().Sub(began))
	return a
}

// keep copies a message into the ticket, because the caller's strings are valid only until it has
// its answer.
func (t *ticket) keep(m *hold.Message) {
	t.message, t.text = *m, t.text[:0]
	n := &t.message
	for _, s := range [...]*string{&n.ID, &n.OriginalID, &n.Invalid, &n.Merchant.ID, &n.Merchant.Name,
		&n.Merchant.Country} {
		t.text = append(t.text, *s...)
	}
	rest := unsafe.String(unsafe.SliceData(t.text), len(t.text))
	for _, s := range [...]*string{&n.ID, &n.OriginalID, &n.Invalid, &n.Merchant.ID, &n.Merchant.Name,
		&n.Merchant.Country} {
		*s, rest = rest[:len(*s)], rest[len(*s):]
	}
}

// decideBeside decides a message beside its caller, once there is a place. A ticket that the log has
// no longer belongs to it.
func (in *intake) decideBeside(t *ticket) {
	in.places <- struct{}{}
	defer func() { <-in.places }()
	if t.state.Load() == left { // answered "timeout" before its decision: no effect
		in.commits.release(t)
		return
	}
	kind, began := t.message.Kind, t.began
	queued, err := in.decider.decideTicket(t)
	in.settleDecided(t, kind, began, queued, err)
}

// settleDecided reports a decision, and settles a ticket that has none for the log.
func (in *intake) settleDecided(t *ticket, kind hold.Kind, began time.Time, queued bool, err error) {
	in.listener.Staged(kind, in.clock().Sub(began))
	if !queued {
		if t.err = err; err == nil {
			t.err = in.failStop.failure() // a repeat of a decision whose sync failed
		}
		in.commits.settleTicket(t)
	}
}
