package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Announcement is an event as the endpoints of a workspace receive it: the event type that they
// subscribe to, and the JSON body.
type Announcement struct{ Event, Body string }

// Announcements makes the announcement of each type of event that webhooks announce. It must make
// the same announcement of the same event each time. An error, for a damaged event, blocks the
// event's shard.
type Announcements map[string]func(e persistence.Event) (Announcement, error)

// WebhookAnnouncements is the table of the product. Pings need no row: an endpoint makes its own.
func WebhookAnnouncements() Announcements {
	return Announcements{checkout.SessionCredited{}.EventType(): announceCheckout}
}

// announceCheckout returns the announcement of a checkout link that is paid and credited. It fails
// only for a damaged event.
func announceCheckout(e persistence.Event) (Announcement, error) {
	event, err := checkout.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return Announcement{}, err
	}
	credited, ok := event.(checkout.SessionCredited)
	if !ok {
		return Announcement{}, fmt.Errorf("a credit is %T", event)
	}
	body, err := json.Marshal(struct {
		ID             string      `json:"id"`
		AmountUsdCents money.Cents `json:"amountUsdCents"`
		TxHash         string      `json:"txHash"`
		PayerAddress   string      `json:"payerAddress"`
	}{credited.ID, credited.AmountUsdCents, credited.TxHash, credited.PayerAddress})
	return Announcement{Event: webhook.CheckoutCompleted, Body: string(body)}, err
}

const (
	// announcerCursor names the announcer's cursors in the journal.
	announcerCursor = "consumer/webhooks"
	announceTimeout = 15 * time.Second // for one event
)

// announcer queues announcements at the endpoints that subscribe to them. A crash may set its
// cursor back; idempotency keys that derive from the event keep an event from being queued twice.
type announcer struct {
	runtime  Runtime
	journal  persistence.Journal
	listener Listener
	table    Announcements
}

// Announcer returns the consumer of the journal that queues webhooks. It is for one subscription,
// which the server makes at its start; a nil table announces nothing.
func (w *Webhooks) Announcer(table Announcements) consumer.Handler {
	return &announcer{w.runtime, w.journal, w.listener, table}
}

// Position implements consumer.Handler: it returns the announcer's stored cursor, and fails only
// when the journal cannot be read.
func (a *announcer) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	return a.journal.Cursor(ctx, announcerCursor, shard)
}

// Handle implements consumer.Handler: the subscription calls it with the next events of a shard.
// It stops at the first event that fails, saves the cursor after the events before it, and returns
// the error. It fails with ErrMoved for events that do not begin after the cursor, for a damaged
// event, and when the journal or an endpoint's actor does not answer.
func (a *announcer) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	at, err := a.Position(ctx, shard)
	if err != nil {
		return err
	}
	if at+1 != events[0].Position {
		return consumer.ErrMoved
	}
	start := at
	for i := range events {
		within, cancel := a.runtime.Within(ctx, announceTimeout)
		err = a.announce(within, &events[i])
		cancel()
		a.listener.Reacted("webhooks", err)
		if err != nil {
			break
		}
		at = events[i].Position
	}
	if at > start {
		if saved := a.journal.SaveCursor(ctx, announcerCursor, shard, at); err == nil {
			err = saved
		}
	}
	return err
}

// announce queues an event's announcement at each endpoint of the workspace. An event without a row
// in the table does nothing. It fails for a damaged event, and when an endpoint cannot be read or
// does not answer.
func (a *announcer) announce(ctx context.Context, e *persistence.Event) error {
	announcementOf, announced := a.table[e.Type]
	if !announced {
		return nil
	}
	announcement, err := announcementOf(*e)
	if err != nil {
		return fmt.Errorf("announce %s: %w", e.Type, err)
	}
	// The records only list the endpoints. Each endpoint decides by its state whether it
	// subscribes.
	endpoints, err := query.Endpoints.AsStored().List(ctx, a.runtime, e.Workspace, "",
		query.Page{Limit: webhook.MaxPerWorkspace})
	for i := range endpoints {
		if err == nil {
			err = a.enqueue(ctx, e, endpoints[i].ID, announcement)
		}
	}
	return err
}

// enqueue queues an announcement at one endpoint, whose actor drops it unless the endpoint
// subscribes to it. The idempotency key makes a repeat change nothing. It fails with the endpoint's
// error, such as unavailable.
func (a *announcer) enqueue(ctx context.Context, e *persistence.Event, endpoint string,
	announcement Announcement) error {
	slot, err := ident.SlotOf(endpoint)
	if err != nil {
		return fmt.Errorf("endpoint's record: %w", err)
	}
	cause := "webhook/" + e.ID + "/" + endpoint
	_, err = a.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWebhook, Stream: endpoint, Workspace: e.Workspace,
		Command: webhook.Enqueue{ID: ident.Derive(slot, e.At, cause).Format(ident.Delivery),
			Event: announcement.Event, Body: announcement.Body},
		Key: &actors.Key{Scope: "reaction", Key: cause, Expires: a.runtime.Clock().Add(reactionKeyLife)}})
	return err
}
