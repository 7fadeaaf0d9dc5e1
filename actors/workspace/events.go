package workspace

import (
	"purser/actors/decision"
)

// WorkspaceCreated records a new workspace with its owners and its first key.
type WorkspaceCreated struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Plan      string   `json:"plan"`
	Mode      string   `json:"mode"`
	KYBStatus string   `json:"kybStatus"`
	Issuer    Issuer   `json:"issuer"`
	Owners    []string `json:"owners"`
	// the owner who created it; "" when the creating key was made by no owner, directly or through
	// another key
	Founder  string         `json:"founder,omitempty"`
	FirstKey Key            `json:"firstKey"`
	At       decision.Stamp `json:"at"`
}

// KeyCreated records a new key.
type KeyCreated struct {
	Workspace string         `json:"workspace"`
	Key       Key            `json:"key"`
	At        decision.Stamp `json:"at"`
}

// KeysRevoked records the end of keys, all at once.
type KeysRevoked struct {
	Workspace string         `json:"workspace"`
	Keys      []string       `json:"keys"`
	By        string         `json:"by"`
	At        decision.Stamp `json:"at"`
}

// KeyUsed records a use of a key, at most once per UseResolution.
type KeyUsed struct {
	Workspace string         `json:"workspace"`
	Key       string         `json:"key"`
	At        decision.Stamp `json:"at"`
}

// MemberAdded records a new member. Name is the workspace's, for the user's list.
type MemberAdded struct {
	Workspace string         `json:"workspace"`
	Name      string         `json:"name"`
	User      string         `json:"user"`
	Role      string         `json:"role"`
	At        decision.Stamp `json:"at"`
}

// MemberRoleChanged records a member's new role. With a role that may not have webhook endpoints
// the member's endpoints end, except the kept ones, whose maker becomes By.
type MemberRoleChanged struct {
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	User      string `json:"user"`
	Role      string `json:"role"`

	By            string         `json:"by"`
	KeptEndpoints []string       `json:"keptEndpoints,omitempty"`
	At            decision.Stamp `json:"at"`
}

// MemberRemoved records the end of a membership, and with it of the member's webhook endpoints,
// except the kept ones, whose maker becomes By.
type MemberRemoved struct {
	Workspace     string         `json:"workspace"`
	User          string         `json:"user"`
	By            string         `json:"by"`
	KeptEndpoints []string       `json:"keptEndpoints,omitempty"`
	At            decision.Stamp `json:"at"`
}

// KeysKept records keys of a removed member that became those of the owner who kept them.
type KeysKept struct {
	Workspace string         `json:"workspace"`
	Keys      []string       `json:"keys"`
	By        string         `json:"by"`
	At        decision.Stamp `json:"at"`
}

// MemberInvited records an invitation of the holder of an email.
type MemberInvited struct {
	Workspace  string         `json:"workspace"`
	Invitation Invitation     `json:"invitation"`
	At         decision.Stamp `json:"at"`
}

// InvitationAnswered records the invited user's answer; Status is accepted or declined.
type InvitationAnswered struct {
	Workspace  string         `json:"workspace"`
	Invitation string         `json:"invitation"`
	User       string         `json:"user"`
	Status     string         `json:"status"`
	At         decision.Stamp `json:"at"`
}

// InvitationEnded records the end of an invitation without an answer; Cause is withdrawn, replaced,
// inviter or expired.
type InvitationEnded struct {
	Workspace  string         `json:"workspace"`
	Invitation string         `json:"invitation"`
	Cause      string         `json:"cause"`
	At         decision.Stamp `json:"at"`
}

// WorkspaceRenamed records a new name. Members are those at the time, whose lists show the name.
type WorkspaceRenamed struct {
	Workspace string         `json:"workspace"`
	Name      string         `json:"name"`
	Members   []Person       `json:"members"`
	By        string         `json:"by"`
	At        decision.Stamp `json:"at"`
}

// ModeChanged records a new mode.
type ModeChanged struct {
	Workspace string         `json:"workspace"`
	Mode      string         `json:"mode"`
	At        decision.Stamp `json:"at"`
}

// KYBChanged records the statuses of the business verification and of the bank account.
type KYBChanged struct {
	Workspace  string         `json:"workspace"`
	Status     string         `json:"status"`
	BankStatus string         `json:"bankStatus"`
	BySandbox  bool           `json:"bySandbox,omitempty"`
	At         decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (WorkspaceCreated) EventType() string { return "workspace.created.v1" }

// EventType is the name the event is stored under.
func (KeyCreated) EventType() string { return "workspace.key_created.v1" }

// EventType is the name the event is stored under.
func (KeysRevoked) EventType() string { return "workspace.keys_revoked.v1" }

// EventType is the name the event is stored under.
func (KeyUsed) EventType() string { return "workspace.key_used.v1" }

// EventType is the name the event is stored under.
func (MemberAdded) EventType() string { return "workspace.member_added.v1" }

// EventType is the name the event is stored under.
func (MemberRoleChanged) EventType() string { return "workspace.member_role_changed.v1" }

// EventType is the name the event is stored under.
func (MemberRemoved) EventType() string { return "workspace.member_removed.v1" }

// EventType is the name the event is stored under.
func (KeysKept) EventType() string { return "workspace.keys_kept.v1" }

// EventType is the name the event is stored under.
func (MemberInvited) EventType() string { return "workspace.member_invited.v1" }

// EventType is the name the event is stored under.
func (InvitationAnswered) EventType() string { return "workspace.invitation_answered.v1" }

// EventType is the name the event is stored under.
func (InvitationEnded) EventType() string { return "workspace.invitation_ended.v1" }

// EventType is the name the event is stored under.
func (WorkspaceRenamed) EventType() string { return "workspace.renamed.v1" }

// EventType is the name the event is stored under.
func (ModeChanged) EventType() string { return "workspace.mode_changed.v1" }

// EventType is the name the event is stored under.
func (KYBChanged) EventType() string { return "workspace.kyb_changed.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("workspace", WorkspaceCreated{}, KeyCreated{}, KeysRevoked{}, KeyUsed{},
	MemberAdded{},
	MemberRoleChanged{}, MemberRemoved{}, KeysKept{}, MemberInvited{}, InvitationAnswered{}, InvitationEnded{},
	ModeChanged{}, WorkspaceRenamed{}, KYBChanged{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type and for a payload that does not decode.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}
