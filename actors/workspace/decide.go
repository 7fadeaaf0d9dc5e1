package workspace

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide says what follows from a command. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if c, ok := command.(Create); ok {
		return s.create(m, c)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Authenticate:
		return s.authenticate(m, c)
	case Role:
		return s.role(c)
	case CreateKey:
		return s.createKey(m, c)
	case RevokeKey:
		return s.revokeKey(m, c)
	case NoteUse:
		return s.noteUse(m, c)
	case ListMembers:
		return s.listMembers(c)
	case RemoveMember:
		return s.removeMember(m, c)
	case Invite:
		return s.inviteMember(m, c)
	case ListInvitations:
		return s.listInvitations(m, c)
	case WithdrawInvitation:
		return s.withdrawInvitation(m, c)
	case ShowInvitation:
		return s.showInvitation(m, c)
	case AcceptInvitation:
		return s.acceptInvitation(m, c)
	case DeclineInvitation:
		return s.declineInvitation(m, c)
	case decision.Fire:
		return s.fireTimer(m, c), nil
	case SetMode:
		return s.setMode(m, c)
	case SetKYB:
		return s.setKYB(m, c)
	case decision.Read:
		return decision.Decision{Reply: s.View()}, nil
	}
	panic(fmt.Sprintf("BUG: workspace command %T", command))
}

func (s *State) create(m decision.Meta, c Create) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: workspace created twice")
	}
	if err := c.check(); err != nil {
		return decision.Decision{}, err
	}
	if c.ID == "" || c.FirstKey.CreatedBy == "" {
		panic("BUG: workspace without an id or a maker")
	}
	at := decision.StampOf(m.At)
	plan := c.Plan
	if plan == "" {
		plan = Alpha
	}
	e := WorkspaceCreated{
		ID: c.ID, Name: c.Name, Plan: plan, Mode: Sandbox, KYBStatus: NotStarted,
		Issuer: Issuer{ID: c.IssuerID, Fixture: c.IssuerFixture}, Owners: slices.Clone(c.OwnerIDs), Founder: c.Founder,
		FirstKey: c.FirstKey.key(FirstKeyScopes(), at), At: at,
	}
	var after State
	after.Apply(e)
	return decision.Decision{
		Events:  []decision.Event{e},
		Reply:   Created{Workspace: after.View(), APIKey: e.FirstKey.view()},
		Records: after.keyRecords(e.FirstKey),
	}, nil
}

func (c Create) check() error {
	if n := utf8.RuneCountInString(c.Name); n < MinName || n > MaxName {
		return invalid("name: %d to %d characters", MinName, MaxName)
	}
	if !slices.Contains([]string{"", Alpha, Growth}, c.Plan) {
		return invalid("plan: alpha or growth")
	}
	if err := checkLabel(c.FirstKey.Label); err != nil {
		return err
	}
	if len(c.OwnerIDs) == 0 {
		return invalid("a workspace needs an owner")
	}
	if len(c.OwnerIDs) > MaxMembers {
		return limit("at most %d members", MaxMembers)
	}
	return nil
}

// setMode moves a workspace between the modes. What the sandbox accepted counts for nothing in live
// mode: the verification begins anew.
func (s *State) setMode(m decision.Meta, c SetMode) (decision.Decision, error) {
	if c.Mode != Sandbox && c.Mode != Live {
		return decision.Decision{}, invalid("mode: sandbox or live")
	}
	if c.Mode == s.Mode {
		return decision.Decision{Reply: s.View()}, nil
	}
	moved := ModeChanged{Workspace: s.ID, Mode: c.Mode, At: decision.StampOf(m.At)}
	if c.Mode == Live && s.KYBBySandbox {
		return s.decided(moved, KYBChanged{Workspace: s.ID, Status: NotStarted, BankStatus: Placeholder,
			At: moved.At}), nil
	}
	return s.decided(moved), nil
}

// setKYB opens the real bank account when the verification is submitted; it stays open whatever comes of it.
func (s *State) setKYB(m decision.Meta, c SetKYB) (decision.Decision, error) {
	if !slices.Contains([]string{NotStarted, Pending, Approved, Rejected}, c.Status) {
		return decision.Decision{}, invalid("status: not_started, pending, approved or rejected")
	}
	if c.Status == s.KYBStatus && (c.BySandbox || !s.KYBBySandbox) {
		return decision.Decision{Reply: s.View()}, nil
	}
	bank := s.BankStatus
	if c.Status != NotStarted {
		bank = Open
	}
	return s.decided(KYBChanged{Workspace: s.ID, Status: c.Status, BankStatus: bank, BySandbox: c.BySandbox,
		At: decision.StampOf(m.At)}), nil
}

// decided answers the workspace as it stands after events that change the workspace itself.
func (s *State) decided(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

// View copies the workspace as the interface shows it.
func (s *State) View() View {
	return View{
		ID: s.ID, Name: s.Name, Plan: s.Plan, Mode: s.Mode, KYBStatus: s.KYBStatus,
		BankAccount: BankAccount{Status: s.BankStatus}, IssuerAccount: s.Issuer, CreatedAt: s.CreatedAt,
	}
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

func limit(format string, args ...any) *fault.Error {
	return fault.New(fault.LimitExceeded, fmt.Sprintf(format, args...))
}
