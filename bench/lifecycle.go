package bench

import (
	"strconv"
	"time"
)

// lifecycle is the life of an authorization: it is made, incremented, cleared in full, and some of it comes back.
type lifecycle struct {
	run  *run
	pick func(w *worker) *card
}

// The steps of a life, which are measured apart.
const (
	stepAuthorize = iota
	stepIncrement
	stepClear
	stepRefund
)

func (*lifecycle) measures() []string { return []string{"authorize", "increment", "clear", "refund"} }

// unit sends one life. Its first message was due at a moment; each of the others is due when the one before it is answered.
func (t *lifecycle) unit(w *worker, due time.Time) {
	s := (&swipes{run: t.run, pick: t.pick}).next(w)
	first, more := s.cents, leastSwipeCents+w.random.Int64N(mostSwipeCents)
	original := string(s.id)
	if !t.step(w, stepAuthorize, due, s.append(w.body[:0]), authorizations, "reason", "approved") {
		return
	}
	s.card.tenant.moved.Add(-first)
	s.id, s.original, s.cents = w.nextID(), original, more
	if t.step(w, stepIncrement, time.Now(), s.append(w.body[:0]), authorizations, "reason", "approved") {
		s.card.tenant.moved.Add(-more)
	} else {
		more = 0
	}
	s.original, s.cents = "", first+more
	if !t.step(w, stepClear, time.Now(), presentment(w, &s, original, `,"final":true}`), clearings, "status", "posted") {
		return
	}
	s.cents = 1 + w.random.Int64N(first)
	if t.step(w, stepRefund, time.Now(), presentment(w, &s, original, `}`), refunds, "status", "posted") {
		s.card.tenant.moved.Add(s.cents)
	}
}

// presentment is the body of a clearing or refund of the amount of s.
func presentment(w *worker, s *swipe, original, end string) []byte {
	s.id = w.nextID()
	body := s.append(w.body[:0])
	body = append(append(body[:len(body)-1], `,"originalId":"`...), original...)
	return append(append(body, '"'), end...)
}

func (t *lifecycle) step(w *worker, measure int, due time.Time, body []byte, path, field, want string) bool {
	w.body = body
	status, answer, ok := w.ask(w.network, measure, due, "POST", path)
	for tries := 0; ok && status == 503 && tries < soakRetries; tries++ { // the same id: the same message
		w.count("sent again")
		time.Sleep(soakRetryPause)
		status, answer, ok = w.ask(w.network, measure, due, "POST", path)
	}
	if !ok {
		return false
	}
	got := textField(answer, field)
	w.countBytes(got)
	if status == 200 && string(got) == want {
		return true
	}
	if !couldNot(got) {
		w.differs(path[1:]+" "+strconv.Itoa(measure), status, answer, want)
	}
	return false
}
