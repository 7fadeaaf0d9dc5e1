// Package workspace is a business and its people: mode and verification, members with their roles,
// pending invitations, and API keys with their scopes. It is pure; the actor of the workspace's id
// alone folds its events.
//
// The package authenticates, and checks permissions that depend on its own state (roles, the subset
// rule of keys). It holds no money and no secret: the SHA-256 of its secret identifies a key. The
// HTTP edge decides the scope that a route needs. keyring.go looks keys up; keys.go, members.go and
// invitations.go decide the commands.
package workspace

import (
	"time"

	"purser/actors/decision"
)

// Limits of a workspace.
const (
	MinName     = 2 // characters
	MaxName     = 80
	MaxLabel    = 40   // characters of a key's label
	MaxLiveKeys = 1000 // keys that are not revoked
	MaxMembers  = 100  // owners, admins and members together
	// remembered ids of revoked keys, the newest, which distinguish a second revocation from an
	// unknown id
	MaxRevoked    = 1000
	UseResolution = time.Minute // shortest time between two recorded uses of a key

	MaxInvitations = 100 // pending invitations
	MaxAnswered    = 100 // remembered answered invitations; the oldest is dropped first
	MaxKeptKeys    = 400 // keys that one removal can keep by name
	InvitationLife = 7 * 24 * time.Hour
)

// Record kinds that this package writes.
const (
	RecordKey             = "apikey"           // key_ id → APIKey
	RecordSecret          = "apikey_secret"    // sha256 hex of the secret → SecretDocument
	RecordInvitation      = "invitation"       // inv_ id → InvitationDocument, personal
	RecordInvitationToken = "invitation_token" // sha256 hex of the token → InvitationToken
)

// Modes, verification statuses, account statuses, plans and roles.
const (
	Sandbox = "sandbox"
	Live    = "live"

	NotStarted = "not_started"
	Pending    = "pending"
	Approved   = "approved"
	Rejected   = "rejected"

	Placeholder = "placeholder"
	Open        = "open"

	Alpha  = "alpha"
	Growth = "growth"

	Owner  = "owner"
	Admin  = "admin"
	Member = "member"
)

// State is a workspace. The zero State is a workspace that does not exist.
type State struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Plan        string         `json:"plan"`
	Mode        string         `json:"mode"`
	KYBStatus   string         `json:"kybStatus"`
	BankStatus  string         `json:"bankStatus"`
	Issuer      Issuer         `json:"issuer"`
	CreatedAt   decision.Stamp `json:"createdAt"`
	Members     memberList     `json:"members"`               // in the order in which they joined
	Keys        keyring        `json:"keys"`                  // live keys, oldest first
	RevokedKeys []string       `json:"revokedKeys"`           // the newest MaxRevoked, oldest first
	Invitations invitationList `json:"invitations,omitempty"` // oldest first
	// KYBBySandbox marks a verification accepted by the sandbox, which has no effect in live mode.
	KYBBySandbox bool `json:"kybBySandbox,omitempty"`
}

// Issuer is the workspace's account with the card issuing partner. A fixture is a stand-in for one.
type Issuer struct {
	ID      string `json:"id"`
	Fixture bool   `json:"fixture"`
}

// Person is a member with a role.
type Person struct {
	UserID string         `json:"userId"`
	Role   string         `json:"role"`
	Since  decision.Stamp `json:"since"`
}

// Key is a live API key. CreatedBy is the key_ or usr_ id of its maker.
type Key struct {
	ID         string         `json:"id"`
	Label      string         `json:"label"`
	Scopes     []string       `json:"scopes"`
	Prefix     string         `json:"prefix"`
	SecretHash string         `json:"secretHash"`
	CreatedBy  string         `json:"createdBy"`
	CreatedAt  decision.Stamp `json:"createdAt"`
	LastUsedAt decision.Stamp `json:"lastUsedAt,omitzero"`
}

// View is a workspace as the interface shows it.
type View struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	Plan          string         `json:"plan"`
	Mode          string         `json:"mode"`
	KYBStatus     string         `json:"kybStatus"`
	BankAccount   BankAccount    `json:"bankAccount"`
	IssuerAccount Issuer         `json:"issuerAccount"`
	CreatedAt     decision.Stamp `json:"createdAt"`
}

// BankAccount is the dollar account: a placeholder until verification is submitted.
type BankAccount struct {
	Status string `json:"status"`
}

// APIKey is a key as the interface shows it, and the document of its record.
type APIKey struct {
	ID         string          `json:"id"`
	Label      string          `json:"label"`
	Scopes     []string        `json:"scopes"`
	Prefix     string          `json:"prefix"`
	CreatedBy  string          `json:"createdBy"`
	CreatedAt  decision.Stamp  `json:"createdAt"`
	LastUsedAt *decision.Stamp `json:"lastUsedAt"`
	RevokedAt  *decision.Stamp `json:"revokedAt"`
}

// SecretDocument maps a secret to its key.
type SecretDocument struct {
	WorkspaceID string `json:"workspaceId"`
	KeyID       string `json:"keyId"`
}

// Principal is the caller: a key, or a user with a session. Exactly one of the two is set.
type Principal struct{ KeyID, UserID string }

// NewKey is a key to create. The caller makes its secret. CreateKey sets CreatedBy from its
// principal.
type NewKey struct {
	ID, Label  string
	Scopes     []string
	Prefix     string // the first characters of the secret
	SecretHash string // sha256 hex
	CreatedBy  string // key_ or usr_ id
}

// Create creates the workspace. FirstKey gets FirstKeyScopes and ignores its own Scopes. Plan "" is
// alpha. The reply is Created.
type Create struct {
	ID, Name, Plan string
	OwnerIDs       []string // at least one
	Founder        string   // the owner who creates it; "" when the creating key was made by no owner
	IssuerID       string
	IssuerFixture  bool
	FirstKey       NewKey
}

// Created is the reply to Create.
type Created struct {
	Workspace View   `json:"workspace"`
	APIKey    APIKey `json:"apiKey"`
}

// CreateKey creates a key with scopes that By may grant. The reply is an APIKey.
type CreateKey struct {
	NewKey
	By Principal
}

// RevokeKey ends a key and every key made by it, directly or not. A calling key needs WriteKeys and
// every scope of the ended key; an owner or admin needs no scope. The reply is Revoked.
type RevokeKey struct {
	ID string
	By Principal
}

// Revoked lists the ended keys, the requested one first. The list is empty when it had ended
// before.
type Revoked struct {
	Revoked []string `json:"revoked"`
}

// Authenticate finds the live key of a secret. The reply is an Access.
type Authenticate struct{ SecretHash string }

// LookUpRole looks up the role of a user. The reply is an Access, and not_found for a user outside
// the workspace.
type LookUpRole struct{ UserID string }

// Access is the caller and its permissions. A key has Scopes, a user a Role. UseDue asks the caller
// to send a NoteUse, because the recorded last use is older than UseResolution.
type Access struct {
	Workspace string
	Principal Principal
	Scopes    []string
	Role      string
	Mode      string
	KYBStatus string
	UseDue    bool
}

// NoteUse records a use of a key now, unless the last record is within UseResolution.
type NoteUse struct{ KeyID string }

// ListMembers lists the members for an owner. The reply is []Person.
type ListMembers struct{ By Principal }

// RemoveMember removes a user, with the keys and the pending invitations that descend from the
// user. An owner may keep keys by name; the owner becomes the maker of a kept key whose maker ends.
// It may keep webhook endpoints likewise; the others end (MemberRemoved). Other members remove only
// themselves and keep nothing. The reply is MemberEnded.
type RemoveMember struct {
	UserID        string
	KeepKeys      []string
	KeepEndpoints []string // at most webhook.MaxPerWorkspace; that they exist is the caller's to check
	By            Principal
}

// ChangeRole gives a member another role, for an owner. The owner takes over KeepKeys and
// KeepEndpoints, which would otherwise end with the old role. The reply is MemberEnded with the new
// role.
type ChangeRole struct {
	UserID, Role  string
	KeepKeys      []string
	KeepEndpoints []string // as in RemoveMember
	By            Principal
}

// MemberEnded is the reply to RemoveMember and ChangeRole: the member, and the keys that ended with
// the membership or the old role.
type MemberEnded struct {
	Person  Person
	Revoked []string // oldest first
}

// Rename changes the name, for an owner or admin. The reply is a View.
type Rename struct {
	Name string
	By   Principal
}

// SetMode sets the mode. No route sends it, so that no caller moves a workspace to live; today
// only tests do.
type SetMode struct{ Mode string }

// SetKYB sets the status of the business verification. A route sends it with BySandbox alone,
// the acceptance by the sandbox, which does not change an approval. Without BySandbox today only
// tests send it.
type SetKYB struct {
	Status    string
	BySandbox bool
}
