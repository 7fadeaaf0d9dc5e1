package authorizer

import (
	"errors"

	"purser/authorizer/hold"
)

// MaxBatch bounds the messages of one SubmitBatch.
const MaxBatch = 256

// SubmitBatch decides messages like separate calls of Submit, in their order where they name the
// same network id. It returns when all answers may be sent; answers has a place for each. The
// messages share syncs and one goroutine, for a connection that carries many messages at once.
//
// A message that would have to wait for a place or an id waits only after all earlier ones are
// answered, so that two batches never wait for each other.
func (e *Engine) SubmitBatch(messages []hold.Message, answers []hold.Answer) {
	if len(messages) > MaxBatch || len(answers) != len(messages) {
		panic("BUG: a batch beyond MaxBatch, or without a place for each answer")
	}
	var tickets [MaxBatch]*ticket
	first := 0 // first unanswered message
	for i := range messages {
		m := &messages[i]
		t := e.arrive(0)
		err := e.hand(t, m, false)
		if errors.Is(err, errBusy) {
			e.answerAll(tickets[first:i], messages[first:i], answers[first:i])
			first, err = i, e.hand(t, m, true)
		}
		if tickets[i] = t; err != nil {
			tickets[i], answers[i] = nil, e.turnedAway(t, m, err)
		}
	}
	e.answerAll(tickets[first:len(messages)], messages[first:], answers[first:])
}

// answerAll answers the remaining messages.
func (e *Engine) answerAll(tickets []*ticket, messages []hold.Message, answers []hold.Answer) {
	for i, t := range tickets {
		if t != nil {
			answers[i] = e.answer(t, &messages[i])
		}
	}
}
