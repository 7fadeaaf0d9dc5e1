package counterparty

import (
	"purser/actors/decision"
	"purser/persistence/money"
)

// Saved records a new recipient. Events hold no personal data.
type Saved struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	Currency  money.Currency `json:"currency"`
	Country   string         `json:"country"`
	At        decision.Stamp `json:"at"`
}

// Tokenized records the bank's token for the account.
type Tokenized struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Token     string         `json:"token"`
	At        decision.Stamp `json:"at"`
}

// Refused records that the bank refuses payouts to the account.
type Refused struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Removed records that the recipient is no longer listed.
type Removed struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Saved) EventType() string { return "counterparty.saved.v1" }

// EventType is the name the event is stored under.
func (Tokenized) EventType() string { return "counterparty.tokenized.v1" }

// EventType is the name the event is stored under.
func (Refused) EventType() string { return "counterparty.refused.v1" }

// EventType is the name the event is stored under.
func (Removed) EventType() string { return "counterparty.removed.v1" }
