package workspace

import (
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

func (s *State) role(c Role) (decision.Decision, error) {
	i := s.member(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	access := s.access(Principal{UserID: c.UserID})
	access.Role = s.Members[i].Role
	return decision.Decision{Reply: access}, nil
}

func (s *State) listMembers(c ListMembers) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	return decision.Decision{Reply: slices.Clone(s.Members)}, nil
}

// changeRole gives the member at i the role of an invitation. A former owner's pending invitations
// end.
func (s *State) changeRole(m decision.Meta, i int, c Invite) (decision.Decision, error) {
	person := s.Members[i]
	if person.Role == c.Role {
		return decision.Decision{Reply: person}, nil
	}
	if s.lastOwner(i) {
		return decision.Decision{}, lastOwner()
	}
	at := decision.StampOf(m.At)
	person.Role = c.Role
	d := decision.Decision{
		Events: []decision.Event{MemberRoleChanged{Workspace: s.ID, Name: s.Name, User: c.UserID, Role: c.Role, At: at}},
		Reply:  person,
	}
	if c.Role != Owner {
		s.endInvitationsOf(&d, c.UserID, at)
	}
	return d, nil
}

func (s *State) removeMember(m decision.Meta, c RemoveMember) (decision.Decision, error) {
	leaves := c.By.UserID == c.UserID
	roles := []string{Owner}
	if leaves {
		roles = []string{Owner, Admin, Member}
	}
	if err := s.mustBe(c.By, roles...); err != nil {
		return decision.Decision{}, err
	}
	i := s.member(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if s.lastOwner(i) {
		return decision.Decision{}, lastOwner()
	}
	if err := s.checkKept(c.KeepKeys, leaves); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	d := decision.Decision{Events: []decision.Event{MemberRemoved{Workspace: s.ID, User: c.UserID, At: at}}}
	ended, adopted := s.divideKeys(c.UserID, c.KeepKeys)
	if len(adopted) > 0 {
		d.Events = append(d.Events, KeysKept{Workspace: s.ID, Keys: adopted, By: c.By.id(), At: at})
		for _, id := range adopted {
			key := s.Keys[s.key(id)]
			key.CreatedBy = c.By.id()
			d.Records = append(d.Records, decision.Record{Kind: RecordKey, ID: id, Document: key.view()})
		}
	}
	if len(ended) > 0 {
		s.revokeKeys(&d, ended, c.By, at)
	}
	s.endInvitationsOf(&d, c.UserID, at)
	d.Reply = Removed{Person: s.Members[i], Revoked: append([]string{}, ended...)}
	return d, nil
}

// checkKept refuses a removal that names a key which is not live: the owner counts on something
// that can not be.
func (s *State) checkKept(keep []string, leaves bool) error {
	if leaves && len(keep) > 0 {
		return invalid("keepKeys: a member who leaves keeps no keys")
	}
	if len(keep) > MaxKeptKeys {
		return invalid("keepKeys: at most %d keys", MaxKeptKeys)
	}
	for _, id := range keep {
		if s.key(id) < 0 {
			return fault.New(fault.NotFound, "")
		}
	}
	return nil
}

// divideKeys divides the live keys that descend from a user into those that end and, of those kept
// by name, those whose maker ends. Live keys are in the order in which they were made, so a key's
// maker comes before the key.
func (s *State) divideKeys(userID string, keep []string) (ended, adopted []string) {
	descends, gone := map[string]bool{userID: true}, map[string]bool{userID: true}
	kept := make(map[string]bool, len(keep))
	for _, id := range keep {
		kept[id] = true
	}
	for i := range s.Keys {
		key := &s.Keys[i]
		if !descends[key.CreatedBy] {
			continue
		}
		descends[key.ID] = true
		switch {
		case !kept[key.ID]:
			gone[key.ID] = true
			ended = append(ended, key.ID)
		case gone[key.CreatedBy]:
			adopted = append(adopted, key.ID)
		}
	}
	return ended, adopted
}

// mustBe refuses a principal that is no user in one of the roles. A workspace does not exist for a stranger.
func (s *State) mustBe(by Principal, roles ...string) error {
	if by.UserID == "" {
		return fault.New(fault.SessionRequired, "")
	}
	i := s.member(by.UserID)
	if i < 0 {
		return fault.New(fault.NotFound, "")
	}
	if !slices.Contains(roles, s.Members[i].Role) {
		return fault.New(fault.RoleRequired, "the role of "+s.Members[i].Role+" does not allow this")
	}
	return nil
}

func (s *State) member(userID string) int {
	return slices.IndexFunc(s.Members, func(p Person) bool { return p.UserID == userID })
}

func (s *State) lastOwner(i int) bool {
	owners := 0
	for _, p := range s.Members {
		if p.Role == Owner {
			owners++
		}
	}
	return owners == 1 && s.Members[i].Role == Owner
}

func lastOwner() error {
	return fault.New(fault.LastOwner, "a workspace keeps at least one owner")
}
