package workspace

import (
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// memberList is the members of a workspace in the order in which they joined.
type memberList []Person

// index returns the index of a member, or -1.
func (l memberList) index(userID string) int {
	return slices.IndexFunc(l, func(p Person) bool { return p.UserID == userID })
}

// isLastOwner reports whether the member at i is the only owner. changeRole and removeMember fail
// with last_owner then.
func (l memberList) isLastOwner(i int) bool {
	owners := 0
	for _, p := range l {
		if p.Role == Owner {
			owners++
		}
	}
	return owners == 1 && l[i].Role == Owner
}

// memberAccess replies the Access of a user with the user's role. It fails with not_found unless
// the user is a member.
func (s *State) memberAccess(c LookUpRole) (decision.Decision, error) {
	i := s.Members.index(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	access := s.newAccess(Principal{UserID: c.UserID})
	access.Role = s.Members[i].Role
	return decision.Decision{Reply: access}, nil
}

func (s *State) listMembers(c ListMembers) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	return decision.Decision{Reply: []Person(slices.Clone(s.Members))}, nil
}

// checkRole fails with invalid_body unless the text is a role.
func checkRole(role string) error {
	if !slices.Contains([]string{Owner, Admin, Member}, role) {
		return invalidBody("role: owner, admin or member")
	}
	return nil
}

// changeRole gives a member another role. Keys that descend from the member and hold a scope beyond
// the role end or become the owner's. It ends the pending invitations of a former owner. It fails
// with requireRole's faults unless the caller is an owner, with invalid_body, not_found, last_owner
// and checkKept's faults.
func (s *State) changeRole(m decision.Meta, c ChangeRole) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	if err := checkRole(c.Role); err != nil {
		return decision.Decision{}, err
	}
	i := s.Members.index(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	person := s.Members[i]
	if person.Role == c.Role {
		return decision.Decision{Reply: MemberEnded{Person: person, Revoked: []string{}}}, nil
	}
	if s.Members.isLastOwner(i) {
		return decision.Decision{}, errLastOwner()
	}
	if err := s.Keys.checkKept(c.KeepKeys, c.KeepEndpoints, c.By.UserID == c.UserID); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	person.Role = c.Role
	d := decision.Decision{Events: []decision.Event{MemberRoleChanged{Workspace: s.ID, Name: s.Name, User: c.UserID,
		Role: c.Role, By: c.By.principalID(), KeptEndpoints: append([]string(nil), c.KeepEndpoints...), At: at}}}
	ended := s.endKeysOf(&d, c.UserID, c.Role, c.KeepKeys, c.By, at)
	if c.Role != Owner {
		s.endInvitationsOf(&d, c.UserID, at)
	}
	d.Reply = MemberEnded{Person: person, Revoked: ended}
	return d, nil
}

// removeMember removes a member, by an owner or by the member itself. It fails with requireRole's
// faults, not_found, last_owner and checkKept's faults.
func (s *State) removeMember(m decision.Meta, c RemoveMember) (decision.Decision, error) {
	leaves := c.By.UserID == c.UserID
	roles := []string{Owner}
	if leaves {
		roles = []string{Owner, Admin, Member}
	}
	if err := s.requireRole(c.By, roles...); err != nil {
		return decision.Decision{}, err
	}
	i := s.Members.index(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if s.Members.isLastOwner(i) {
		return decision.Decision{}, errLastOwner()
	}
	if err := s.Keys.checkKept(c.KeepKeys, c.KeepEndpoints, leaves); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	d := decision.Decision{Events: []decision.Event{MemberRemoved{Workspace: s.ID, User: c.UserID, By: c.By.principalID(),
		KeptEndpoints: append([]string(nil), c.KeepEndpoints...), At: at}}}
	ended := s.endKeysOf(&d, c.UserID, "", c.KeepKeys, c.By, at)
	s.endInvitationsOf(&d, c.UserID, at)
	d.Reply = MemberEnded{Person: s.Members[i], Revoked: ended}
	return d, nil
}

// endKeysOf ends the keys that descend from a user and may not stay in the user's new role, "" for
// none, and returns them, oldest first. The maker of the kept ones becomes by.
func (s *State) endKeysOf(d *decision.Decision, userID, role string, keep []string, by Principal,
	at decision.Stamp) []string {
	ended, adopted := s.Keys.divide(userID, role, keep)
	if len(adopted) > 0 {
		d.Events = append(d.Events, KeysKept{Workspace: s.ID, Keys: adopted, By: by.principalID(), At: at})
		for _, id := range adopted {
			key := s.Keys[s.Keys.index(id)]
			key.CreatedBy = by.principalID()
			d.Records = append(d.Records, decision.Record{Kind: RecordKey, ID: id, Document: key.apiKey()})
		}
	}
	if len(ended) > 0 {
		s.revokeKeys(d, ended, by, at)
	}
	return append([]string{}, ended...)
}

// requireRole checks that a principal is a user in one of the roles. It fails with session_required
// for a key, not_found for a user outside the workspace, and role_required for another role.
func (s *State) requireRole(by Principal, roles ...string) error {
	if by.UserID == "" {
		return fault.New(fault.SessionRequired, "")
	}
	i := s.Members.index(by.UserID)
	if i < 0 {
		return fault.New(fault.NotFound, "")
	}
	if !slices.Contains(roles, s.Members[i].Role) {
		return fault.New(fault.RoleRequired, "the role of "+s.Members[i].Role+" does not allow this")
	}
	return nil
}

func errLastOwner() error {
	return fault.New(fault.LastOwner, "a workspace keeps at least one owner")
}
