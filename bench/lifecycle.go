package bench

import (
	"fmt"
	"time"
)

// lifecycle is the traffic of whole lives of authorizations: authorize, increment, clear in full,
// refund in part.
type lifecycle struct {
	run  *run
	pick func(w *worker) *card
}

// The steps of a life. Each has a measure.
const (
	stepAuthorize = iota
	stepIncrement
	stepClear
	stepRefund
)

func (*lifecycle) measures() []string { return []string{"authorize", "increment", "clear", "refund"} }

// unit sends one life of an authorization: authorization, increment, final clearing and refund. The
// first message is due at a time, each later one when the one before it is answered. A step without
// the expected answer ends the life.
func (t *lifecycle) unit(w *worker, due time.Time) {
	s := (&swipes{run: t.run, pick: t.pick}).nextSwipe(w)
	first, more := s.cents, leastSwipeCents+w.random.Int64N(mostSwipeCents)
	original := string(s.id)
	if !t.sendStep(w, stepAuthorize, due, &s, s.appendBody(w.body[:0]), authorizations) {
		return
	}
	s.card.tenant.moved.Add(-first)
	s.id, s.original, s.cents = w.nextID(), original, more
	if t.sendStep(w, stepIncrement, time.Now(), &s, s.appendBody(w.body[:0]), authorizations) {
		s.card.tenant.moved.Add(-more)
	} else {
		more = 0
	}
	s.original, s.cents = "", first+more
	if !t.sendStep(w, stepClear, time.Now(), &s, presentmentBody(w, &s, original, `,"final":true}`), clearings) {
		return
	}
	s.cents = 1 + w.random.Int64N(first)
	if t.sendStep(w, stepRefund, time.Now(), &s, presentmentBody(w, &s, original, `}`), refunds) {
		s.card.tenant.moved.Add(s.cents)
	}
}

// presentmentBody returns the body of a clearing or refund of the amount of s.
func presentmentBody(w *worker, s *swipe, original, end string) []byte {
	s.id = w.nextID()
	body := s.appendBody(w.body[:0])
	body = append(append(body[:len(body)-1], `,"originalId":"`...), original...)
	return append(append(body, '"'), end...)
}

// sendStep sends one message of a life and expects success. It repeats a 503 up to soakRetries
// times. It returns false without an answer, without a decision, and for a wrong answer, which it
// records.
func (t *lifecycle) sendStep(w *worker, measure int, due time.Time, s *swipe, body []byte, path string) bool {
	w.body = body
	status, answer, ok := w.sendMeasured(w.network, measure, due, "POST", path)
	for tries := 0; ok && status == 503 && tries < soakRetries; tries++ { // the same id: the same message
		w.countOutcome(sentAgain)
		w.markUndecided(measure, due)
		time.Sleep(soakRetryPause)
		status, answer, ok = w.sendMeasured(w.network, measure, due, "POST", path)
	}
	if !ok {
		return false
	}
	field, want, told := "status", "posted", answersMessage(answer, s.id)
	if path == authorizations {
		field, want, told = "reason", "approved", s.checkAnswer(answer)
	}
	got := textField(answer, field)
	w.countBytes(got)
	switch told = told && status == 200; {
	case told && string(got) == want:
		return true
	case told && isUndecided(got):
		w.markUndecided(measure, due)
	default:
		w.noteDifference(fmt.Sprintf("%s %s of %d cents", path[1:], s.id, s.cents), status, answer, want)
	}
	return false
}
