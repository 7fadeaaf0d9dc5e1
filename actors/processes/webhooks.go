package processes

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"time"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fairshare"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/ident"
)

// Poster sends to a receiver; httpapi/webhook.Sender implements it.
type Poster interface {
	// Post sends the body of an event to the URL under the delivery's id, signed with the secret at
	// a time. It returns the receiver's status, or a short word such as "timeout" for the failure
	// that kept the receiver from answering. It returns within a few seconds, or when the context
	// ends.
	Post(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (status int, failure string)
}

// Limits of sending webhooks.
const (
	maxSending = 512 // attempts in flight, at most one to an endpoint
	// maxWorkspaceSending of them are one workspace's: one for each endpoint that it may have.
	maxWorkspaceSending = webhook.MaxPerWorkspace
	sendTimeout         = 30 * time.Second // for an attempt, from reading the delivery to recording its outcome
)

// Webhooks sends deliveries to receivers, and queues announcements for them.
type Webhooks struct {
	runtime  Runtime
	journal  persistence.Journal
	poster   Poster // nil: deliveries stay pending
	entropy  io.Reader
	listener Listener
	attempts *dispatcher[webhook.Due]
}

func newWebhooks(runtime Runtime, c *Config) *Webhooks {
	w := &Webhooks{runtime: runtime, journal: c.Journal, poster: c.Poster, entropy: c.Entropy, listener: c.Listener}
	w.attempts = newDispatcher(runtime, fairshare.New(c.webhookCalls(), maxWorkspaceSending), w.deliver,
		func(d webhook.Due) (line, workspace string) { return d.Endpoint, d.Workspace })
	return w
}

// handleTimer starts the attempt that an endpoint's answer to its timer asks for, if it asks for
// one. It never blocks.
func (w *Webhooks) handleTimer(_ string, reply any) {
	if due, is := reply.(webhook.Due); is && w.poster != nil {
		w.attempts.offer(due)
	}
}

// deliver makes one attempt within sendTimeout and logs its failure. The dispatcher calls it; the
// endpoint's timer fires again for an attempt without a record.
func (w *Webhooks) deliver(ctx context.Context, due webhook.Due) {
	within, cancel := w.runtime.Within(ctx, sendTimeout)
	defer cancel()
	if err := w.attempt(within, due); err != nil && ctx.Err() == nil {
		w.runtime.Complain("webhook attempt", err)
	}
}

// attempt sends a delivery once and records the outcome. An answer of the receiver, also a bad one,
// is no error. It fails when a record or actor does not answer, or the context ends. It reads the
// endpoint and the role of its maker last, so that no attempt begins after the endpoint's removal,
// or after its maker left.
func (w *Webhooks) attempt(ctx context.Context, due webhook.Due) error {
	delivery, err := query.Deliveries.Read(ctx, w.runtime, due.Workspace, due.Delivery)
	if err != nil {
		return exceptNotFound(err)
	}
	began := w.runtime.Clock()
	if !delivery.DueAt(decision.StampOf(began)) {
		return nil
	}
	endpoint, err := query.Endpoints.Read(ctx, w.runtime, due.Workspace, due.Endpoint)
	if err != nil {
		return exceptNotFound(err)
	}
	if may, err := w.mayReceive(ctx, due.Workspace, endpoint.View); !may {
		return err
	}
	status, failure := w.poster.Post(ctx, endpoint.URL, endpoint.Secret, delivery.ID, delivery.Event,
		w.runtime.WallTime(), []byte(delivery.Body))
	if ctx.Err() != nil {
		return ctx.Err() // the outcome says nothing about the receiver
	}
	took := w.runtime.Clock().Sub(began)
	w.listener.Posted(outcomeName(status, failure), took)
	jitter, err := w.drawJitter()
	if err != nil {
		return err
	}
	_, err = w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWebhook, Stream: due.Endpoint,
		Workspace: due.Workspace,
		Command: webhook.Attempted{Delivery: delivery, Attempt: attemptOf(began, took, status, failure),
			Jitter: jitter}})
	return err
}

// exceptNotFound returns the error, but nil for not_found: an endpoint or delivery that has ended
// needs nothing more.
func exceptNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// attemptOf returns the record of a delivery attempt: its failure when there was no answer, and
// else the answer's HTTP status.
func attemptOf(began time.Time, took time.Duration, status int, failure string) webhook.Attempt {
	a := webhook.Attempt{At: decision.StampOf(began), DurationMs: took.Milliseconds()}
	if failure != "" {
		a.Error = &failure
	} else {
		a.StatusCode = &status
	}
	return a
}

// outcomeName returns the label under which an attempt is counted: the failure, or the class of the
// status ("status_2xx").
func outcomeName(status int, failure string) string {
	if failure != "" {
		return failure
	}
	return "status_" + strconv.Itoa(status/100) + "xx"
}

func (w *Webhooks) drawJitter() (time.Duration, error) {
	var random [8]byte
	if _, err := io.ReadFull(w.entropy, random[:]); err != nil {
		return 0, fmt.Errorf("jitter: %w", err)
	}
	return time.Duration(binary.BigEndian.Uint64(random[:]) % uint64(webhook.MaxJitter)), nil
}

// countDeliveries reports to the listener how many deliveries are pending. A failed read is logged,
// and nothing is reported.
func (w *Webhooks) countDeliveries(ctx context.Context) {
	pending := 0
	for shard := range ident.Shards {
		n, err := w.pendingIn(ctx, ident.Shard(shard))
		if err != nil {
			if ctx.Err() == nil {
				w.runtime.Complain("count of deliveries", err, "shard", ident.Shard(shard))
			}
			return
		}
		pending += n
	}
	w.listener.Deliveries(pending)
}

// pendingIn returns the number of pending deliveries in a shard. It fails when a record cannot be
// read or decoded.
func (w *Webhooks) pendingIn(ctx context.Context, shard ident.Shard) (pending int, err error) {
	for after := ""; ; {
		records, err := w.journal.Records(ctx, shard, actors.KindWebhook, after, persistence.MaxPage)
		if err != nil {
			return 0, err
		}
		for i := range records {
			state, err := query.EndpointStates.Decode(records[i].Document)
			if err != nil {
				return 0, err
			}
			pending, after = pending+len(state.Pending), records[i].ID
		}
		if len(records) < persistence.MaxPage {
			return pending, nil
		}
	}
}
