package cardholder

import (
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide returns the decision for a command. The cardholder's actor calls it and commits the
// result. The reply to Create is a View; the reply to decision.Read is the State, because the
// person is in a record of its own. It fails with Check's invalid_body for Create, and with
// not_found for a Read of no cardholder. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Create:
		return s.createCardholder(m, c)
	case decision.Read:
		if s.ID == "" {
			return decision.Decision{}, fault.New(fault.NotFound, "")
		}
		return decision.Decision{Reply: *s}, nil
	}
	panic(fmt.Sprintf("BUG: cardholder command %T", command))
}

// createCardholder stores the cardholder with the outcome of its enrolment. It fails with Check's
// invalid_body. A second Create, or an unknown outcome, panics.
func (s *State) createCardholder(m decision.Meta, c Create) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: cardholder created twice")
	}
	if err := Check(c.Kind, c.Person, m.At); err != nil {
		return decision.Decision{}, err
	}
	if c.ID == "" || c.Workspace == "" || (c.Enrolment.State == StateActive) != (c.Enrolment.Account != "") {
		panic("BUG: cardholder without an id or a workspace, or active without an account")
	}
	at := decision.StampOf(m.At)
	d := decision.Decision{
		Events:  []decision.Event{Created{ID: c.ID, Workspace: c.Workspace, Kind: c.Kind, At: at}},
		Records: []decision.Record{{Kind: RecordPerson, ID: c.ID, Document: c.Person, Personal: true}},
		Tallies: []decision.Tally{{Name: TallyAll, ID: c.ID, Max: MaxPerWorkspace}},
	}
	switch c.Enrolment.State {
	case StatePending:
	case StateActive:
		d.Events = append(d.Events, Enrolled{ID: c.ID, Workspace: c.Workspace, Account: c.Enrolment.Account, At: at})
		d.Tallies = append(d.Tallies, decision.Tally{Name: TallyActive, ID: c.ID})
	case StateRejected:
		d.Events = append(d.Events, Rejected{ID: c.ID, Workspace: c.Workspace, At: at})
	default:
		panic("BUG: enrolment state " + c.Enrolment.State)
	}
	after := *s
	for _, e := range d.Events {
		after.Apply(e)
	}
	d.Reply = after.View(c.Person)
	return d, nil
}

// Apply folds an event into the state. The cardholder's actor calls it for each event that it
// decides; it loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Created:
		*s = State{ID: e.ID, Workspace: e.Workspace, Kind: e.Kind, State: StatePending, CreatedAt: e.At}
	case Enrolled:
		s.State, s.Account = StateActive, e.Account
	case Rejected:
		s.State = StateRejected
	default:
		panic(fmt.Sprintf("BUG: cardholder event %T", e))
	}
}
