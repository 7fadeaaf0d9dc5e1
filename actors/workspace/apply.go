package workspace

import (
	"fmt"
	"slices"

	"purser/actors/decision"
)

// Apply folds an event into the state. The workspace's actor calls it for each event that it
// decides; it loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case WorkspaceCreated:
		s.applyCreated(e)
	case KeyCreated:
		s.Keys = append(s.Keys, e.Key.clone())
	case KeysRevoked:
		s.applyRevoked(e)
	case KeyUsed:
		if i := s.Keys.index(e.Key); i >= 0 {
			s.Keys[i].LastUsedAt = e.At
		}
	case MemberAdded:
		s.Members = append(s.Members, Person{UserID: e.User, Role: e.Role, Since: e.At})
	case MemberRoleChanged:
		if i := s.Members.index(e.User); i >= 0 {
			s.Members[i].Role = e.Role
		}
	case MemberRemoved:
		s.Members = slices.DeleteFunc(s.Members, func(p Person) bool { return p.UserID == e.User })
	case KeysKept:
		for _, id := range e.Keys {
			if i := s.Keys.index(id); i >= 0 {
				s.Keys[i].CreatedBy = e.By
			}
		}
	case MemberInvited:
		s.Invitations = append(s.Invitations, e.Invitation)
	case InvitationAnswered:
		for i := range s.Invitations {
			if s.Invitations[i].ID == e.Invitation {
				s.Invitations[i].Status, s.Invitations[i].AnsweredBy = e.Status, e.User
			}
		}
	case InvitationEnded:
		s.Invitations = slices.DeleteFunc(s.Invitations, func(i Invitation) bool { return i.ID == e.Invitation })
	case WorkspaceRenamed:
		s.Name = e.Name
	case ModeChanged:
		s.Mode = e.Mode
	case KYBChanged:
		s.KYBStatus, s.BankStatus, s.KYBBySandbox = e.Status, e.BankStatus, e.BySandbox
	default:
		panic(fmt.Sprintf("BUG: workspace event %T", e))
	}
}

// applyCreated makes the state of a new workspace: its owners, its first key, and a placeholder
// bank account.
func (s *State) applyCreated(e WorkspaceCreated) {
	*s = State{
		ID: e.ID, Name: e.Name, Plan: e.Plan, Mode: e.Mode, KYBStatus: e.KYBStatus, BankStatus: Placeholder,
		Issuer:    e.Issuer,
		CreatedAt: e.At, Members: []Person{}, Keys: []Key{e.FirstKey.clone()}, RevokedKeys: []string{},
	}
	for _, owner := range e.Owners {
		s.Members = append(s.Members, Person{UserID: owner, Role: Owner, Since: e.At})
	}
}

// applyRevoked removes the keys and remembers their ids, at most MaxRevoked.
func (s *State) applyRevoked(e KeysRevoked) {
	s.Keys = slices.DeleteFunc(s.Keys, func(k Key) bool { return slices.Contains(e.Keys, k.ID) })
	s.RevokedKeys = append(s.RevokedKeys, e.Keys...)
	if extra := len(s.RevokedKeys) - MaxRevoked; extra > 0 {
		s.RevokedKeys = slices.Delete(s.RevokedKeys, 0, extra)
	}
}

func (k Key) clone() Key {
	k.Scopes = slices.Clone(k.Scopes)
	return k
}
