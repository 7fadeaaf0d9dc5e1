package webhook

import (
	"fmt"
	"slices"

	"purser/actors/decision"
)

// Registered records a new endpoint. Events hold neither its URL nor its secret.
type Registered struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Events    []string       `json:"events"`
	By        string         `json:"by"` // usr_ id of the maker
	At        decision.Stamp `json:"at"`
}

// Removed records the end of an endpoint; its pending deliveries are dropped.
type Removed struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Adopted records that a kept endpoint, whose maker lost the right to it, became another member's.
type Adopted struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	By        string         `json:"by"` // usr_ id
	At        decision.Stamp `json:"at"`
}

// Queued records a delivery whose attempts are due from Due to Until.
type Queued struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Event     string         `json:"event"`
	Due       decision.Stamp `json:"due"`
	Until     decision.Stamp `json:"until"`
	At        decision.Stamp `json:"at"`
}

// Dropped records a delivery that failed without an attempt because MaxPending were pending.
type Dropped struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Event     string         `json:"event"`
	At        decision.Stamp `json:"at"`
}

// Postponed records a failed attempt and the time of the next.
type Postponed struct {
	Delivery  string         `json:"delivery"`
	Workspace string         `json:"workspace"`
	Attempt   Attempt        `json:"attempt"`
	Due       decision.Stamp `json:"due"`
}

// Succeeded records the attempt that the receiver accepted.
type Succeeded struct {
	Delivery  string  `json:"delivery"`
	Workspace string  `json:"workspace"`
	Attempt   Attempt `json:"attempt"`
}

// Failed records the failure of the last attempt of a run.
type Failed struct {
	Delivery  string  `json:"delivery"`
	Workspace string  `json:"workspace"`
	Attempt   Attempt `json:"attempt"`
}

// Replayed records the start of another run of a finished delivery. Attempts counts the earlier
// ones.
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
func (Adopted) EventType() string { return "webhook.adopted.v1" }

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

// Apply folds an event into the state. The actor of the endpoint calls it for each event that it
// decides; it loads the state from its record, not from events. It panics for an unknown event, and
// for an attempt of a delivery that is not pending.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Registered:
		*s = State{ID: e.ID, Workspace: e.Workspace, State: StateActive, Events: e.Events, CreatedAt: e.At,
			CreatedBy: e.By}
	case Adopted:
		s.CreatedBy = e.By
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
		s.removePending(e.Delivery)
	case Failed:
		s.removePending(e.Delivery)
	default:
		panic(fmt.Sprintf("BUG: webhook event %T", e))
	}
}

func (s *State) removePending(delivery string) {
	i := s.indexOf(delivery)
	s.Pending = slices.Delete(s.Pending, i, i+1)
}
