package agent

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/fault"
)

// Protocols lists the payment protocols of agents. The caller owns the list. The registration of an
// agent checks against it.
func Protocols() []string { return []string{"TAP", "MPP", "ACP"} }

// Decide returns the decision for Register, ChangeState, Accept, Refuse or decision.Read. The
// agent's actor calls it and commits the result. The reply to Read is a State that the caller may
// change. Its errors are the faults of the command's decision; not_found for an agent that does not
// exist. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if register, ok := command.(Register); ok {
		return s.registerAgent(m, register)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case ChangeState:
		return s.changeState(m, c)
	case Accept:
		return s.acceptIntent(m, c)
	case Refuse:
		return s.refuseIntent(m, c)
	case decision.Read:
		return decision.Decision{Reply: s.clone()}, nil
	}
	panic(fmt.Sprintf("BUG: agent command %T", command))
}

func (s *State) clone() State {
	c := *s
	c.Protocols, c.PublicKey = slices.Clone(s.Protocols), slices.Clone(s.PublicKey)
	return c
}

// registerAgent creates the agent and counts it against MaxPerWorkspace, which the commit checks.
// It fails with invalid_body for a wrong field or public key. A second Register panics.
func (s *State) registerAgent(m decision.Meta, c Register) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: agent registered twice")
	}
	if err := c.validate(); err != nil {
		return decision.Decision{}, err
	}
	key, err := intent.ParsePublicKeyPEM(c.PublicKeyPem)
	if err != nil {
		return decision.Decision{}, invalidBody("publicKeyPem %v", err)
	}
	protocols := slices.Clone(c.Protocols)
	if protocols == nil {
		protocols = Protocols()
	}
	d := s.agentDecision(Registered{Agent: c.ID, Workspace: c.Workspace, AgentName: c.AgentName,
		Description: c.Description, Protocols: protocols, PublicKeyPem: c.PublicKeyPem, PublicKey: key,
		KeyID: intent.KeyID(key), At: decision.StampOf(m.At)})
	d.Tallies = []decision.Tally{{Name: "agent", ID: c.ID, Max: MaxPerWorkspace}}
	return d, nil
}

// validate fails with invalid_body and the field's name for a name, description, protocol or key
// out of bounds.
func (c Register) validate() error {
	if n := utf8.RuneCountInString(c.AgentName); n < 1 || n > MaxName {
		return invalidBody("agentName must have 1 to %d characters", MaxName)
	}
	if utf8.RuneCountInString(c.Description) > MaxDescription {
		return invalidBody("description must have at most %d characters", MaxDescription)
	}
	if c.Protocols != nil && len(c.Protocols) == 0 {
		return invalidBody("protocols must have at least 1 item")
	}
	for i, protocol := range c.Protocols {
		if !slices.Contains(Protocols(), protocol) || slices.Contains(c.Protocols[:i], protocol) {
			return invalidBody("protocols[%d] must be TAP, MPP or ACP, each once", i)
		}
	}
	if n := len(c.PublicKeyPem); n < MinPEM || n > MaxPEM {
		return invalidBody("publicKeyPem must have %d to %d characters", MinPEM, MaxPEM)
	}
	return nil
}

func invalidBody(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

// changeState sets the state. Setting the present state writes nothing. It fails with invalid_body
// for an unknown state, and with agent_terminated for any other state of a terminated agent.
func (s *State) changeState(m decision.Meta, c ChangeState) (decision.Decision, error) {
	moved := Moved{Agent: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}
	switch {
	case c.State != StateActive && c.State != StateFrozen && c.State != StateTerminated:
		return decision.Decision{}, invalidBody("state must be active, frozen or terminated")
	case c.State == s.State:
		return s.agentDecision(), nil
	case s.State == StateTerminated:
		return decision.Decision{}, fault.New(fault.AgentTerminated, "a terminated agent cannot be changed")
	case c.State == StateFrozen:
		return s.agentDecision(Frozen{moved}), nil
	case c.State == StateTerminated:
		return s.agentDecision(Terminated{moved}), nil
	}
	return s.agentDecision(Unfrozen{moved}), nil
}

// agentDecision replies with the agent as it is after the events.
func (s *State) agentDecision(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

// acceptIntent logs an accepted intent, which the caller has judged. It fails with the Refusal of a
// frozen or terminated agent, because the state may have changed since. A malformed intent panics.
func (s *State) acceptIntent(m decision.Meta, c Accept) (decision.Decision, error) {
	if s.State != StateActive {
		return decision.Decision{}, s.inactiveReason().Refusal()
	}
	if c.Parsed == nil || c.Parsed.IntentID != c.IntentID {
		panic("BUG: a malformed intent is accepted")
	}
	at, n := decision.StampOf(m.At), s.Logged+1
	e := IntentAccepted{Agent: s.ID, Workspace: s.Workspace, LogID: c.LogID, Number: n, IntentID: c.IntentID,
		Currency: c.Parsed.Amount.Currency, Cents: c.Parsed.Amount.Cents, Protocol: c.Parsed.Protocol, At: at}
	return s.logDecision(e, n, LogEntry{LogID: c.LogID, Accepted: true, ReceivedAt: at}, c.Submission), nil
}

func (s *State) refuseIntent(m decision.Meta, c Refuse) (decision.Decision, error) {
	at, n, reason := decision.StampOf(m.At), s.Logged+1, c.Reason.publicReason()
	e := IntentRefused{Agent: s.ID, Workspace: s.Workspace, LogID: c.LogID, Number: n, Reason: string(reason), At: at}
	return s.logDecision(e, n, LogEntry{LogID: c.LogID, RejectionReason: &reason, ReceivedAt: at}, c.Submission), nil
}

// logDecision adds an entry to the log, and deletes the oldest entry of a full log.
func (s *State) logDecision(e decision.Event, n int64, entry LogEntry, c Submission) decision.Decision {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	entry.IntentID, entry.Signature, entry.KeyID = given(c.IntentID), given(c.Signature), given(c.KeyID)
	entry.Intent = c.Intent
	d := decision.Decision{Events: []decision.Event{e}, Reply: entry,
		Records: []decision.Record{{Kind: RecordIntent, Parent: s.ID, ID: logRecordID(s.ID, n), Document: entry}}}
	if n > MaxLog {
		d.Records = append(d.Records, decision.Record{Kind: RecordIntent, Parent: s.ID, ID: logRecordID(s.ID, n-MaxLog),
			Delete: true})
	}
	return d
}

// Apply folds an event into the state. The agent's actor calls it for each event that it decides;
// it loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Registered:
		*s = State{ID: e.Agent, Workspace: e.Workspace, AgentName: e.AgentName, Description: e.Description,
			Protocols: e.Protocols, State: StateActive, PublicKeyPem: e.PublicKeyPem, PublicKey: e.PublicKey,
			CreatedAt: e.At}
	case Frozen:
		s.State = StateFrozen
	case Unfrozen:
		s.State = StateActive
	case Terminated:
		s.State = StateTerminated
	case IntentAccepted:
		s.Logged = e.Number
	case IntentRefused:
		s.Logged = e.Number
	default:
		panic(fmt.Sprintf("BUG: agent event %T", e))
	}
}
