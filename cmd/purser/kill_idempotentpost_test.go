package main

import (
	"bytes"
	"context"
	"net/http"

	"purser/cmd/purser/apiclient"
)

// idempotentPost is a POST with an Idempotency-Key, and its answer once the outcome is known.
type idempotentPost struct {
	request  apiclient.Request
	answered bool // answer holds the known outcome
	answer   apiclient.Answer
}

func newIdempotentPost(path string, body fields) *idempotentPost {
	return &idempotentPost{request: apiclient.Request{Method: "POST", Path: path,
		IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(body)}}
}

// send posts the request once. It keeps the answer unless that answer leaves the outcome unknown.
func (q *idempotentPost) send(ctx context.Context, c *apiclient.Client) error {
	a, err := c.Send(ctx, q.request)
	if err == nil && !apiclient.IsUndecided(a) {
		q.answer, q.answered = a, true
	}
	return err
}

// repeatMatches posts the request again. It reports whether a request with a known outcome gets the
// same answer, to the byte, and any other request gets an answer. A refused request has changed
// nothing and would be decided anew, so repeatMatches does not send it again. It ignores a nil
// request.
func (q *idempotentPost) repeatMatches(p *process, bearer string) bool {
	if q == nil || q.answered && q.answer.Status >= http.StatusBadRequest {
		return true
	}
	a, err := p.sendToREST(bearer, q.request)
	if err != nil || apiclient.IsUndecided(a) || q.answered && !bytes.Equal(a.Raw, q.answer.Raw) {
		return false
	}
	q.answer, q.answered = a, true
	return true
}
