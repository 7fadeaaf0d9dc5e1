// Package workspace holds a business and its people: mode and verification, members with their
// roles, pending invitations, and API keys with their scopes. It is pure; only the actor of the
// workspace's id folds its events.
//
// The package authenticates and checks what depends on its own state (roles, the subset rule of keys). It holds no money and no
// secret: a key is known by the SHA-256 of its secret. Which route needs which scope is the edge's business.
package workspace

import (
	"time"

	"purser/actors/decision"
)

// Limits of a workspace.
const (
	MinName       = 2 // characters
	MaxName       = 80
	MaxLabel      = 40          // characters of a key's label
	MaxLiveKeys   = 1000        // not revoked
	MaxMembers    = 100         // owners, admins and members together
	MaxRevoked    = 1000        // revoked ids that are remembered, newest first, to tell a second revocation from an unknown id
	UseResolution = time.Minute // a key's last use is noted at most so often

	MaxInvitations = 100 // pending ones
	MaxAnswered    = 100 // answered invitations that are remembered; the oldest goes first
	MaxKeptKeys    = 400 // keys that one removal keeps by name
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
	Members     []Person       `json:"members"`               // in the order they came
	Keys        []Key          `json:"keys"`                  // live ones, oldest first
	RevokedKeys []string       `json:"revokedKeys"`           // the newest MaxRevoked, oldest first
	Invitations []Invitation   `json:"invitations,omitempty"` // oldest first
	// KYBBySandbox: the sandbox accepted the verification, which counts for nothing in live mode.
	KYBBySandbox bool `json:"kybBySandbox,omitempty"`
}

// Issuer is the workspace's account with the card issuing partner; a fixture is a stand-in.
type Issuer struct {
	ID      string `json:"id"`
	Fixture bool   `json:"fixture"`
}

// Person is a member in a role.
type Person struct {
	UserID string         `json:"userId"`
	Role   string         `json:"role"`
	Since  decision.Stamp `json:"since"`
}

// Key is a live API key. CreatedBy is the key_ or usr_ id of who made it.
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

// APIKey is a key as the interface shows it, and its record.
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

// SecretDocument finds the key of a secret.
type SecretDocument struct {
	WorkspaceID string `json:"workspaceId"`
	KeyID       string `json:"keyId"`
}

// Principal is who asks: a key or a user with a session; one of the two is set.
type Principal struct{ KeyID, UserID string }

// NewKey is a key to be made; its secret is the caller's. CreateKey fills CreatedBy from its principal.
type NewKey struct {
	ID, Label  string
	Scopes     []string
	Prefix     string // the first characters of the secret
	SecretHash string // sha256 hex
	CreatedBy  string // key_ or usr_ id
}

// Create makes the workspace. FirstKey gets FirstKeyScopes, whatever it names. Plan "" is alpha. It answers Created.
type Create struct {
	ID, Name, Plan string
	OwnerIDs       []string // at least one
	Founder        string   // the owner who makes it; "" when a key makes it that descends from none of the owners
	IssuerID       string
	IssuerFixture  bool
	FirstKey       NewKey
}

// Created answers Create.
type Created struct {
	Workspace View   `json:"workspace"`
	APIKey    APIKey `json:"apiKey"`
}

// CreateKey makes a key with scopes that By may hand out. It answers APIKey.
type CreateKey struct {
	NewKey
	By Principal
}

// RevokeKey ends a key and every key made by it, directly or not. A key needs WriteKeys and every
// scope of the key that ends; an owner or admin needs none. It answers Revoked.
type RevokeKey struct {
	ID string
	By Principal
}

// Revoked names the keys that ended, the one asked for first; none when it had ended already.
type Revoked struct {
	Revoked []string `json:"revoked"`
}

// Authenticate finds the live key of a secret. It answers Access.
type Authenticate struct{ SecretHash string }

// Role finds what a user is here. It answers Access; a stranger is told not_found.
type Role struct{ UserID string }

// Access is who asks and what they may. A key has Scopes, a user a Role. UseDue asks for a NoteUse: the key's last noted use is
// older than UseResolution.
type Access struct {
	Workspace string
	Principal Principal
	Scopes    []string
	Role      string
	Mode      string
	KYBStatus string
	UseDue    bool
}

// NoteUse keeps that a key was used now, unless that is known within UseResolution.
type NoteUse struct{ KeyID string }

// ListMembers answers []Person to an owner.
type ListMembers struct{ By Principal }

// RemoveMember takes a user out, with the keys and the pending invitations that descend from the
// user. An owner may keep keys by name: a kept key whose maker ends becomes the owner's. Other
// members remove themselves only, and keep no key. It answers Removed.
type RemoveMember struct {
	UserID   string
	KeepKeys []string
	By       Principal
}

// Removed answers RemoveMember.
type Removed struct {
	Person  Person
	Revoked []string // keys, oldest first
}

// SetMode and SetKYB are reached by code only: no route of the sandbox moves a workspace to live.
type SetMode struct{ Mode string }

// SetKYB records where the business verification stands. BySandbox is the sandbox's acceptance,
// which changes no approval; else see SetMode.
type SetKYB struct {
	Status    string
	BySandbox bool
}
