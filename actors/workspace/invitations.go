package workspace

import (
	"slices"
	"strings"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Statuses of an invitation. An invitation that was withdrawn, replaced or expired is not stored.
const (
	InvitationPending  = "pending"
	InvitationAccepted = "accepted"
	InvitationDeclined = "declined"
)

// Causes of an invitation's end without an answer.
const (
	causeWithdrawn = "withdrawn" // by an owner
	causeReplaced  = "replaced"  // by a newer invitation for the same email, or by newer answers
	causeInviter   = "inviter"   // its sender is no longer an owner
	causeExpired   = "expired"
)

// Invitation asks the holder of an email to become a member. To answer it needs its token, which
// the inviting owner hands over, and an account of that email. The email alone proves nothing,
// because an account's email is not verified. The token alone is useless to another account. An
// answered invitation is remembered until ExpiresAt, so that a repeated answer gets the same reply.
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

// InvitationDocument is the record of an invitation.
type InvitationDocument struct {
	Email string `json:"email"` // as the owner entered it
}

// InvitationToken maps a token to its workspace.
type InvitationToken struct {
	WorkspaceID string `json:"workspaceId"`
}

// Invite invites the holder of an email and replaces a pending invitation of the same email. Owners
// only. The reply is the Invitation.
type Invite struct {
	ID, Email, EmailHash, TokenHash, Role string
	UserID                                string // the account of the email, "" when there is none
	By                                    Principal
}

// ListInvitations lists the pending invitations for an owner, oldest first. The reply is
// []Invitation.
type ListInvitations struct{ By Principal }

// WithdrawInvitation ends a pending invitation. Owners only. The reply is the Invitation.
type WithdrawInvitation struct {
	ID string
	By Principal
}

// Invitee is an account that presents a token, with the hash of the account's email.
type Invitee struct{ TokenHash, UserID, EmailHash string }

// ShowInvitation shows an invitation to its Invitee. The reply is Invited. It changes nothing.
type ShowInvitation struct{ Invitee }

// AcceptInvitation makes the invitee a member. The reply is Invited.
type AcceptInvitation struct{ Invitee }

// DeclineInvitation ends the invitation. The reply is Invited.
type DeclineInvitation struct{ Invitee }

// Invited is an invitation as its invitee sees it.
type Invited struct {
	Invitation Invitation
	Workspace  string
	Name       string // the workspace's name
}

// invitationList is the pending and the remembered invitations of a workspace, oldest first.
type invitationList []Invitation

// pendingForOthers counts the pending invitations of other emails. inviteMember compares it with
// MaxInvitations.
func (l invitationList) pendingForOthers(emailHash string, at decision.Stamp) int {
	n := 0
	for i := range l {
		if l[i].isPending(at) && l[i].EmailHash != emailHash {
			n++
		}
	}
	return n
}

// oldestAnswered returns the index of the answered invitation to drop for one more, or -1 below
// MaxAnswered.
func (l invitationList) oldestAnswered() int {
	oldest, n := -1, 0
	for i := range l {
		if l[i].Status == InvitationPending {
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

// inviteMember invites an email. It fails with requireRole's faults unless the caller is an owner,
// with invalid_body, with already_member, and with limit_exceeded for too many pending invitations.
// A role needs the invitation's token, because an account may have taken another person's email.
func (s *State) inviteMember(m decision.Meta, c Invite) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner); err != nil {
		return decision.Decision{}, err
	}
	if err := checkRole(c.Role); err != nil {
		return decision.Decision{}, err
	}
	if s.Members.index(c.UserID) >= 0 {
		return decision.Decision{}, fault.New(fault.AlreadyMember, "email: a member of the workspace has it; "+
			"a role is changed by the member's user id")
	}
	at := decision.StampOf(m.At)
	if s.Invitations.pendingForOthers(c.EmailHash, at) >= MaxInvitations {
		return decision.Decision{}, limitExceeded("at most %d pending invitations", MaxInvitations)
	}
	if c.ID == "" || c.EmailHash == "" || c.TokenHash == "" || c.Email == "" {
		panic("BUG: invitation without an id, a token or an email")
	}
	invitation := Invitation{
		ID: c.ID, EmailHash: c.EmailHash, TokenHash: c.TokenHash, Role: c.Role, InvitedBy: c.By.principalID(),
		CreatedAt: at,
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

// listInvitations replies the pending invitations. It fails with requireRole's faults unless the
// caller is an owner.
func (s *State) listInvitations(m decision.Meta, c ListInvitations) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner); err != nil {
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

// withdrawInvitation ends a pending invitation. It fails with requireRole's faults unless the
// caller is an owner, and with not_found for an invitation that is not pending.
func (s *State) withdrawInvitation(m decision.Meta, c WithdrawInvitation) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner); err != nil {
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

// findPresented returns the invitation of a token for its invitee. It fails with not_found for a
// token that is unknown, ended, for another email or answered differently, and for an accepted
// token whose member was removed.
func (s *State) findPresented(m decision.Meta, by Invitee, statuses ...string) (Invitation, error) {
	for _, invitation := range s.Invitations {
		if invitation.TokenHash != by.TokenHash || invitation.EmailHash != by.EmailHash {
			continue
		}
		gone := invitation.Status == InvitationAccepted && s.Members.index(by.UserID) < 0
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

// acceptInvitation makes the invitee a member; a repeat replies the same. It fails with
// findPresented's not_found, and with limit_exceeded for a full workspace.
func (s *State) acceptInvitation(m decision.Meta, c AcceptInvitation) (decision.Decision, error) {
	invitation, err := s.findPresented(m, c.Invitee, InvitationPending, InvitationAccepted)
	if err != nil {
		return decision.Decision{}, err
	}
	if invitation.Status == InvitationAccepted {
		return decision.Decision{Reply: s.viewInvited(invitation)}, nil
	}
	if len(s.Members) >= MaxMembers {
		return decision.Decision{}, limitExceeded("at most %d members", MaxMembers)
	}
	d := s.noteAnswer(m, invitation, c.Invitee, InvitationAccepted)
	if s.Members.index(c.UserID) < 0 {
		at := decision.StampOf(m.At)
		d.Events = append(d.Events,
			MemberAdded{Workspace: s.ID, Name: s.Name, User: c.UserID, Role: invitation.Role, At: at})
	}
	return d, nil
}

// declineInvitation records the refusal; a repeat replies the same. It fails with findPresented's
// not_found.
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

// noteAnswer records the answer. The email is deleted; the token is remembered for a repeat.
func (s *State) noteAnswer(m decision.Meta, invitation Invitation, by Invitee, status string) decision.Decision {
	at := decision.StampOf(m.At)
	invitation.Status, invitation.AnsweredBy = status, by.UserID
	d := decision.Decision{Reply: s.viewInvited(invitation)}
	if oldest := s.Invitations.oldestAnswered(); oldest >= 0 {
		s.endInvitation(&d, s.Invitations[oldest], causeReplaced, at)
	}
	d.Events = append(d.Events, InvitationAnswered{
		Workspace: s.ID, Invitation: invitation.ID, User: by.UserID, Status: status, At: at,
	})
	d.Records = append(d.Records, decision.Record{Kind: RecordInvitation, ID: invitation.ID, Delete: true})
	return d
}

func (s *State) viewInvited(invitation Invitation) Invited {
	return Invited{Invitation: invitation, Workspace: s.ID, Name: s.Name}
}

// fireTimer ends an expired invitation. It removes the timer of an ended invitation and resets an
// early timer.
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

// endInvitationsOf ends the pending invitations sent by a user.
func (s *State) endInvitationsOf(d *decision.Decision, userID string, at decision.Stamp) {
	for _, invitation := range s.Invitations {
		if invitation.InvitedBy == userID && invitation.Status == InvitationPending {
			s.endInvitation(d, invitation, causeInviter, at)
		}
	}
}

// endInvitation adds the end of an invitation to a decision: its event, the deletion of its records
// and of its timer.
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
