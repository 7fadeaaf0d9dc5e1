package agent

import (
	"crypto/ed25519"
	"purser/actors/decision"
)

// Registered records an agent of the workspace and its key.
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

// Moved is the common part of the events that change an agent's state.
type Moved struct {
	Agent     string         `json:"agent"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Frozen records that the agent's intents are refused until it is unfrozen.
type Frozen struct{ Moved }

// Unfrozen records that the agent is active again.
type Unfrozen struct{ Moved }

// Terminated records the final end of the agent.
type Terminated struct{ Moved }

// IntentAccepted records an accepted intent; Number counts the agent's submissions. Cents are
// hundredths of Currency.
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

// IntentRefused records a refused submission and the reason. The submitted text is in the log only,
// because it may hold anything.
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
