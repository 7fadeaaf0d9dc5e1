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
