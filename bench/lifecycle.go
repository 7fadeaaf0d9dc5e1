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

// unit sends one life. The first message is due at a time, each later one when the one before it is
// answered.
func (t *lifecycle) unit(w *worker, due time.Time) {
	s := (&swipes{run: t.run, pick: t.pick}).next(w)
	first, more := s.cents, leastSwipeCents+w.random.Int64N(mostSwipeCents)
	original := string(s.id)
	if !t.step(w, stepAuthorize, due, &s, s.append(w.body[:0]), authorizations) {
		return
	}
	s.card.tenant.moved.Add(-first)
	s.id, s.original, s.cents = w.nextID(), original, more
	if t.step(w, stepIncrement, time.Now(), &s, s.append(w.body[:0]), authorizations) {
		s.card.tenant.moved.Add(-more)
	} else {
		more = 0
	}
	s.original, s.cents = "", first+more
	if !t.step(w, stepClear, time.Now(), &s, presentment(w, &s, original, `,"final":true}`), clearings) {
		return
	}
	s.cents = 1 + w.random.Int64N(first)
	if t.step(w, stepRefund, time.Now(), &s, presentment(w, &s, original, `}`), refunds) {
		s.card.tenant.moved.Add(s.cents)
	}
}

// presentment returns the body of a clearing or refund of the amount of s.
func presentment(w *worker, s *swipe, original, end string) []byte {
	s.id = w.nextID()
	body := s.append(w.body[:0])
	body = append(append(body[:len(body)-1], `,"originalId":"`...), original...)
	return append(append(body, '"'), end...)
}

// step sends one message of a life and expects success.
func (t *lifecycle) step(w *worker, measure int, due time.Time, s *swipe, body []byte, path string) bool {
	w.body = body
	status, answer, ok := w.ask(w.network, measure, due, "POST", path)
	for tries := 0; ok && status == 503 && tries < soakRetries; tries++ { // the same id: the same message
		w.count("sent again")
		w.undecided(measure, due)
		time.Sleep(soakRetryPause)
		status, answer, ok = w.ask(w.network, measure, due, "POST", path)
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
		w.undecided(measure, due)
	default:
		w.noteDifference(fmt.Sprintf("%s %s of %d cents", path[1:], s.id, s.cents), status, answer, want)
	}
	return false
}
