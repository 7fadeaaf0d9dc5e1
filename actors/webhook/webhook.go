// Package webhook is one endpoint of a workspace that hears of what happens there: what it subscribes to, what is still to be
// delivered to it, and when the next try is. It is pure; an actor of the endpoint's id is the only one that folds its events.
//
// A delivery is tried at once, then after 5 s, 30 s, 2 min and 10 min, then hourly, for three days; then it has failed. Every
// attempt stands in the delivery's record, which can be replayed. Each delivery that is pending has a timer of its own: what a
// crash keeps from being recorded is tried again. So a receiver may see a delivery twice, always under the same id.
//
// URL and secret of an endpoint are in the record RecordEndpoint only, which is sealed where it is stored, for a URL may carry a
// token of the receiver's; the state and the events hold neither. The package signs nothing and sends nothing.
package webhook

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/decision"
)

// Kinds of events that an endpoint can subscribe to. Every endpoint gets the pings that are asked for it.
const (
	CheckoutCompleted = "checkout.session.completed"
	PingEvent         = "ping"
	AllEvents         = "*"
)

// States of an endpoint. Removed is for ever.
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

// Why a delivery has failed.
const (
	FailureGaveUp  = "gave_up"      // no try of the schedule is left
	FailureBacklog = "backlog_full" // MaxPending others were waiting: it was not tried
)

// Limits of an endpoint.
const (
	MaxPerWorkspace = 16 // active ones
	MaxURL          = 2048
	MaxSubscribed   = 16       // kinds of events
	MaxPending      = 500      // deliveries that are not through
	MaxBody         = 64 << 10 // bytes
	// MaxAttempts are kept of a delivery. It is not replayed when another run, of at most maxRun attempts, could pass it.
	MaxAttempts = 400
	maxRun      = 80
)

// The schedule of a run: the pauses after its first attempts, then the pause between all later ones, up to its end.
const (
	hourly     = time.Hour
	MaxJitter  = 6 * time.Minute // added to an hourly pause, at most
	runFor     = 72 * time.Hour
	resend     = time.Minute // an attempt of which nothing is heard is made again after this long
	replayOnce = time.Hour   // how long the claim on a run is held: past any race of two replays
)

// pauseAfter returns the pause after the nth attempt of a run.
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
	return hourly + jitter
}

// Kinds of records.
const (
	RecordEndpoint = "webhook_endpoint" // whe_ id → Endpoint, sealed; gone when the endpoint is removed
	RecordDelivery = "webhook_delivery" // whd_ id → Delivery; the parent is the endpoint
)

// Tally counts the active endpoints of a workspace.
const Tally = RecordEndpoint

// State is an endpoint. The zero State is one that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	State     string         `json:"state"`
	Events    []string       `json:"events"`
	Pending   []Pending      `json:"pending,omitempty"` // oldest first
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Pending is a delivery that is not through.
type Pending struct {
	Delivery string         `json:"delivery"`
	Attempts int            `json:"attempts"` // that its record has
	Run      int            `json:"run"`      // attempts of this run
	Due      decision.Stamp `json:"due"`
	Until    decision.Stamp `json:"until"` // no attempt is due after it
}

// Endpoint is what must be known to send to an endpoint, and what the interface shows of it.
type Endpoint struct {
	View
	Secret string `json:"secret"`
}

// View is an endpoint as the interface shows it.
type View struct {
	ID        string         `json:"id"`
	URL       string         `json:"url"`
	Events    []string       `json:"events"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Delivery is the record of one event on its way to one endpoint. Body is what is sent, to the byte; NextAttemptAt is set while
// the delivery is pending, Failure when it has failed.
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
	CreatedAt     decision.Stamp  `json:"createdAt"`
}

// Attempt is one try: the receiver's status, or what kept it from giving one.
type Attempt struct {
	At         decision.Stamp `json:"at"`
	StatusCode *int           `json:"statusCode"`
	Error      *string        `json:"error"`
	DurationMs int64          `json:"durationMs"`
}

// Delivered tells whether the receiver has taken it.
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
	CreatedAt     decision.Stamp  `json:"createdAt"`
}

// View shows the delivery.
func (d Delivery) View() DeliveryView {
	v := DeliveryView{ID: d.ID, EndpointID: d.EndpointID, Event: d.Event, Status: d.Status, Payload: json.RawMessage(d.Body),
		Attempts: append([]Attempt{}, d.Attempts...), NextAttemptAt: d.NextAttemptAt, CreatedAt: d.CreatedAt}
	if d.Failure != "" {
		v.Failure = &d.Failure
	}
	return v
}

// DueAt tells whether an attempt may be made at a time.
func (d Delivery) DueAt(now decision.Stamp) bool {
	return d.Status == StatusPending && !d.NextAttemptAt.After(now.Time)
}

// Register makes an endpoint. ID, Workspace and Secret are made by the caller, who has also judged where the URL leads. It
// answers View.
type Register struct {
	ID, Workspace, URL, Secret string
	Events                     []string
}

// Remove ends an endpoint: no attempt begins after it is answered. It answers true.
type Remove struct{}

// Enqueue has an event delivered, if the endpoint is active and subscribes to it; else nothing follows. ID is the delivery's;
// Body is JSON. When MaxPending others wait the delivery is recorded as failed. The caller's key makes it once for each event.
type Enqueue struct{ ID, Event, Body string }

// Ping has a ping delivered, whatever the endpoint subscribes to. It answers DeliveryView.
type Ping struct{ ID, Body string }

// Attempted says what came of an attempt. Delivery is the record as it was before; Jitter, at most MaxJitter, is added to an
// hourly pause.
type Attempted struct {
	Delivery Delivery
	Attempt  Attempt
	Jitter   time.Duration
}

// Replay begins a new run of a delivery that is through. Delivery is its record. It answers DeliveryView; one that is pending is
// answered as it stands.
type Replay struct{ Delivery Delivery }

// Due is the answer of a timer that fired: the attempt to make now.
type Due struct{ Workspace, Endpoint, Delivery string }

// Wants tells whether the endpoint is to hear of a kind of event.
func (s *State) Wants(event string) bool {
	return s.State == StateActive && (slices.Contains(s.Events, AllEvents) || slices.Contains(s.Events, event))
}
