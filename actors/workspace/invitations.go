package workspace

import (
	"slices"
	"strings"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Statuses of an invitation. One that is withdrawn, replaced or expired is not kept.
const (
	InvitationPending  = "pending"
	InvitationAccepted = "accepted"
	InvitationDeclined = "declined"
)

// Causes of an invitation's end without an answer.
const (
	causeWithdrawn = "withdrawn" // by an owner
	causeReplaced  = "replaced"  // by a newer one for the same email, or by newer answers
	causeInviter   = "inviter"   // its sender lost the role of owner
	causeExpired   = "expired"
)

// Invitation asks the holder of an email to become a member. The right to answer it is the token,
// which the inviting owner hands over, together with an account of that email. The email alone
// proves nothing, because an account's email is not verified; the token alone is worth nothing to
// another account. An answered invitation is remembered until ExpiresAt, so that a repeated answer
// is answered again.
type Invitation struct {
	ID         string         `json:"id"`
	EmailHash  string         `json:"emailHash"` // user.EmailHash
	TokenHash  string         `json:"tokenHash"` // sha256 hex
	Role       string         `json:"role"`
	InvitedBy  string         `json:"invitedBy"` // usr_ id
	CreatedAt  decision.Stamp `json:"createdAt"`
	ExpiresAt  decision.Stamp `json:"expiresAt"`
	Status     string         `json:"status"`
	AnsweredBy string         `json:"answeredBy,omitempty"` // usr_ id
}

// InvitationDocument is an invitation's record.
type InvitationDocument struct {
	Email string `json:"email"` // as the owner wrote it
}

// InvitationToken finds the workspace of a token.
type InvitationToken struct {
	WorkspaceID string `json:"workspaceId"`
}

// Invite invites the holder of an email; a pending invitation of the same email is replaced. When
// UserID is a member already, it gives the member the role at once. Owners only. It answers an
// Invitation, or the Person of a member.
type Invite struct {
	ID, Email, EmailHash, TokenHash, Role string
	UserID                                string // the account of the email, "" when there is none
	By                                    Principal
}

// ListInvitations answers the pending []Invitation to an owner, oldest first.
type ListInvitations struct{ By Principal }

// WithdrawInvitation ends a pending invitation. Owners only. It answers the Invitation.
type WithdrawInvitation struct {
	ID string
	By Principal
}

// Invitee is an account that presents a token, with the hash of the account's email.
type Invitee struct{ TokenHash, UserID, EmailHash string }

// ShowInvitation answers the Invited of a token to its Invitee. It changes nothing.
type ShowInvitation struct{ Invitee }

// AcceptInvitation makes the invitee a member. It answers Invited.
type AcceptInvitation struct{ Invitee }

// DeclineInvitation ends the invitation. It answers Invited.
type DeclineInvitation struct{ Invitee }

// Invited is an invitation as its invitee sees it.
type Invited struct {
	Invitation Invitation
	Workspace  string
	Name       string // the workspace's
}

func (s *State) inviteMember(m decision.Meta, c Invite) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	if !slices.Contains([]string{Owner, Admin, Member}, c.Role) {
		return decision.Decision{}, invalid("role: owner, admin or member")
	}
	if i := s.member(c.UserID); i >= 0 {
		return s.changeRole(m, i, c)
	}
	at := decision.StampOf(m.At)
	if s.pendingBeside(c.EmailHash, at) >= MaxInvitations {
		return decision.Decision{}, limit("at most %d pending invitations", MaxInvitations)
	}
	if c.ID == "" || c.EmailHash == "" || c.TokenHash == "" || c.Email == "" {
		panic("BUG: invitation without an id, a token or an email")
	}
	invitation := Invitation{
		ID: c.ID, EmailHash: c.EmailHash, TokenHash: c.TokenHash, Role: c.Role, InvitedBy: c.By.id(), CreatedAt: at,
		ExpiresAt: decision.StampOf(at.Add(InvitationLife)), Status: InvitationPending,
	}
	d := decision.Decision{Reply: invitation}
	for _, old := range s.Invitations {
		switch {
		case !old.ExpiresAt.After(at.Time):
			s.endInvitation(&d, old, causeExpired, at)
		case old.Status == InvitationPending && old.EmailHash == c.EmailHash:
			s.endInvitation(&d, old, causeReplaced, at)
		}
	}
	d.Events = append(d.Events, MemberInvited{Workspace: s.ID, Invitation: invitation, At: at})
	d.Records = append(d.Records,
		decision.Record{Kind: RecordInvitation, ID: c.ID, Personal: true,
			Document: InvitationDocument{Email: strings.TrimSpace(c.Email)}},
		decision.Record{Kind: RecordInvitationToken, ID: c.TokenHash, Document: InvitationToken{WorkspaceID: s.ID}})
	d.Timers = append(d.Timers, decision.Timer{Key: invitationTimer(c.ID), Due: invitation.ExpiresAt.Time})
	return d, nil
}

// pendingBeside counts the pending invitations of other emails.
func (s *State) pendingBeside(emailHash string, at decision.Stamp) int {
	n := 0
	for i := range s.Invitations {
		if s.Invitations[i].isPending(at) && s.Invitations[i].EmailHash != emailHash {
			n++
		}
	}
	return n
}

func (s *State) listInvitations(m decision.Meta, c ListInvitations) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	pending := []Invitation{}
	for _, invitation := range s.Invitations {
		if invitation.isPending(decision.StampOf(m.At)) {
			pending = append(pending, invitation)
		}
	}
	return decision.Decision{Reply: pending}, nil
}

func (s *State) withdrawInvitation(m decision.Meta, c WithdrawInvitation) (decision.Decision, error) {
	if err := s.mustBe(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	i := slices.IndexFunc(s.Invitations, func(old Invitation) bool { return old.ID == c.ID && old.isPending(at) })
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	d := decision.Decision{Reply: s.Invitations[i]}
	s.endInvitation(&d, s.Invitations[i], causeWithdrawn, at)
	return d, nil
}

// findPresented returns the invitation of a token, for its invitee. A token that is unknown, ended,
// for another email or answered otherwise is not_found, and so is an accepted token whose member
// was removed.
func (s *State) findPresented(m decision.Meta, by Invitee, statuses ...string) (Invitation, error) {
	for _, invitation := range s.Invitations {
		if invitation.TokenHash != by.TokenHash || invitation.EmailHash != by.EmailHash {
			continue
		}
		gone := invitation.Status == InvitationAccepted && s.member(by.UserID) < 0
		if invitation.ExpiresAt.After(m.At) && slices.Contains(statuses, invitation.Status) && !gone {
			return invitation, nil
		}
	}
	return Invitation{}, fault.New(fault.NotFound, "")
}

func (s *State) showInvitation(m decision.Meta, c ShowInvitation) (decision.Decision, error) {
	invitation, err := s.findPresented(m, c.Invitee, InvitationPending)
	return decision.Decision{Reply: s.viewInvited(invitation)}, err
}

func (s *State) acceptInvitation(m decision.Meta, c AcceptInvitation) (decision.Decision, error) {
	invitation, err := s.findPresented(m, c.Invitee, InvitationPending, InvitationAccepted)
	if err != nil {
		return decision.Decision{}, err
	}
	if invitation.Status == InvitationAccepted {
		return decision.Decision{Reply: s.viewInvited(invitation)}, nil
	}
	if len(s.Members) >= MaxMembers {
		return decision.Decision{}, limit("at most %d members", MaxMembers)
	}
	d := s.noteAnswer(m, invitation, c.Invitee, InvitationAccepted)
	if s.member(c.UserID) < 0 {
		at := decision.StampOf(m.At)
		d.Events = append(d.Events,
			MemberAdded{Workspace: s.ID, Name: s.Name, User: c.UserID, Role: invitation.Role, At: at})
	}
	return d, nil
}

func (s *State) declineInvitation(m decision.Meta, c DeclineInvitation) (decision.Decision, error) {
	invitation, err := s.findPresented(m, c.Invitee, InvitationPending, InvitationDeclined)
	if err != nil {
		return decision.Decision{}, err
	}
	if invitation.Status == InvitationDeclined {
		return decision.Decision{Reply: s.viewInvited(invitation)}, nil
	}
	return s.noteAnswer(m, invitation, c.Invitee, InvitationDeclined), nil
}

// noteAnswer notes the answer. The email goes with it; the token is remembered for a repeat.
func (s *State) noteAnswer(m decision.Meta, invitation Invitation, by Invitee, status string) decision.Decision {
	at := decision.StampOf(m.At)
	invitation.Status, invitation.AnsweredBy = status, by.UserID
	d := decision.Decision{Reply: s.viewInvited(invitation)}
	if oldest := s.oldestAnswered(); oldest >= 0 {
		s.endInvitation(&d, s.Invitations[oldest], causeReplaced, at)
	}
	d.Events = append(d.Events, InvitationAnswered{
		Workspace: s.ID, Invitation: invitation.ID, User: by.UserID, Status: status, At: at,
	})
	d.Records = append(d.Records, decision.Record{Kind: RecordInvitation, ID: invitation.ID, Delete: true})
	return d
}

// oldestAnswered is the answered invitation that makes room for one more, or -1.
func (s *State) oldestAnswered() int {
	oldest, n := -1, 0
	for i := range s.Invitations {
		if s.Invitations[i].Status == InvitationPending {
			continue
		}
		if n++; oldest < 0 {
			oldest = i
		}
	}
	if n < MaxAnswered {
		return -1
	}
	return oldest
}

func (s *State) viewInvited(invitation Invitation) Invited {
	return Invited{Invitation: invitation, Workspace: s.ID, Name: s.Name}
}

// fireTimer ends an invitation whose time has come. The timer of an invitation that is gone is
// removed; an early timer is set again.
func (s *State) fireTimer(m decision.Meta, c decision.Fire) decision.Decision {
	at := decision.StampOf(m.At)
	id := strings.TrimPrefix(c.Key, invitationTimerPrefix)
	i := slices.IndexFunc(s.Invitations, func(old Invitation) bool { return old.ID == id })
	switch {
	case i < 0:
		return decision.Decision{Timers: []decision.Timer{{Key: c.Key}}}
	case s.Invitations[i].ExpiresAt.After(at.Time):
		return decision.Decision{Timers: []decision.Timer{{Key: c.Key, Due: s.Invitations[i].ExpiresAt.Time}}}
	}
	var d decision.Decision
	s.endInvitation(&d, s.Invitations[i], causeExpired, at)
	return d
}

// endInvitationsOf ends the pending invitations that a user sent.
func (s *State) endInvitationsOf(d *decision.Decision, userID string, at decision.Stamp) {
	for _, invitation := range s.Invitations {
		if invitation.InvitedBy == userID && invitation.Status == InvitationPending {
			s.endInvitation(d, invitation, causeInviter, at)
		}
	}
}

func (s *State) endInvitation(d *decision.Decision, old Invitation, cause string, at decision.Stamp) {
	d.Events = append(d.Events, InvitationEnded{Workspace: s.ID, Invitation: old.ID, Cause: cause, At: at})
	if old.Status == InvitationPending {
		d.Records = append(d.Records, decision.Record{Kind: RecordInvitation, ID: old.ID, Delete: true})
	}
	d.Records = append(d.Records, decision.Record{Kind: RecordInvitationToken, ID: old.TokenHash, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: invitationTimer(old.ID)})
}

func (i Invitation) isPending(at decision.Stamp) bool {
	return i.Status == InvitationPending && i.ExpiresAt.After(at.Time)
}

const invitationTimerPrefix = "invitation/"

func invitationTimer(id string) string { return invitationTimerPrefix + id }
