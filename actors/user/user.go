// Package user is a person who signs in to the dashboard: an account, its open sessions and the workspaces it belongs to. It is
// pure; an actor of the user's id is the only one that folds its events.
//
// A user is a tenant of its own. The email and the password's hash are in the credential record only, never in events or in the
// state; the SHA-256 of the folded email is. Passwords are checked by the edge. Who may do what in a workspace is decided by the
// workspace; the list kept here is for showing.
package user

import (
	"time"

	"purser/actors/decision"
)

// Limits of a user.
const (
	MaxSessions = 100  // open at once; the oldest ends when one more starts
	MaxOwn      = 1000 // workspaces that the user made; the edge refuses one more, and a Join beyond is not listed
	MaxForeign  = 1000 // workspaces that the user joined; the edge refuses one more, and a Join beyond is not listed
	MaxEmail    = 254  // bytes, RFC 5321
	MaxPlaces   = 16   // from which the user has signed in; the one not seen for longest goes

	PlaceLife = 90 * 24 * time.Hour // a place is known so long after the last sign-in from it
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
	// PasswordChanges counts them. A password that was checked against an older credential starts
	// no session.
	PasswordChanges int `json:"passwordChanges,omitempty"`
}

// Session is an open session.
type Session struct {
	Hash      string         `json:"hash"` // sha256 hex of the secret
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// Membership is a workspace the user belongs to; Role is owner, admin or member. Foreign says that
// the user did not make it; older versions made no difference, and their memberships count as the
// user's own.
type Membership struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Foreign bool   `json:"foreign,omitempty"`
}

// View is a user as the interface shows it. Only the reply to Register has the email; it is in the credential record otherwise.
type View struct {
	ID         string         `json:"id"`
	Email      string         `json:"email,omitempty"`
	CreatedAt  decision.Stamp `json:"createdAt"`
	Workspaces []Membership   `json:"workspaces"`
}

// EmailDocument finds the user of an email.
type EmailDocument struct {
	UserID string `json:"userId"`
}

// Credential is what signing in is checked against. It is personal data.
type Credential struct {
	Email        string `json:"email"`
	PasswordHash string `json:"passwordHash"`      // argon2id, PHC string
	Changes      int    `json:"changes,omitempty"` // State.PasswordChanges when it was stored
}

// SessionDocument finds the user of a session.
type SessionDocument struct {
	UserID    string         `json:"userId"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// Register makes the account. The email is claimed for ever: a second account for it is email_taken.
type Register struct{ ID, Email, PasswordHash string }

// StartSession opens a session that ends at Expires. Changes is that of the credential that was
// checked; after another change of the password the answer is invalid_credentials. Places, unless
// empty, replace the user's places.
type StartSession struct {
	SecretHash string
	Expires    time.Time
	Changes    int
	Places     Places
}

// ChangePassword replaces the credential, whose email stays, ends every session and opens the one
// of Start. Start.Changes is that of the credential that was checked.
type ChangePassword struct {
	Email, PasswordHash string
	Start               StartSession
}

// EndSession closes a session; one that is not open changes nothing.
type EndSession struct{ SecretHash string }

// Join states that the user belongs to a workspace in a role; the newest name and role stand.
// Foreign counts for the first Join of a workspace only.
type Join struct {
	Workspace, Name, Role string
	Foreign               bool
}

// Leave states that the user no longer belongs to a workspace.
type Leave struct{ Workspace string }
