package user

import (
	"purser/actors/decision"
)

// Registered records a new account.
type Registered struct {
	ID         string         `json:"id"`
	EmailHash  string         `json:"emailHash"`
	Generation int            `json:"generation,omitempty"` // of the email's claim (Address)
	At         decision.Stamp `json:"at"`
}

// SessionStarted records a new session. Session is the SHA-256 of its secret.
type SessionStarted struct {
	User      string         `json:"user"`
	Session   string         `json:"session"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
	At        decision.Stamp `json:"at"`
}

// PasswordChanged records a new password.
type PasswordChanged struct {
	User string         `json:"user"`
	At   decision.Stamp `json:"at"`
}

// SessionEnded records the end of a session; Cause is logout, ended, expired, replaced, password or
// email.
type SessionEnded struct {
	User    string         `json:"user"`
	Session string         `json:"session"`
	Cause   string         `json:"cause"`
	At      decision.Stamp `json:"at"`
}

// Joined records the user's membership of a workspace.
type Joined struct {
	User      string         `json:"user"`
	Workspace string         `json:"workspace"`
	Name      string         `json:"name"`
	Role      string         `json:"role"`
	Foreign   bool           `json:"foreign,omitempty"` // Membership.Foreign
	At        decision.Stamp `json:"at"`
}

// Left records the end of a membership.
type Left struct {
	User      string         `json:"user"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Registered) EventType() string { return "user.registered.v1" }

// EventType is the name the event is stored under.
func (SessionStarted) EventType() string { return "user.session_started.v1" }

// EventType is the name the event is stored under.
func (SessionEnded) EventType() string { return "user.session_ended.v1" }

// EventType is the name the event is stored under.
func (PasswordChanged) EventType() string { return "user.password_changed.v1" }

// EventType is the name the event is stored under.
func (Joined) EventType() string { return "user.joined.v1" }

// EventType is the name the event is stored under.
func (Left) EventType() string { return "user.left.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("user", Registered{}, SessionStarted{}, SessionEnded{}, PasswordChanged{}, Joined{},
	Left{}, ResetIssued{}, ResetEnded{}, SessionUsed{},
	FactorBegun{}, FactorEnabled{}, FactorUsed{}, FactorDisabled{},
	EmailLinkIssued{}, EmailLinkEnded{}, EmailChangeBegun{}, EmailChanged{}, EmailChangeEnded{},
	EmailClaimed{}, EmailReleased{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type and for a payload that does not decode. No process of the server reads these events
// back; the tests of the stored form call it.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}
