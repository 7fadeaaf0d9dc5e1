package cardholder

import (
	"fmt"

	"purser/actors/decision"
)

// Created says that a cardholder was saved. Who the person is, no event says.
type Created struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	At        decision.Stamp `json:"at"`
}

// Enrolled says that the issuing partner has taken the person on: cards can be issued under the cardholder.
type Enrolled struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Account   string         `json:"account"`
	At        decision.Stamp `json:"at"`
}

// Rejected says that the issuing partner will not take the person on.
type Rejected struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Created) EventType() string { return "cardholder.created.v1" }

// EventType is the name the event is stored under.
func (Enrolled) EventType() string { return "cardholder.enrolled.v1" }

// EventType is the name the event is stored under.
func (Rejected) EventType() string { return "cardholder.rejected.v1" }

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	switch eventType {
	case Created{}.EventType():
		return decision.Decode[Created](payload)
	case Enrolled{}.EventType():
		return decision.Decode[Enrolled](payload)
	case Rejected{}.EventType():
		return decision.Decode[Rejected](payload)
	}
	return nil, fmt.Errorf("cardholder: %w %q", decision.ErrUnknownEvent, eventType)
}
