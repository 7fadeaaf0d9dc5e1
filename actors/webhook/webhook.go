// Package webhook is one webhook endpoint of a workspace: its subscription, its pending deliveries,
// and the time of each next attempt. It is pure; the actor of the endpoint's id alone folds its
// events.
//
// The first attempt of a delivery is made at once, the next after 5 s, 30 s, 2 min and 10 min, and
// then hourly. After three days the delivery has failed. The record of a delivery holds every
// attempt, and a finished delivery can be replayed. Each pending delivery has a timer of its own,
// so an attempt whose result a crash lost is made again. A receiver may therefore get a delivery
// twice, always under the same id.
//
// The record RecordEndpoint alone has the URL and the secret of an endpoint, because a URL may
// carry a token of the receiver. That record is sealed where it is stored; state and events hold
// neither. The package signs nothing and sends nothing.
package webhook

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/decision"
)

// Kinds of events that an endpoint can subscribe to. Every endpoint gets the pings requested for
// it.
const (
	CheckoutCompleted = "checkout.session.completed"
	PingEvent         = "ping"
	AllEvents         = "*"
)

// States of an endpoint. StateRemoved is final.
const (
	StateActive  = "active"
	StateRemoved = "removed"
)

// States of a delivery.
const (
	StatusPending   = "pending"
	StatusDelivered = "delivered"
	StatusFailed    = "failed"
)

// Reasons for which a delivery fails.
const (
	FailureGaveUp  = "gave_up"      // the run ended without an accepted attempt
	FailureBacklog = "backlog_full" // MaxPending deliveries were pending; no attempt was made
)

// Limits of an endpoint.
const (
	MaxPerWorkspace = 16 // active endpoints
	MaxURL          = 2048
	MaxSubscribed   = 16       // kinds of events
	MaxPending      = 500      // pending deliveries
	MaxBody         = 64 << 10 // bytes
	// MaxAttempts bounds the stored attempts of a delivery. A replay is refused when its run, of at
	// most maxRunAttempts, could exceed it.
	MaxAttempts    = 400
	maxRunAttempts = 80
)

// The schedule of a run: the pauses after its first attempts, then the pause between all later
// ones, up to its end.
const (
	retryInterval       = time.Hour
	MaxJitter           = 6 * time.Minute // the most that is added to an hourly pause
	runDuration         = 72 * time.Hour
	resendAfter         = time.Minute // an attempt without a reported result is made again after this long
	replayClaimLifetime = time.Hour   // of the once-key by which only one of two concurrent replays starts a run
)

// pauseAfter returns the pause after the nth attempt of a run, from 5 seconds to an hour and
// jitter.
func pauseAfter(n int, jitter time.Duration) time.Duration {
	switch n {
	case 1:
		return 5 * time.Second
	case 2:
		return 30 * time.Second
	case 3:
		return 2 * time.Minute
	case 4:
		return 10 * time.Minute
	}
	return retryInterval + jitter
}

// Kinds of records.
const (
	RecordEndpoint = "webhook_endpoint" // whe_ id → Endpoint, sealed; deleted with the endpoint
	RecordDelivery = "webhook_delivery" // whd_ id → Delivery; the parent is the endpoint
)

// Tally counts a workspace's active endpoints.
const Tally = RecordEndpoint

// State is an endpoint. The zero State is an endpoint that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	State     string         `json:"state"`
	Events    []string       `json:"events"`
	Pending   []Pending      `json:"pending,omitempty"` // oldest first
	CreatedAt decision.Stamp `json:"createdAt"`
	CreatedBy string         `json:"createdBy"` // usr_ id
}

// Pending is a delivery that has neither succeeded nor failed.
type Pending struct {
	Delivery string         `json:"delivery"`
	Attempts int            `json:"attempts"` // attempts in its record
	Run      int            `json:"run"`      // attempts of this run
	Due      decision.Stamp `json:"due"`
	Until    decision.Stamp `json:"until"` // no attempt is due after it
}

// Endpoint is the sealed record of an endpoint: its view and its signing secret.
type Endpoint struct {
	View
	Secret string `json:"secret"`
}

// View is an endpoint as the interface shows it.
type View struct {
	ID        string         `json:"id"`
	URL       string         `json:"url"`
	Events    []string       `json:"events"`
	CreatedBy string         `json:"createdBy"` // usr_ id
	CreatedAt decision.Stamp `json:"createdAt"`
}

// MadeBy reports whether a user made or adopted the endpoint.
func (v View) MadeBy(user string) bool { return v.CreatedBy == user }

// Delivery is the record of one event on its way to one endpoint. Body is sent byte for byte.
// NextAttemptAt is set while the delivery is pending, Failure once it has failed. GivesUpAt is the
// end of the run of a pending delivery, after which no attempt is due; a record of an earlier build
// has none before its next attempt.
type Delivery struct {
	ID            string          `json:"id"`
	EndpointID    string          `json:"endpointId"`
	Event         string          `json:"event"`
	Status        string          `json:"status"`
	Failure       string          `json:"failure,omitempty"`
	Body          string          `json:"body"`
	Attempts      []Attempt       `json:"attempts"`
	Runs          int             `json:"runs"`
	NextAttemptAt *decision.Stamp `json:"nextAttemptAt"`
	GivesUpAt     *decision.Stamp `json:"givesUpAt,omitempty"`
	CreatedAt     decision.Stamp  `json:"createdAt"`
}

// Attempt is one request to the receiver: its status, or the error that prevented one.
type Attempt struct {
	At         decision.Stamp `json:"at"`
	StatusCode *int           `json:"statusCode"`
	Error      *string        `json:"error"`
	DurationMs int64          `json:"durationMs"`
}

// Delivered reports whether the receiver answered with a 2xx status.
func (a Attempt) Delivered() bool {
	return a.StatusCode != nil && *a.StatusCode >= 200 && *a.StatusCode <= 299
}

// DeliveryView is a delivery as the interface shows it.
type DeliveryView struct {
	ID            string          `json:"id"`
	EndpointID    string          `json:"endpointId"`
	Event         string          `json:"event"`
	Status        string          `json:"status"`
	Failure       *string         `json:"failure"`
	Payload       json.RawMessage `json:"payload"`
	Attempts      []Attempt       `json:"attempts"`
	NextAttemptAt *decision.Stamp `json:"nextAttemptAt"`
	GivesUpAt     *decision.Stamp `json:"givesUpAt"`
	CreatedAt     decision.Stamp  `json:"createdAt"`
}

// View returns the delivery as the interface shows it. The decisions reply it, and the routes of
// deliveries show it.
func (d Delivery) View() DeliveryView {
	v := DeliveryView{ID: d.ID, EndpointID: d.EndpointID, Event: d.Event, Status: d.Status,
		Payload:  json.RawMessage(d.Body),
		Attempts: append([]Attempt{}, d.Attempts...), NextAttemptAt: d.NextAttemptAt, GivesUpAt: d.GivesUpAt,
		CreatedAt: d.CreatedAt}
	if d.Failure != "" {
		v.Failure = &d.Failure
	}
	return v
}

// DueAt reports whether an attempt may be made now.
func (d Delivery) DueAt(now decision.Stamp) bool {
	return d.Status == StatusPending && !d.NextAttemptAt.After(now.Time)
}

// Register creates an endpoint. The caller makes ID, Workspace and Secret and has checked the
// target of the URL. The reply is a View.
type Register struct {
	ID, Workspace, URL, Secret string
	Events                     []string
	By                         string // usr_ id of the maker
}

// Adopt makes an endpoint another member's. Endpoint is its record. The reply is true.
type Adopt struct {
	Endpoint Endpoint
	By       string // usr_ id
}

// Remove ends an endpoint; no attempt begins after the reply. The reply is true.
type Remove struct{}

// Enqueue queues an event if the endpoint is active and subscribes to it, and else does nothing.
// ID is the delivery's; Body is JSON. With MaxPending deliveries pending, the new one is
// recorded as failed. The caller sends it with an idempotency key of the event, so that a repeat
// has no effect.
type Enqueue struct{ ID, Event, Body string }

// Ping queues a ping regardless of the subscription. The reply is a DeliveryView.
type Ping struct{ ID, Body string }

// Attempted reports the result of an attempt. Delivery is the record from before it. Jitter, at
// most MaxJitter, is added to an hourly pause.
type Attempted struct {
	Delivery Delivery
	Attempt  Attempt
	Jitter   time.Duration
}

// Replay starts a new run of a finished delivery, given its record. The reply is a DeliveryView.
// Replaying a pending delivery changes nothing.
type Replay struct{ Delivery Delivery }

// Due is the reply to a timer that fired: the attempt to make now.
type Due struct{ Workspace, Endpoint, Delivery string }

// Subscribes reports whether the endpoint is active and gets events of a kind.
func (s *State) Subscribes(event string) bool {
	return s.State == StateActive && (slices.Contains(s.Events, AllEvents) || slices.Contains(s.Events, event))
}
