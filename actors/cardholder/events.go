package cardholder

import (
	"purser/actors/decision"
)

// Created records a new cardholder. Events hold no personal data.
type Created struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	At        decision.Stamp `json:"at"`
}

// Enrolled records that the issuing partner accepted the person: cards can be issued.
type Enrolled struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Account   string         `json:"account"`
	At        decision.Stamp `json:"at"`
}

// Rejected records that the issuing partner rejected the person.
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

// catalog has every version of every event.
var catalog = decision.NewCatalog("cardholder", Created{}, Enrolled{}, Rejected{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type and for a payload that does not decode. No process of the server reads these events
// back; the tests of the stored form call it.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}
