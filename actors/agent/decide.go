package agent

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/fault"
)

// Protocols lists what agents speak.
func Protocols() []string { return []string{"TAP", "MPP", "ACP"} }

// Decide says what follows from Register, Change, Accept, Refuse or decision.Read; the last answers the State, which is the
// caller's. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if register, ok := command.(Register); ok {
		return s.register(m, register)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Change:
		return s.change(m, c)
	case Accept:
		return s.accept(m, c)
	case Refuse:
		return s.refuse(m, c)
	case decision.Read:
		return decision.Decision{Reply: s.copy()}, nil
	}
	panic(fmt.Sprintf("BUG: agent command %T", command))
}

func (s *State) copy() State {
	c := *s
	c.Protocols, c.PublicKey = slices.Clone(s.Protocols), slices.Clone(s.PublicKey)
	return c
}

func (s *State) register(m decision.Meta, c Register) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: agent registered twice")
	}
	if err := c.check(); err != nil {
		return decision.Decision{}, err
	}
	key, err := intent.ParsePublicKeyPEM(c.PublicKeyPem)
	if err != nil {
		return decision.Decision{}, invalid("publicKeyPem %v", err)
	}
	protocols := slices.Clone(c.Protocols)
	if protocols == nil {
		protocols = Protocols()
	}
	d := s.decided(Registered{Agent: c.ID, Workspace: c.Workspace, AgentName: c.AgentName, Description: c.Description,
		Protocols: protocols, PublicKeyPem: c.PublicKeyPem, PublicKey: key, KeyID: intent.KeyID(key), At: decision.StampOf(m.At)})
	d.Tallies = []decision.Tally{{Name: "agent", ID: c.ID, Max: MaxPerWorkspace}}
	return d, nil
}

func (c Register) check() error {
	if n := utf8.RuneCountInString(c.AgentName); n < 1 || n > MaxName {
		return invalid("agentName must have 1 to %d characters", MaxName)
	}
	if utf8.RuneCountInString(c.Description) > MaxDescription {
		return invalid("description must have at most %d characters", MaxDescription)
	}
	if c.Protocols != nil && len(c.Protocols) == 0 {
		return invalid("protocols must have at least 1 item")
	}
	for i, protocol := range c.Protocols {
		if !slices.Contains(Protocols(), protocol) || slices.Contains(c.Protocols[:i], protocol) {
			return invalid("protocols[%d] must be TAP, MPP or ACP, each once", i)
		}
	}
	if n := len(c.PublicKeyPem); n < MinPEM || n > MaxPEM {
		return invalid("publicKeyPem must have %d to %d characters", MinPEM, MaxPEM)
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}

// change answers a move to the state already reached, and writes nothing.
func (s *State) change(m decision.Meta, c Change) (decision.Decision, error) {
	moved := Moved{Agent: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}
	switch {
	case c.State != StateActive && c.State != StateFrozen && c.State != StateTerminated:
		return decision.Decision{}, invalid("state must be active, frozen or terminated")
	case c.State == s.State:
		return s.decided(), nil
	case s.State == StateTerminated:
		return decision.Decision{}, fault.New(fault.AgentTerminated, "a terminated agent cannot be changed")
	case c.State == StateFrozen:
		return s.decided(Frozen{moved}), nil
	case c.State == StateTerminated:
		return s.decided(Terminated{moved}), nil
	}
	return s.decided(Unfrozen{moved}), nil
}

// decided answers the agent as it stands after the events.
func (s *State) decided(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

func (s *State) accept(m decision.Meta, c Accept) (decision.Decision, error) {
	if s.State != StateActive {
		return decision.Decision{}, s.inactive().Refusal()
	}
	if c.Parsed == nil || c.Parsed.IntentID != c.IntentID {
		panic("BUG: an intent without its form is accepted")
	}
	at, n := decision.StampOf(m.At), s.Logged+1
	e := IntentAccepted{Agent: s.ID, Workspace: s.Workspace, LogID: c.LogID, Number: n, IntentID: c.IntentID,
		Currency: c.Parsed.Amount.Currency, Cents: c.Parsed.Amount.Cents, Protocol: c.Parsed.Protocol, At: at}
	return s.logged(e, n, LogEntry{LogID: c.LogID, Accepted: true, ReceivedAt: at}, c.Submission), nil
}

func (s *State) refuse(m decision.Meta, c Refuse) (decision.Decision, error) {
	at, n, reason := decision.StampOf(m.At), s.Logged+1, c.Reason.shown()
	e := IntentRefused{Agent: s.ID, Workspace: s.Workspace, LogID: c.LogID, Number: n, Reason: string(reason), At: at}
	return s.logged(e, n, LogEntry{LogID: c.LogID, RejectionReason: &reason, ReceivedAt: at}, c.Submission), nil
}

// logged adds an entry to the log and takes the oldest out of a full one.
func (s *State) logged(e decision.Event, n int64, entry LogEntry, c Submission) decision.Decision {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	entry.IntentID, entry.Signature, entry.KeyID, entry.Intent = given(c.IntentID), given(c.Signature), given(c.KeyID), c.Intent
	d := decision.Decision{Events: []decision.Event{e}, Reply: entry,
		Records: []decision.Record{{Kind: RecordIntent, Parent: s.ID, ID: entryID(s.ID, n), Document: entry}}}
	if n > MaxLog {
		d.Records = append(d.Records, decision.Record{Kind: RecordIntent, Parent: s.ID, ID: entryID(s.ID, n-MaxLog),
			Delete: true})
	}
	return d
}

// Apply folds an event.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Registered:
		*s = State{ID: e.Agent, Workspace: e.Workspace, AgentName: e.AgentName, Description: e.Description,
			Protocols: e.Protocols, State: StateActive, PublicKeyPem: e.PublicKeyPem, PublicKey: e.PublicKey, CreatedAt: e.At}
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
