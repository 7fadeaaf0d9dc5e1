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

func (s *State) addMember(m decision.Meta, c AddMember) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	if !slices.Contains([]string{Owner, Admin, Member}, c.Role) {
		return decision.Decision{}, invalid("role: owner, admin or member")
	}
	at := decision.StampOf(m.At)
	i := s.member(c.UserID)
	switch {
	case i < 0 && len(s.Members) >= MaxMembers:
		return decision.Decision{}, limit("at most %d members", MaxMembers)
	case i < 0:
		return decision.Decision{
			Events: []decision.Event{MemberAdded{Workspace: s.ID, Name: s.Name, User: c.UserID, Role: c.Role, At: at}},
			Reply:  Person{UserID: c.UserID, Role: c.Role, Since: at},
		}, nil
	case s.Members[i].Role == c.Role:
		return decision.Decision{Reply: s.Members[i]}, nil
	case s.lastOwner(i):
		return decision.Decision{}, lastOwner()
	}
	person := s.Members[i]
	person.Role = c.Role
	return decision.Decision{
		Events: []decision.Event{MemberRoleChanged{Workspace: s.ID, Name: s.Name, User: c.UserID, Role: c.Role, At: at}},
		Reply:  person,
	}, nil
}

func (s *State) removeMember(m decision.Meta, c RemoveMember) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	i := s.member(c.UserID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if s.lastOwner(i) {
		return decision.Decision{}, lastOwner()
	}
	return decision.Decision{
		Events: []decision.Event{MemberRemoved{Workspace: s.ID, User: c.UserID, At: decision.StampOf(m.At)}},
		Reply:  s.Members[i],
	}, nil
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
