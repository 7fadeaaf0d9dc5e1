package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	authorizations = "/v1/authorizations"
	reversals      = "/v1/reversals"
	clearings      = "/v1/clearings"
	refunds        = "/v1/refunds"
)

// swipe is an authorization and the expected reason of its answer.
type swipe struct {
	id       []byte
	token    string
	card     *card
	cents    int64
	currency string
	merchant uint64
	name     string // the merchant's; derived from its number when empty
	mcc      string
	original string // the increment's
	reason   string
}

// appendBody appends the body of the message to dst. It never fails.
func (s *swipe) appendBody(dst []byte) []byte {
	dst = append(append(dst, `{"id":"`...), s.id...)
	dst = append(append(dst, `","cardToken":"`...), s.token...)
	dst = append(dst, `","amountCents":`...)
	dst = strconv.AppendInt(dst, s.cents, 10)
	dst = append(append(dst, `,"currency":"`...), s.currency...)
	dst = append(dst, `","merchant":{"id":"m-`...)
	dst = strconv.AppendUint(dst, s.merchant, 10)
	dst = append(dst, `","name":"`...)
	if s.name != "" {
		dst = append(dst, s.name...)
	} else {
		dst = strconv.AppendUint(append(dst, "Merchant "...), s.merchant, 10)
	}
	dst = append(append(dst, `","mcc":"`...), s.mcc...)
	dst = append(dst, `","country":"US"}`...)
	if s.original != "" {
		dst = append(append(dst, `,"kind":"incremental","originalId":"`...), s.original...)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// swipes is the traffic of authorizations.
type swipes struct {
	run      *run
	pick     func(w *worker) *card
	declines int // percent
}

func (r *run) newSwipes(l *Load) *swipes {
	return &swipes{run: r, pick: r.cards.picker(l.Spread), declines: max(r.Declines, 0)}
}

// The measures of swipes. Answers that need no write are faster than durable ones, so they are
// measured apart.
const (
	durableAnswer = iota
	unstoredAnswer
)

var swipeNames = [...]string{durableAnswer: "authorize", unstoredAnswer: "unstored declines"}

func (t *swipes) measures() []string {
	if t.declines == 0 {
		return swipeNames[:unstoredAnswer]
	}
	return swipeNames[:]
}

// expectedMeasure returns the measure of the expected answer. All other declines are stored.
func (s *swipe) expectedMeasure() int {
	switch s.reason {
	case "card_not_found", "duplicate_mismatch":
		return unstoredAnswer
	}
	return durableAnswer
}

// unit sends one swipe. A random share of t.declines percent is built so that the server must
// decline it. A connection of the load calls it for each due request.
func (t *swipes) unit(w *worker, due time.Time) {
	s := t.nextSwipe(w)
	if w.random.IntN(100) < t.declines {
		spoil := spoilers[w.random.IntN(len(spoilers))]
		s.reason = spoil.reason
		if !spoil.make(t.run.cards, w, &s) {
			s = t.nextSwipe(w) // the decline is not possible yet
		}
	}
	t.sendSwipe(w, &s, due)
}

// nextSwipe returns a swipe that must be approved. The worker's next id overwrites its id.
func (t *swipes) nextSwipe(w *worker) swipe {
	c := t.pick(w)
	return swipe{id: w.nextID(), token: c.token, card: c, currency: "USD", merchant: w.merchants.Uint64(), mcc: groceryMCC,
		cents: leastSwipeCents + w.random.Int64N(mostSwipeCents-leastSwipeCents), reason: "approved"}
}

// sendSwipe sends a swipe and compares its answer with the expected one. A wrong answer is recorded
// as a difference, a missing one as an outcome.
func (t *swipes) sendSwipe(w *worker, s *swipe, due time.Time) {
	w.body = s.appendBody(w.body[:0])
	if s.reason == "approved" {
		s.card.tenant.asked.Add(s.cents) // before it is sent: a read may see it before its answer comes
	}
	status, answer, ok := w.sendMeasured(w.network, s.expectedMeasure(), due, "POST", authorizations)
	if !ok {
		return
	}
	reason := textField(answer, "reason")
	w.countBytes(reason)
	told := status == 200 && s.checkAnswer(answer)
	switch {
	case told && string(reason) == s.reason:
	case told && isUndecided(reason):
		w.markUndecided(s.expectedMeasure(), due)
		return
	default:
		w.noteDifference(fmt.Sprintf("authorization %s of %d cents", s.id, s.cents), status, answer, s.reason)
		return
	}
	if s.reason == "approved" {
		s.card.tenant.moved.Add(-s.cents)
		id := append(w.previous.id[:0], s.id...)
		w.previous = *s
		w.previous.id = id
	}
}

// checkAnswer reports whether an answer is the expected one, with the full amount approved or
// nothing.
func (s *swipe) checkAnswer(answer []byte) bool {
	decision, cents := "declined", int64(0)
	if string(textField(answer, "reason")) == "approved" {
		decision, cents = "approved", s.cents
	}
	approved, told := centsField(answer, "approvedAmountCents")
	return told && approved == cents && string(textField(answer, "decision")) == decision && answersMessage(answer, s.id)
}

// answersMessage reports whether an answer of the network is that to the message of an id.
func answersMessage(answer, id []byte) bool { return bytes.Equal(textField(answer, "id"), id) }

// isUndecided reports whether an answer is a decline that any swipe may get, because no decision
// was possible in time. It moves no money in the end.
func isUndecided(reason []byte) bool {
	switch string(reason) {
	case "timeout", "backlog_full", "system_unavailable":
		return true
	}
	return false
}

// spoilers change a swipe into one that must be declined, by the reason. They return false when the
// decline is not possible yet.
var spoilers = [...]struct {
	reason string
	make   func(p *portfolio, w *worker, s *swipe) bool
}{
	{"invalid_request", func(_ *portfolio, _ *worker, s *swipe) bool { s.cents = -1; return true }},
	{"card_not_found", func(_ *portfolio, w *worker, s *swipe) bool { s.token = unknownToken(w, s.token); return true }},
	{"card_terminated", func(p *portfolio, _ *worker, s *swipe) bool { s.token = p.terminated.token; return true }},
	{"card_frozen", func(p *portfolio, _ *worker, s *swipe) bool { s.token = p.frozen.token; return true }},
	{"currency_not_supported", func(_ *portfolio, _ *worker, s *swipe) bool { s.currency = "EUR"; return true }},
	{"mcc_not_allowed", func(p *portfolio, _ *worker, s *swipe) bool {
		s.token, s.mcc = p.groceriesOnly.token, casinoMCC
		return true
	}},
	{"merchant_not_allowed", func(p *portfolio, _ *worker, s *swipe) bool { s.token = p.oneMerchantOnly.token; return true }},
	{"per_transaction_limit_exceeded", func(_ *portfolio, _ *worker, s *swipe) bool { s.cents = perTxnCents + 1; return true }},
	{"monthly_limit_exceeded", func(p *portfolio, _ *worker, s *swipe) bool { s.token = p.tight.token; return true }},
	{"insufficient_funds", func(p *portfolio, _ *worker, s *swipe) bool { s.token = p.poor.token; return true }},
	{"authorization_not_found", func(_ *portfolio, _ *worker, s *swipe) bool {
		s.original = string(s.id) + "-never"
		return true
	}},
	{"duplicate_mismatch", func(_ *portfolio, w *worker, s *swipe) bool {
		if w.previous.id == nil {
			return false
		}
		*s = w.previous
		s.cents, s.reason = s.cents+1, "duplicate_mismatch"
		return true
	}},
	{"reversed_before_arrival", func(_ *portfolio, w *worker, s *swipe) bool { return reverseEarly(w, s) }},
}

// unknownToken returns a token without a card: a known token with other last characters. It never
// fails.
func unknownToken(w *worker, token string) string {
	const drawn, letters = 12, "0123456789abcdef"
	text := []byte(token)
	for i := max(0, len(text)-drawn); i < len(text); i++ {
		text[i] = letters[w.random.IntN(len(letters))]
	}
	return string(text)
}

// reverseEarly sends the reversal of an authorization that has not arrived yet, so that the
// authorization must be declined. It is not measured. It returns false when the reversal has no
// answer or a wrong one.
func reverseEarly(w *worker, s *swipe) bool {
	id := append(bytes.Clone(s.id), "-early"...)
	w.body = append(append(w.body[:0], `{"id":"`...), id...)
	w.body = append(append(w.body, `","originalId":"`...), s.id...)
	w.body = append(w.body, `"}`...)
	status, answer, err := w.network.sendRequest("POST", reversals, w.body)
	for tries := 0; err == nil && status == 503 && tries < soakRetries; tries++ { // with the same id: the server takes it for the same message
		w.countOutcome(sentAgain)
		time.Sleep(soakRetryPause)
		status, answer, err = w.network.sendRequest("POST", reversals, w.body)
	}
	if err != nil {
		w.countOutcome(noAnswer)
		return false
	}
	held, told := centsField(answer, "heldAmountCents")
	if status != 200 || !told || held != 0 || !answersMessage(answer, id) {
		w.noteDifference("reversal "+string(id)+" before its authorization", status, answer, "0 held")
		return false
	}
	return true
}
