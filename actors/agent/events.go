package agent

import (
	"crypto/ed25519"
	"purser/actors/decision"
)

// Registered says that an agent acts for the workspace, and with which key.
type Registered struct {
	Agent        string            `json:"agent"`
	Workspace    string            `json:"workspace"`
	AgentName    string            `json:"agentName"`
	Description  string            `json:"description"`
	Protocols    []string          `json:"protocols"`
	PublicKeyPem string            `json:"publicKeyPem"`
	PublicKey    ed25519.PublicKey `json:"publicKey"`
	KeyID        string            `json:"keyId"`
	At           decision.Stamp    `json:"at"`
}

// Moved is what the events of an agent's state have in common.
type Moved struct {
	Agent     string         `json:"agent"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Frozen says that the agent may do nothing until it is unfrozen.
type Frozen struct{ Moved }

// Unfrozen says that the agent is active again.
type Unfrozen struct{ Moved }

// Terminated says that the agent has ended, for ever.
type Terminated struct{ Moved }

// IntentAccepted says that an intent was found good, as the agent's submission of that number. Cents are of the currency.
type IntentAccepted struct {
	Agent     string         `json:"agent"`
	Workspace string         `json:"workspace"`
	LogID     string         `json:"logId"`
	Number    int64          `json:"number"`
	IntentID  string         `json:"intentId"`
	Currency  string         `json:"currency"`
	Cents     int64          `json:"cents"`
	Protocol  string         `json:"protocol"`
	At        decision.Stamp `json:"at"`
}

// IntentRefused says that a submission was refused, and why. What it said is in the log only: it may be anything.
type IntentRefused struct {
	Agent     string         `json:"agent"`
	Workspace string         `json:"workspace"`
	LogID     string         `json:"logId"`
	Number    int64          `json:"number"`
	Reason    string         `json:"reason"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Registered) EventType() string { return "agent.registered.v1" }

// EventType is the name the event is stored under.
func (Frozen) EventType() string { return "agent.frozen.v1" }

// EventType is the name the event is stored under.
func (Unfrozen) EventType() string { return "agent.unfrozen.v1" }

// EventType is the name the event is stored under.
func (Terminated) EventType() string { return "agent.terminated.v1" }

// EventType is the name the event is stored under.
func (IntentAccepted) EventType() string { return "agent.intent_accepted.v1" }

// EventType is the name the event is stored under.
func (IntentRefused) EventType() string { return "agent.intent_refused.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("agent", Registered{}, Frozen{}, Unfrozen{}, Terminated{}, IntentAccepted{}, IntentRefused{})

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}
