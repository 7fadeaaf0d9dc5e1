// Package agent is an AI agent that acts for a workspace: its key, its state, and the log of its
// submitted payment intents. It is pure; the actor of the agent's id alone folds its events.
//
// State.Judge checks an intent outside the actor, against the state that the actor last committed.
// A command then accepts or refuses the intent, and either outcome is logged. The actor checks the
// agent's state again, which may have changed in between. The claim of the Accept command excludes
// a second acceptance of one intent id; the state does not.
package agent

import (
	"crypto/ed25519"
	"slices"
	"strconv"

	"purser/actors/agent/intent"
	"purser/actors/decision"
)

// States of an agent. StateTerminated is final.
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
	// MaxLog is the most submissions in an agent's log; one more removes the oldest.
	MaxLog = 10_000
)

// RecordIntent is the kind of the records of an agent's log. Their parent is the agent, their
// document a LogEntry.
const RecordIntent = "agent_intent"

// State is an agent. The zero State is an agent that does not exist.
type State struct {
	ID           string            `json:"id"`
	Workspace    string            `json:"workspace"`
	AgentName    string            `json:"agentName"`
	Description  string            `json:"description"`
	Protocols    []string          `json:"protocols"`
	State        string            `json:"state"`
	PublicKeyPem string            `json:"publicKeyPem"` // as registered
	PublicKey    ed25519.PublicKey `json:"publicKey"`
	Logged       int64             `json:"logged"` // submissions ever logged
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

// View returns a copy of the agent as the interface shows it. The decisions reply it to the agents'
// routes.
func (s *State) View() View {
	return View{ID: s.ID, AgentName: s.AgentName, Description: s.Description, Protocols: slices.Clone(s.Protocols),
		State: s.State, PublicKeyPem: s.PublicKeyPem, KeyID: intent.KeyID(s.PublicKey),
		JWKThumbprint: intent.Thumbprint(s.PublicKey), CreatedAt: s.CreatedAt}
}

// Keys returns the keys that verify the agent's signatures now: its own while it is active, else
// none. The public route jwks.json of an agent shows them.
func (s *State) Keys() []intent.JWK {
	if s.State != StateActive {
		return []intent.JWK{}
	}
	return []intent.JWK{intent.JWKOf(s.PublicKey)}
}

// LogEntry is one submission, accepted or refused. A field that was missing, too long or
// not a text is null. Intent is the submitted text, "" for none.
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

// logRecordID returns the id of the record of an agent's nth submission, from 1.
func logRecordID(agent string, n int64) string { return agent + "/" + strconv.FormatInt(n, 10) }

// Register creates an agent. The reply is a View.
type Register struct {
	ID, Workspace, AgentName, Description string
	Protocols                             []string // nil for all
	PublicKeyPem                          string
}

// ChangeState sets the state of an agent. The reply is a View.
type ChangeState struct{ State string }

// Submission is a submitted intent, as far as it could be parsed.
type Submission struct {
	LogID     string
	Intent    string // the submitted text, "" when none is kept
	IntentID  string // "" without one
	Signature string
	KeyID     string
	// Parsed is nil when the submission is malformed.
	Parsed *intent.Intent
}

// Accept logs a submission that Judge accepted. The reply is the LogEntry. The refusal is
// agent_frozen or agent_terminated when the agent's state has changed since.
type Accept struct{ Submission }

// Refuse logs a refused submission. The reply is the LogEntry.
type Refuse struct {
	Submission
	Reason Reason
}
