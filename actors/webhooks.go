package actors

import (
	"context"
	"encoding/json"
	"fmt"

	"purser/actors/checkout"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/ident"
)

// Announcement is what the endpoints of a workspace are told of an event: the kind they subscribe to, and the JSON that is sent.
type Announcement struct{ Event, Body string }

// Announcements says of which events webhooks tell, by the events' types. An announcement must be the same for the same event,
// and can not fail but for an event that is damaged: its shard waits until it succeeds.
type Announcements map[string]func(e persistence.Event) (Announcement, error)

// WebhookAnnouncements is the table of the product. Pings need no row: they are asked for at the endpoint.
func WebhookAnnouncements() Announcements {
	return Announcements{checkout.SessionCredited{}.EventType(): announceCheckout}
}

// announcer queues what is announced at the endpoints that are to hear it. Its place is a cursor of the journal, which a crash
// may set back; that an event is queued once is kept by once-keys that derive from it.
type announcer struct {
	sys   *System
	table Announcements
}

// announcerCursor names the announcer's place in the journal.
const announcerCursor = "consumer/webhooks"

// Announcer is the consumer that tells webhooks. It is for one subscription; a nil table announces nothing.
func (s *System) Announcer(table Announcements) persistence.Handler { return &announcer{s, table} }

// Position implements persistence.Handler.
func (a *announcer) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	return a.sys.journal.Cursor(ctx, announcerCursor, shard)
}

// Handle implements persistence.Handler. What it has done before an error is kept.
func (a *announcer) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	at, err := a.Position(ctx, shard)
	if err != nil {
		return err
	}
	if at+1 != events[0].Position {
		return persistence.ErrMoved
	}
	start := at
	for i := range events {
		within, cancel := context.WithTimeout(ctx, reactTimeout)
		err = a.announce(within, &events[i])
		cancel()
		a.sys.listener.Reacted("webhooks", err)
		if err != nil {
			break
		}
		at = events[i].Position
	}
	if at > start {
		if saved := a.sys.journal.SaveCursor(ctx, announcerCursor, shard, at); err == nil {
			err = saved
		}
	}
	return err
}

func (a *announcer) announce(ctx context.Context, e *persistence.Event) error {
	announcement, announced := a.table[e.Type]
	if !announced {
		return nil
	}
	told, err := announcement(*e)
	if err != nil {
		return fmt.Errorf("announce %s: %w", e.Type, err)
	}
	// An endpoint's state says what it subscribes to; it decides, and the records say only which endpoints there are.
	endpoints, err := a.sys.List(ctx, webhook.RecordEndpoint, e.Workspace, "", persistence.Page{Limit: webhook.MaxPerWorkspace})
	for i := range endpoints {
		if err == nil {
			err = a.enqueue(ctx, e, endpoints[i].ID, told)
		}
	}
	return err
}

func (a *announcer) enqueue(ctx context.Context, e *persistence.Event, endpoint string, told Announcement) error {
	slot, err := ident.SlotOf(endpoint)
	if err != nil {
		return fmt.Errorf("endpoint's record: %w", err)
	}
	cause := "webhook/" + e.ID + "/" + endpoint
	_, err = a.sys.Ask(ctx, Envelope{Kind: "webhook", Stream: endpoint, Workspace: e.Workspace,
		Command: webhook.Enqueue{ID: ident.Derive(slot, e.At, cause).Format(ident.Delivery), Event: told.Event, Body: told.Body},
		Key:     &Key{Scope: "reaction", Key: cause, Expires: a.sys.clock().Add(reactionKeyLife)}})
	return err
}

// countDeliveries tells the listener how many deliveries are pending.
func (s *System) countDeliveries(ctx context.Context) {
	pending := 0
	for _, sh := range s.shards {
		n, err := s.deliveriesOf(ctx, sh)
		if err != nil {
			if ctx.Err() == nil {
				s.Complain("count of deliveries", err, "shard", sh.id)
			}
			return
		}
		pending += n
	}
	s.listener.Deliveries(pending)
}

func (s *System) deliveriesOf(ctx context.Context, sh *shard) (pending int, err error) {
	for after := ""; ; {
		records, err := s.journal.Records(ctx, sh.id, "webhook", after, persistence.MaxPage)
		if err != nil {
			return 0, err
		}
		for i := range records {
			var state webhook.State
			if err := json.Unmarshal(records[i].Document, &state); err != nil {
				return 0, fmt.Errorf("endpoint's state: %w", err)
			}
			pending, after = pending+len(state.Pending), records[i].ID
		}
		if len(records) < persistence.MaxPage {
			return pending, nil
		}
	}
}

// announceCheckout is what endpoints are sent of a link that is paid and credited.
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
		ID             string `json:"id"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		TxHash         string `json:"txHash"`
		PayerAddress   string `json:"payerAddress"`
	}{credited.ID, credited.AmountUsdCents, credited.TxHash, credited.PayerAddress})
	return Announcement{Event: webhook.CheckoutCompleted, Body: string(body)}, err
}
