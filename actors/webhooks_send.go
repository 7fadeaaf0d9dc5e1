package actors

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/webhook"
)

// Poster sends to a receiver; httpapi/webhook.Sender is one.
type Poster interface {
	// Post sends the body of an event to the URL under the delivery's id, signed with the secret at
	// a time. It answers the receiver's status
	// or, as a short word such as "timeout", what kept it from giving one. It returns within a few seconds, or when the context
	// ends.
	Post(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (status int, failure string)
}

// Limits of sending.
const (
	maxSending = 512 // attempts under way, at most one to an endpoint
	// maxWorkspaceSending of them are one workspace's: one for each endpoint that it may have.
	maxWorkspaceSending = webhook.MaxPerWorkspace
	sendTimeout         = 30 * time.Second // for an attempt, from reading the delivery to recording its outcome
)

func (s *System) deliver(ctx context.Context, due webhook.Due) {
	within, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.attempt(within, due); err != nil && ctx.Err() == nil {
		s.Complain("webhook attempt", err)
	}
}

// attempt sends a delivery once and records what came of it. What is sent is read here and not before, the endpoint last: once
// that is removed, no attempt begins.
func (s *System) attempt(ctx context.Context, due webhook.Due) error {
	var endpoint webhook.Endpoint
	var delivery webhook.Delivery
	if found, err := s.readDocument(ctx, webhook.RecordDelivery, due.Workspace, due.Delivery, &delivery); !found {
		return err
	}
	began := s.clock()
	if !delivery.DueAt(decision.StampOf(began)) {
		return nil
	}
	if found, err := s.readDocument(ctx, webhook.RecordEndpoint, due.Workspace, due.Endpoint, &endpoint); !found {
		return err
	}
	status, failure := s.poster.Post(ctx, endpoint.URL, endpoint.Secret, delivery.ID, delivery.Event, began,
		[]byte(delivery.Body))
	if ctx.Err() != nil {
		return ctx.Err() // it says nothing about the receiver
	}
	took := s.clock().Sub(began)
	s.listener.Posted(postOutcome(status, failure), took)
	jitter, err := s.jitter()
	if err != nil {
		return err
	}
	_, err = s.Ask(ctx, Envelope{Kind: "webhook", Stream: due.Endpoint, Workspace: due.Workspace, Command: webhook.Attempted{
		Delivery: delivery, Attempt: attemptOf(began, took, status, failure), Jitter: jitter}})
	return err
}

// readDocument reads a tenant's record; found is false when there is none, which is no error.
func (s *System) readDocument(ctx context.Context, kind, workspace, id string, into any) (found bool, err error) {
	record, err := s.Record(ctx, kind, workspace, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := json.Unmarshal(record.Document, into); err != nil {
		return false, fmt.Errorf("record %s: %w", kind, err)
	}
	return true, nil
}

func attemptOf(began time.Time, took time.Duration, status int, failure string) webhook.Attempt {
	a := webhook.Attempt{At: decision.StampOf(began), DurationMs: took.Milliseconds()}
	if failure != "" {
		a.Error = &failure
	} else {
		a.StatusCode = &status
	}
	return a
}

// postOutcome is what an attempt is counted under: the failure, or the class of the status ("status_2xx").
func postOutcome(status int, failure string) string {
	if failure != "" {
		return failure
	}
	return "status_" + strconv.Itoa(status/100) + "xx"
}

func (s *System) jitter() (time.Duration, error) {
	var random [8]byte
	if _, err := io.ReadFull(s.entropy, random[:]); err != nil {
		return 0, fmt.Errorf("jitter: %w", err)
	}
	return time.Duration(binary.BigEndian.Uint64(random[:]) % uint64(webhook.MaxJitter)), nil
}
