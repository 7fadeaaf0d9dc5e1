package webhook

import (
	"fmt"
	"slices"

	"purser/actors/decision"
)

// Registered says that an endpoint was made. Where it leads and how it signs, no event says.
type Registered struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Events    []string       `json:"events"`
	At        decision.Stamp `json:"at"`
}

// Removed says that the endpoint gets nothing more; what was pending is dropped.
type Removed struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Queued says that a delivery is to be tried from Due on, and never after Until.
type Queued struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Event     string         `json:"event"`
	Due       decision.Stamp `json:"due"`
	Until     decision.Stamp `json:"until"`
	At        decision.Stamp `json:"at"`
}

// Dropped says that a delivery found no room and was not tried.
type Dropped struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Event     string         `json:"event"`
	At        decision.Stamp `json:"at"`
}

// Postponed says that an attempt failed and when the next is due.
type Postponed struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Attempt   Attempt        `json:"attempt"`
	Due       decision.Stamp `json:"due"`
}

// Succeeded says that the receiver has taken the delivery.
type Succeeded struct {
	Delivery  string  `json:"delivery"`
	Workspace string  `json:"workspace"`
	Attempt   Attempt `json:"attempt"`
}

// Failed says that the last attempt of the run failed too.
type Failed struct {
	Delivery  string  `json:"delivery"`
	Workspace string  `json:"workspace"`
	Attempt   Attempt `json:"attempt"`
}

// Replayed says that a delivery that was through begins a new run. Attempts is how many were made before.
type Replayed struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Attempts  int            `json:"attempts"`
	Due       decision.Stamp `json:"due"`
	Until     decision.Stamp `json:"until"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Registered) EventType() string { return "webhook.registered.v1" }

// EventType is the name the event is stored under.
func (Removed) EventType() string { return "webhook.removed.v1" }

// EventType is the name the event is stored under.
func (Queued) EventType() string { return "webhook.delivery_queued.v1" }

// EventType is the name the event is stored under.
func (Dropped) EventType() string { return "webhook.delivery_dropped.v1" }

// EventType is the name the event is stored under.
func (Postponed) EventType() string { return "webhook.delivery_postponed.v1" }

// EventType is the name the event is stored under.
func (Succeeded) EventType() string { return "webhook.delivery_succeeded.v1" }

// EventType is the name the event is stored under.
func (Failed) EventType() string { return "webhook.delivery_failed.v1" }

// EventType is the name the event is stored under.
func (Replayed) EventType() string { return "webhook.delivery_replayed.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("webhook", Registered{}, Removed{}, Queued{}, Dropped{}, Postponed{}, Succeeded{}, Failed{},
	Replayed{})

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}

// Apply folds an event.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Registered:
		*s = State{ID: e.ID, Workspace: e.Workspace, State: StateActive, Events: e.Events, CreatedAt: e.At}
	case Removed:
		s.State, s.Pending = StateRemoved, nil
	case Queued:
		s.Pending = append(s.Pending, Pending{Delivery: e.Delivery, Due: e.Due, Until: e.Until})
	case Replayed:
		s.Pending = append(s.Pending, Pending{Delivery: e.Delivery, Attempts: e.Attempts, Due: e.Due, Until: e.Until})
	case Dropped:
	case Postponed:
		p := &s.Pending[s.indexOf(e.Delivery)]
		p.Attempts, p.Run, p.Due = p.Attempts+1, p.Run+1, e.Due
	case Succeeded:
		s.end(e.Delivery)
	case Failed:
		s.end(e.Delivery)
	default:
		panic(fmt.Sprintf("BUG: webhook event %T", e))
	}
}

func (s *State) end(delivery string) {
	i := s.indexOf(delivery)
	s.Pending = slices.Delete(s.Pending, i, i+1)
}
