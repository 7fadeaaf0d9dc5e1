package balance

import (
	"purser/actors/decision"
	"purser/persistence/money"
)

// Record kinds of the ramp.
const (
	RecordRampQuote   = "ramp_quote"   // rq_ id → RampQuote
	RecordRampOrder   = "ramp_order"   // ro_ or, of a withdrawal, rw_ id → RampOrder; listed
	RecordRampSession = "ramp_session" // rs_ id → RampSession; listed by its direction
)

// RampQuoted says that a quote for a ramp order was given.
type RampQuoted struct {
	Workspace string    `json:"workspace"`
	Quote     RampQuote `json:"quote"`
}

// RampOrdered says that a quote was used and its amount was debited to the ramp's account.
type RampOrdered struct {
	Workspace string    `json:"workspace"`
	Order     RampOrder `json:"order"`
	Postings  []Posting `json:"postings"`
}

// RampMoved says that an order changed its status. Its postings credit the proceeds, or give the
// amount back.
type RampMoved struct {
	Workspace   string         `json:"workspace"`
	Order       string         `json:"order"`
	Direction   string         `json:"direction"`
	From        string         `json:"from"`
	To          string         `json:"to"`
	AmountCents money.Cents    `json:"amountCents"`
	FeeCents    money.Cents    `json:"feeCents"`
	TxHash      string         `json:"txHash,omitempty"`
	EventID     string         `json:"eventId,omitempty"` // the partner's, when it reported the move
	Postings    []Posting      `json:"postings"`
	At          decision.Stamp `json:"at"`
}

// RampSessionImported says that an order of the retired routes was imported. Only the record has
// HostedURL.
type RampSessionImported struct {
	Workspace string         `json:"workspace"`
	Session   RampSession    `json:"session"`
	At        decision.Stamp `json:"at"`
}

// RampSessionMoved says that the partner reported an outcome of an imported session. Its postings
// are the credit.
type RampSessionMoved struct {
	Workspace   string         `json:"workspace"`
	Session     string         `json:"session"`
	Direction   string         `json:"direction"`
	From        string         `json:"from"`
	To          string         `json:"to"`
	AmountCents money.Cents    `json:"amountCents"`
	EventID     string         `json:"eventId"` // the partner's
	Postings    []Posting      `json:"postings"`
	At          decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (RampQuoted) EventType() string { return "balance.ramp_quoted.v1" }

// EventType is the name the event is stored under.
func (RampOrdered) EventType() string { return "balance.ramp_ordered.v1" }

// EventType is the name the event is stored under.
func (RampMoved) EventType() string { return "balance.ramp_moved.v1" }

// EventType is the name the event is stored under.
func (RampSessionImported) EventType() string { return "balance.ramp_session_imported.v1" }

// EventType is the name the event is stored under.
func (RampSessionMoved) EventType() string { return "balance.ramp_session_moved.v1" }
