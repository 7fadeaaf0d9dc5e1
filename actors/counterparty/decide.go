package counterparty

import (
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide returns the decision for a command. The recipient's actor calls it and commits the result.
// It fails with Check's invalid_body for Save, and with not_found for a recipient that does not
// exist. The reply to decision.Read is the State, of a removed recipient too. An unknown command
// panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if save, ok := command.(Save); ok {
		return s.saveRecipient(m, save)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Tokenize:
		if c.Token == "" {
			panic("BUG: an empty token")
		}
		return s.finishHandOver(Tokenized{ID: s.ID, Workspace: s.Workspace, Token: c.Token,
			At: decision.StampOf(m.At)}), nil
	case Refuse:
		return s.finishHandOver(Refused{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}), nil
	case Remove:
		return s.removeRecipient(m), nil
	case decision.Fire:
		return s.deleteNumber(c.Key), nil
	case decision.Read:
		return decision.Decision{Reply: *s}, nil
	}
	panic(fmt.Sprintf("BUG: counterparty command %T", command))
}

// saveRecipient stores a new recipient and its account, and counts it against MaxPerWorkspace,
// which the commit checks. It fails with Check's invalid_body. A second Save panics.
func (s *State) saveRecipient(m decision.Meta, c Save) (decision.Decision, error) {
	if s.ID != "" || c.ID == "" || c.Workspace == "" {
		panic("BUG: counterparty saved twice, or without an id or a workspace")
	}
	a := c.Account.Normal()
	if err := a.Check(); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	view := a.viewOf(c.ID, at)
	return decision.Decision{
		Events: []decision.Event{Saved{
			ID: c.ID, Workspace: c.Workspace, Kind: a.Kind, Currency: view.Currency, Country: view.Country, At: at,
		}},
		Reply: view,
		Records: []decision.Record{
			{Kind: RecordView, ID: c.ID, Document: view, Personal: true},
			{Kind: RecordAccount, ID: c.ID, Document: a, Personal: true},
		},
		Tallies: []decision.Tally{{Name: Tally, ID: c.ID, Max: MaxPerWorkspace}},
	}, nil
}

// finishHandOver deletes the account number once the bank has answered. A second answer changes
// nothing.
func (s *State) finishHandOver(e decision.Event) decision.Decision {
	if s.isHandedOver() {
		return decision.Decision{Reply: *s}
	}
	after := *s
	after.Apply(e)
	d := decision.Decision{
		Events: []decision.Event{e}, Reply: after,
		Records: []decision.Record{{Kind: RecordAccount, ID: s.ID, Delete: true}},
	}
	if s.Removed {
		d.Timers = []decision.Timer{{Key: timerDeleteNumber}}
	}
	return d
}

// removeRecipient keeps the account number for RemovedNumberLifetime if the bank has not answered,
// because a payout may wait for the answer. A repeat changes nothing.
func (s *State) removeRecipient(m decision.Meta) decision.Decision {
	if s.Removed {
		return decision.Decision{}
	}
	d := decision.Decision{
		Events:  []decision.Event{Removed{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordView, ID: s.ID, Delete: true}},
	}
	if !s.isHandedOver() {
		d.Timers = []decision.Timer{{Key: timerDeleteNumber, Due: m.At.Add(RemovedNumberLifetime)}}
	}
	return d
}

// deleteNumber deletes the account number of a removed recipient, which the bank then never pays
// to. Once the bank has answered it changes nothing. A key of another timer panics.
func (s *State) deleteNumber(key string) decision.Decision {
	if key != timerDeleteNumber {
		panic("BUG: timer of a counterparty " + key)
	}
	if s.isHandedOver() {
		return decision.Decision{}
	}
	return decision.Decision{Records: []decision.Record{{Kind: RecordAccount, ID: s.ID, Delete: true}}}
}

// isHandedOver reports whether the bank has answered, so that the account number is no longer
// stored.
func (s *State) isHandedOver() bool { return s.Token != "" || s.Refused }

// Apply folds an event into the state. The recipient's actor calls it for each event that it
// decides; it loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Saved:
		*s = State{ID: e.ID, Workspace: e.Workspace, Kind: e.Kind, Currency: e.Currency, Country: e.Country,
			CreatedAt: e.At}
	case Tokenized:
		s.Token = e.Token
	case Refused:
		s.Refused = true
	case Removed:
		s.Removed = true
	default:
		panic(fmt.Sprintf("BUG: counterparty event %T", e))
	}
}
