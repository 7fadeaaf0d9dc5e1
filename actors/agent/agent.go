// Package agent is an AI agent that acts for a workspace: its key, its state, and the log of the payment intents it submitted. It
// is pure; an actor of the agent's id is the only one that folds its events.
//
// An intent is judged (State.Judge) outside the actor, against the state that the actor last committed, and then either accepted
// or refused by a command: both go into the log. The actor looks once more at what may have changed in between, the agent's
// state. That an intent's id was not accepted before is the claim of the Accept command and not known here.
package agent

import (
	"crypto/ed25519"
	"slices"
	"strconv"

	"purser/actors/agent/intent"
	"purser/actors/decision"
)

// States of an agent. Terminated is for ever.
const (
	StateActive     = "active"
	StateFrozen     = "frozen"
	StateTerminated = "terminated"
)

// Limits of an agent's fields, and of a workspace.
const (
	MaxName        = 80  // characters
	MaxDescription = 200 // characters
	MinPEM         = 50  // characters
	MaxPEM         = intent.MaxPEM
	// MaxPerWorkspace counts terminated agents too.
	MaxPerWorkspace = 10_000
	// MaxLog is how many submissions an agent's log keeps; one more removes the oldest.
	MaxLog = 10_000
)

// RecordIntent is the kind of the records of an agent's log: the agent is their parent, the document is a LogEntry.
const RecordIntent = "agent_intent"

// State is an agent. The zero State is an agent that does not exist.
type State struct {
	ID           string            `json:"id"`
	Workspace    string            `json:"workspace"`
	AgentName    string            `json:"agentName"`
	Description  string            `json:"description"`
	Protocols    []string          `json:"protocols"`
	State        string            `json:"state"`
	PublicKeyPem string            `json:"publicKeyPem"` // as it was given
	PublicKey    ed25519.PublicKey `json:"publicKey"`
	Logged       int64             `json:"logged"` // submissions that were ever logged
	CreatedAt    decision.Stamp    `json:"createdAt"`
}

// View is an agent as the interface shows it.
type View struct {
	ID            string         `json:"id"`
	AgentName     string         `json:"agentName"`
	Description   string         `json:"description"`
	Protocols     []string       `json:"protocols"`
	State         string         `json:"state"`
	PublicKeyPem  string         `json:"publicKeyPem"`
	KeyID         string         `json:"keyId"`
	JWKThumbprint string         `json:"jwkThumbprint"`
	CreatedAt     decision.Stamp `json:"createdAt"`
}

// View copies the agent as the interface shows it.
func (s *State) View() View {
	return View{ID: s.ID, AgentName: s.AgentName, Description: s.Description, Protocols: slices.Clone(s.Protocols),
		State: s.State, PublicKeyPem: s.PublicKeyPem, KeyID: intent.KeyID(s.PublicKey),
		JWKThumbprint: intent.Thumbprint(s.PublicKey), CreatedAt: s.CreatedAt}
}

// Keys are the keys that what the agent signs may be verified with now: its own while it is active, else none.
func (s *State) Keys() []intent.JWK {
	if s.State != StateActive {
		return []intent.JWK{}
	}
	return []intent.JWK{intent.JWKOf(s.PublicKey)}
}

// LogEntry is one submission, whatever became of it. What the submission did not have, or had too much of, is null; Intent is the
// text that came, "" for none.
type LogEntry struct {
	LogID           string         `json:"log_id"`
	IntentID        *string        `json:"intent_id"`
	Accepted        bool           `json:"accepted"`
	RejectionReason *Reason        `json:"rejection_reason"`
	ReceivedAt      decision.Stamp `json:"received_at"`
	Signature       *string        `json:"signature"`
	KeyID           *string        `json:"key_id"`
	Intent          string         `json:"intent"`
}

// entryID is the id of the record of an agent's nth submission, from 1.
func entryID(agent string, n int64) string { return agent + "/" + strconv.FormatInt(n, 10) }

// Register makes an agent. It answers View.
type Register struct {
	ID, Workspace, AgentName, Description string
	Protocols                             []string // nil for all
	PublicKeyPem                          string
}

// Change moves an agent to a state. It answers View.
type Change struct{ State string }

// Submission is an intent that was submitted, as far as it was understood.
type Submission struct {
	LogID     string
	Intent    string // the text that came, "" when there was none that is kept
	IntentID  string // "" when there was none
	Signature string
	KeyID     string
	// Parsed is nil when the submission does not have the form of one.
	Parsed *intent.Intent
}

// Accept logs a submission that Judge found good. It answers the LogEntry. Refused as the agent's state is when that has changed.
type Accept struct{ Submission }

// Refuse logs a submission that was refused. It answers the LogEntry.
type Refuse struct {
	Submission
	Reason Reason
}
