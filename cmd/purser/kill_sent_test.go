package main

import (
	"bytes"
	"context"
	"net/http"
)

// sent is a POST with an Idempotency-Key and the answer to it. told is false while there is no answer.
type sent struct {
	request request
	told    bool
	answer  answer
}

func newSent(path string, body fields) *sent {
	return &sent{request: request{method: "POST", path: path, idempotencyKey: newUUID(), body: marshal(body)}}
}

// send posts the request once and keeps the answer, unless the answer is that nobody knows what became of it.
func (q *sent) send(ctx context.Context, c *client) error {
	a, err := c.send(ctx, q.request)
	if err == nil && !undecided(a) {
		q.answer, q.told = a, true
	}
	return err
}

// repeats posts the request again. It is true when a request that was done has the same answer, to the byte, and one without an
// answer has got one. A refused request changed nothing and would be judged afresh, so it is not sent; nor is a nil one.
func (q *sent) repeats(p *process, bearer string) bool {
	if q == nil || q.told && q.answer.status >= http.StatusBadRequest {
		return true
	}
	a, err := p.api(bearer, q.request)
	if err != nil || undecided(a) || q.told && !bytes.Equal(a.raw, q.answer.raw) {
		return false
	}
	q.answer, q.told = a, true
	return true
}
