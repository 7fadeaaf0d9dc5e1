// Package user is a person who signs in to the dashboard: an account, its open sessions and its
// workspaces. It is pure; the actor of the user's id alone folds its events.
//
// A user is a tenant of its own. Email and password hash are in the credential record only; events
// and state have the SHA-256 of the folded email. The HTTP edge checks passwords. The workspace
// decides the rights of its members; the list here is for display.
package user

import (
	"time"

	"purser/actors/decision"
)

// Limits of a user.
const (
	MaxSessions = 100  // open at once; one more ends the oldest
	MaxOwn      = 1000 // workspaces that the user made; the edge refuses one more, and a Join beyond is not listed
	// workspaces that the user joined; the edge refuses one more, and a Join beyond is not listed
	MaxForeign = 1000
	// joined workspaces beyond which another person's key makes the user no owner of one more; the
	// other places are for invitations
	MaxGiven  = 500
	MaxEmail  = 254 // bytes, RFC 5321
	MaxPlaces = 16  // places of sign-in; one more drops the least recent

	PlaceLife = 90 * 24 * time.Hour // how long a place is known after the last sign-in from it
)

// Record kinds and scopes that this package writes.
const (
	RecordEmail      = "user_email"     // sha256 hex of the folded email → EmailDocument
	RecordCredential = "credential"     // usr_ id → Credential
	RecordSession    = "session"        // sha256 hex of the secret → SessionDocument
	RecordPlaces     = "sign_in_places" // usr_ id → Places, personal
	ScopeEmail       = "email"
)

// State is a user. The zero State is a user that does not exist.
type State struct {
	ID         string         `json:"id"`
	EmailHash  string         `json:"emailHash"`
	CreatedAt  decision.Stamp `json:"createdAt"`
	Sessions   []Session      `json:"sessions"` // open, oldest first
	Workspaces []Membership   `json:"workspaces"`
	// PasswordChanges counts the changes of password and email. A password checked against an older
	// credential starts no session.
	PasswordChanges int     `json:"passwordChanges,omitempty"`
	Resets          []Reset `json:"resets,omitempty"`  // open, oldest first
	Factor          *Factor `json:"factor,omitempty"`  // nil without a second factor
	Factors         int     `json:"factors,omitempty"` // second factors so far
	// Address and EmailGeneration name the claim of the email. Address is "" for the email of the
	// sign-up, which was claimed in the user's slot.
	Address         string       `json:"address,omitempty"`
	EmailGeneration int          `json:"emailGeneration,omitempty"`
	EmailChange     *EmailChange `json:"emailChange,omitempty"`  // nil when no change is under way
	EmailChanges    int          `json:"emailChanges,omitempty"` // changes begun so far
	// EmailChangedAt is the time of the last change that was committed, zero before the first.
	EmailChangedAt decision.Stamp `json:"emailChangedAt,omitzero"`
	EmailLink      *EmailLink     `json:"emailLink,omitempty"` // nil without an open link
}

// Session is an open session.
type Session struct {
	Hash      string         `json:"hash"` // sha256 hex of the secret
	ExpiresAt decision.Stamp `json:"expiresAt"`
	UsedAt    decision.Stamp `json:"usedAt"` // last recorded use
}

// Membership is a workspace of the user; Role is owner, admin or member. Foreign marks a workspace
// that the user did not create.
type Membership struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Foreign bool   `json:"foreign,omitempty"`
}

// View is a user as the interface shows it. Only the reply to Register has the email.
type View struct {
	ID         string         `json:"id"`
	Email      string         `json:"email,omitempty"`
	CreatedAt  decision.Stamp `json:"createdAt"`
	Workspaces []Membership   `json:"workspaces"`
	Factor     *Factor        `json:"-"` // nil without a second factor; the caller does not change it
}

// EmailDocument maps an email to the user who claims it, "" when it was released. Until a change of
// email is committed, and until its old email is released, an email maps to a user whose Credential
// has another one.
type EmailDocument struct {
	UserID     string `json:"userId"`
	Generation int    `json:"generation,omitempty"` // of the claim, or of the next one
}

// Credential is the password hash that a sign-in is checked against. It is personal data.
type Credential struct {
	Email        string `json:"email"`
	PasswordHash string `json:"passwordHash"`      // argon2id, PHC string
	Changes      int    `json:"changes,omitempty"` // State.PasswordChanges when it was stored
	// EmailChangedAt is the time of the last change of the email, zero for the email of the sign-up.
	EmailChangedAt decision.Stamp `json:"emailChangedAt,omitzero"`
}

// SessionDocument maps a session to its user.
type SessionDocument struct {
	UserID    string         `json:"userId"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
	UsedAt    decision.Stamp `json:"usedAt"`
}

// Register creates the account. The claim on the email lasts until a change of email releases it: a
// second account for it is email_taken. Generation is EmailDocument.Generation, 0 without a
// document.
type Register struct {
	ID, Email, PasswordHash string
	Generation              int
}

// StartSession opens a session that lasts Life. Changes is the Credential.Changes that the
// password was checked against. If the password has changed since, the refusal is
// invalid_credentials. Places, unless empty, replace the user's places.
type StartSession struct {
	SecretHash string
	Life       time.Duration
	Changes    int
	Places     Places
	Proof      *FactorProof // nil without a second factor
}

// ChangePassword replaces the password hash, ends every session and reset, and opens the session
// Start. The email stays. Start.Changes is the Credential.Changes that the old password was checked
// against.
type ChangePassword struct {
	Email, PasswordHash string
	Start               StartSession
}

// EndSession closes a session. Without an open session it changes nothing.
type EndSession struct{ SecretHash string }

// Join records the user's membership of a workspace, with the newest name and role. Foreign counts
// for the first Join of a workspace only.
type Join struct {
	Workspace, Name, Role string
	Foreign               bool
}

// Leave records the end of the user's membership of a workspace.
type Leave struct{ Workspace string }
