package workspace

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide returns the decision for a command. The workspace's actor calls it and commits the result.
// Its errors are the faults of the command's decision; not_found for a workspace that does not
// exist. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if c, ok := command.(Create); ok {
		return s.createWorkspace(m, c)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Authenticate:
		return s.authenticateKey(m, c)
	case LookUpRole:
		return s.memberAccess(c)
	case CreateKey:
		return s.createKey(m, c)
	case RevokeKey:
		return s.revokeKey(m, c)
	case NoteUse:
		return s.noteUse(m, c)
	case ListMembers:
		return s.listMembers(c)
	case ChangeRole:
		return s.changeRole(m, c)
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
	case Rename:
		return s.renameWorkspace(m, c)
	case SetMode:
		return s.setMode(m, c)
	case SetKYB:
		return s.setKYB(m, c)
	case decision.Read:
		return decision.Decision{Reply: s.View()}, nil
	}
	panic(fmt.Sprintf("BUG: workspace command %T", command))
}

// createWorkspace creates the workspace with its owners and first key. It fails with the faults of
// Create.validate. A second Create, or one without an id, panics.
func (s *State) createWorkspace(m decision.Meta, c Create) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: workspace created twice")
	}
	if err := c.validate(); err != nil {
		return decision.Decision{}, err
	}
	if c.ID == "" || c.FirstKey.CreatedBy == "" {
		panic("BUG: workspace without an id, or first key without a maker")
	}
	at := decision.StampOf(m.At)
	plan := c.Plan
	if plan == "" {
		plan = Alpha
	}
	e := WorkspaceCreated{
		ID: c.ID, Name: c.Name, Plan: plan, Mode: Sandbox, KYBStatus: NotStarted,
		Issuer: Issuer{ID: c.IssuerID, Fixture: c.IssuerFixture}, Owners: slices.Clone(c.OwnerIDs), Founder: c.Founder,
		FirstKey: c.FirstKey.liveKey(FirstKeyScopes(), at), At: at,
	}
	var after State
	after.Apply(e)
	return decision.Decision{
		Events:  []decision.Event{e},
		Reply:   Created{Workspace: after.View(), APIKey: e.FirstKey.apiKey()},
		Records: after.keyRecords(e.FirstKey),
	}, nil
}

// validate fails with invalid_body for a wrong name, plan or label or without an owner, and with
// limit_exceeded for more than MaxMembers owners.
func (c Create) validate() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if !slices.Contains([]string{"", Alpha, Growth}, c.Plan) {
		return invalidBody("plan: alpha or growth")
	}
	if err := checkLabel(c.FirstKey.Label); err != nil {
		return err
	}
	if len(c.OwnerIDs) == 0 {
		return invalidBody("a workspace needs an owner")
	}
	if len(c.OwnerIDs) > MaxMembers {
		return limitExceeded("at most %d members", MaxMembers)
	}
	return nil
}

// checkName fails with invalid_body for a name that is too short or too long.
func checkName(name string) error {
	if n := utf8.RuneCountInString(name); n < MinName || n > MaxName {
		return invalidBody("name: %d to %d characters", MinName, MaxName)
	}
	return nil
}

// renameWorkspace changes the name; the present name changes nothing. It fails with requireRole's
// faults for a caller who is neither owner nor admin, and with invalid_body for a wrong name.
func (s *State) renameWorkspace(m decision.Meta, c Rename) (decision.Decision, error) {
	if err := s.requireRole(c.By, Owner, Admin); err != nil {
		return decision.Decision{}, err
	}
	if err := checkName(c.Name); err != nil {
		return decision.Decision{}, err
	}
	if c.Name == s.Name {
		return decision.Decision{Reply: s.View()}, nil
	}
	return s.workspaceDecision(WorkspaceRenamed{Workspace: s.ID, Name: c.Name, Members: slices.Clone(s.Members),
		By: c.By.principalID(), At: decision.StampOf(m.At)}), nil
}

// setMode changes the mode. A verification that the sandbox accepted is void in live mode: it
// begins again. It fails with invalid_body for another mode; the present mode changes nothing.
// Decide calls it; no route sends the command today.
func (s *State) setMode(m decision.Meta, c SetMode) (decision.Decision, error) {
	if c.Mode != Sandbox && c.Mode != Live {
		return decision.Decision{}, invalidBody("mode: sandbox or live")
	}
	if c.Mode == s.Mode {
		return decision.Decision{Reply: s.View()}, nil
	}
	moved := ModeChanged{Workspace: s.ID, Mode: c.Mode, At: decision.StampOf(m.At)}
	if c.Mode == Live && s.KYBBySandbox {
		return s.workspaceDecision(moved, KYBChanged{Workspace: s.ID, Status: NotStarted, BankStatus: Placeholder,
			At: moved.At}), nil
	}
	return s.workspaceDecision(moved), nil
}

// setKYB sets the status of the business verification, and opens the real bank account when the
// verification is submitted. The account stays open, also after a rejection. It fails with
// invalid_body for an unknown status.
func (s *State) setKYB(m decision.Meta, c SetKYB) (decision.Decision, error) {
	if !slices.Contains([]string{NotStarted, Pending, Approved, Rejected}, c.Status) {
		return decision.Decision{}, invalidBody("status: not_started, pending, approved or rejected")
	}
	if c.Status == s.KYBStatus && (c.BySandbox || !s.KYBBySandbox) {
		return decision.Decision{Reply: s.View()}, nil
	}
	bank := s.BankStatus
	if c.Status != NotStarted {
		bank = Open
	}
	return s.workspaceDecision(KYBChanged{Workspace: s.ID, Status: c.Status, BankStatus: bank, BySandbox: c.BySandbox,
		At: decision.StampOf(m.At)}), nil
}

// workspaceDecision replies with the workspace as it is after events that change the workspace
// itself.
func (s *State) workspaceDecision(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

// View returns a copy of the workspace as the interface shows it. The decisions reply it to the
// workspace routes.
func (s *State) View() View {
	return View{
		ID: s.ID, Name: s.Name, Plan: s.Plan, Mode: s.Mode, KYBStatus: s.KYBStatus,
		BankAccount: BankAccount{Status: s.BankStatus}, IssuerAccount: s.Issuer, CreatedAt: s.CreatedAt,
	}
}

func invalidBody(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

func limitExceeded(format string, args ...any) *fault.Error {
	return fault.New(fault.LimitExceeded, fmt.Sprintf(format, args...))
}
