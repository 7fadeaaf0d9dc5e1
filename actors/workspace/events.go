package workspace

import (
	"slices"

	"purser/actors/decision"
)

// WorkspaceCreated says that a workspace was made, with its owners and its first key.
type WorkspaceCreated struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Plan      string         `json:"plan"`
	Mode      string         `json:"mode"`
	KYBStatus string         `json:"kybStatus"`
	Issuer    Issuer         `json:"issuer"`
	Owners    []string       `json:"owners"`
	Founder   string         `json:"founder,omitempty"` // the owner who made it; unknown in events of older versions
	FirstKey  Key            `json:"firstKey"`
	At        decision.Stamp `json:"at"`
}

// MadeBy is the user who made the workspace; "" when a key made it that descends from none of the
// owners. In an event of an older version it is the maker of the first key.
func (e WorkspaceCreated) MadeBy() string {
	if e.Founder == "" && slices.Contains(e.Owners, e.FirstKey.CreatedBy) {
		return e.FirstKey.CreatedBy
	}
	return e.Founder
}

// KeyCreated says that a key was made.
type KeyCreated struct {
	Workspace string         `json:"workspace"`
	Key       Key            `json:"key"`
	At        decision.Stamp `json:"at"`
}

// KeysRevoked says that keys ended, all at once.
type KeysRevoked struct {
	Workspace string         `json:"workspace"`
	Keys      []string       `json:"keys"`
	By        string         `json:"by"`
	At        decision.Stamp `json:"at"`
}

// KeyUsed says that a key was used; it is noted now and then, not at every use.
type KeyUsed struct {
	Workspace string         `json:"workspace"`
	Key       string         `json:"key"`
	At        decision.Stamp `json:"at"`
}

// MemberAdded says that a user became a member. Name is the workspace's, for the user's list.
type MemberAdded struct {
	Workspace string         `json:"workspace"`
	Name      string         `json:"name"`
	User      string         `json:"user"`
	Role      string         `json:"role"`
	At        decision.Stamp `json:"at"`
}

// MemberRoleChanged says that a member has another role.
type MemberRoleChanged struct {
	Workspace string         `json:"workspace"`
	Name      string         `json:"name"`
	User      string         `json:"user"`
	Role      string         `json:"role"`
	At        decision.Stamp `json:"at"`
}

// MemberRemoved says that a user is no longer a member.
type MemberRemoved struct {
	Workspace string         `json:"workspace"`
	User      string         `json:"user"`
	At        decision.Stamp `json:"at"`
}

// KeysKept says that keys of a removed member became those of the owner who kept them.
type KeysKept struct {
	Workspace string         `json:"workspace"`
	Keys      []string       `json:"keys"`
	By        string         `json:"by"`
	At        decision.Stamp `json:"at"`
}

// MemberInvited says that the holder of an email may become a member.
type MemberInvited struct {
	Workspace  string         `json:"workspace"`
	Invitation Invitation     `json:"invitation"`
	At         decision.Stamp `json:"at"`
}

// InvitationAnswered says that the invited user accepted or declined; Status says which.
type InvitationAnswered struct {
	Workspace  string         `json:"workspace"`
	Invitation string         `json:"invitation"`
	User       string         `json:"user"`
	Status     string         `json:"status"`
	At         decision.Stamp `json:"at"`
}

// InvitationEnded says that an invitation can no longer be answered; Cause is withdrawn, replaced,
// inviter or expired.
type InvitationEnded struct {
	Workspace  string         `json:"workspace"`
	Invitation string         `json:"invitation"`
	Cause      string         `json:"cause"`
	At         decision.Stamp `json:"at"`
}

// ModeChanged says that the workspace runs in another mode.
type ModeChanged struct {
	Workspace string         `json:"workspace"`
	Mode      string         `json:"mode"`
	At        decision.Stamp `json:"at"`
}

// KYBChanged says where the business verification stands, and the bank account with it.
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
func (ModeChanged) EventType() string { return "workspace.mode_changed.v1" }

// EventType is the name the event is stored under.
func (KYBChanged) EventType() string { return "workspace.kyb_changed.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("workspace", WorkspaceCreated{}, KeyCreated{}, KeysRevoked{}, KeyUsed{}, MemberAdded{},
	MemberRoleChanged{}, MemberRemoved{}, KeysKept{}, MemberInvited{}, InvitationAnswered{}, InvitationEnded{},
	ModeChanged{}, KYBChanged{})

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}
