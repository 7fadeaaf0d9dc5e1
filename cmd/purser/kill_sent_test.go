package main

import (
	"bytes"
	"context"
	"net/http"

	"purser/cmd/purser/apiclient"
)

// sent is a POST with an Idempotency-Key, and its answer once the outcome is known.
type sent struct {
	request apiclient.Request
	told    bool
	answer  apiclient.Answer
}

func newSent(path string, body fields) *sent {
	return &sent{request: apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(body)}}
}

// send posts the request once. It keeps the answer unless that answer leaves the outcome unknown.
func (q *sent) send(ctx context.Context, c *apiclient.Client) error {
	a, err := c.Send(ctx, q.request)
	if err == nil && !apiclient.IsUndecided(a) {
		q.answer, q.told = a, true
	}
	return err
}

// repeatsAlike posts the request again. It reports whether a request with a known outcome gets the
// same answer, to the byte, and any other request gets an answer. A refused request has changed
// nothing and would be decided anew, so it is not sent again; nor is a nil one.
func (q *sent) repeatsAlike(p *process, bearer string) bool {
	if q == nil || q.told && q.answer.Status >= http.StatusBadRequest {
		return true
	}
	a, err := p.api(bearer, q.request)
	if err != nil || apiclient.IsUndecided(a) || q.told && !bytes.Equal(a.Raw, q.answer.Raw) {
		return false
	}
	q.answer, q.told = a, true
	return true
}
