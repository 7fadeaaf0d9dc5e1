package counterparty

import (
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide says what follows from a command. Errors are faults. decision.Read answers the State, of a removed recipient too.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if save, ok := command.(Save); ok {
		return s.save(m, save)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Tokenize:
		if c.Token == "" {
			panic("BUG: an empty token")
		}
		return s.handOver(Tokenized{ID: s.ID, Workspace: s.Workspace, Token: c.Token, At: decision.StampOf(m.At)}), nil
	case Refuse:
		return s.handOver(Refused{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}), nil
	case Remove:
		return s.remove(m), nil
	case decision.Fire:
		return s.forget(c.Key), nil
	case decision.Read:
		return decision.Decision{Reply: *s}, nil
	}
	panic(fmt.Sprintf("BUG: counterparty command %T", command))
}

func (s *State) save(m decision.Meta, c Save) (decision.Decision, error) {
	if s.ID != "" || c.ID == "" || c.Workspace == "" {
		panic("BUG: counterparty saved twice, or without an id or a workspace")
	}
	a := c.Account.Normal()
	if err := a.Check(); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	view := a.view(c.ID, at)
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

// handOver ends the time for which the account's number is kept, once.
func (s *State) handOver(e decision.Event) decision.Decision {
	if s.handedOver() {
		return decision.Decision{Reply: *s}
	}
	after := *s
	after.Apply(e)
	d := decision.Decision{
		Events: []decision.Event{e}, Reply: after, Records: []decision.Record{{Kind: RecordAccount, ID: s.ID, Delete: true}},
	}
	if s.Removed {
		d.Timers = []decision.Timer{{Key: timerForget}}
	}
	return d
}

// remove leaves the account's number for KeptRemoved where the bank has not had it yet: a payout may wait for it.
func (s *State) remove(m decision.Meta) decision.Decision {
	if s.Removed {
		return decision.Decision{}
	}
	d := decision.Decision{
		Events:  []decision.Event{Removed{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordView, ID: s.ID, Delete: true}},
	}
	if !s.handedOver() {
		d.Timers = []decision.Timer{{Key: timerForget, Due: m.At.Add(KeptRemoved)}}
	}
	return d
}

// forget deletes the account's number of a removed recipient. The bank never pays to it.
func (s *State) forget(key string) decision.Decision {
	if key != timerForget {
		panic("BUG: timer of a counterparty " + key)
	}
	if s.handedOver() {
		return decision.Decision{}
	}
	return decision.Decision{Records: []decision.Record{{Kind: RecordAccount, ID: s.ID, Delete: true}}}
}

// handedOver says whether the bank has had the account's number, so that it is kept no more.
func (s *State) handedOver() bool { return s.Token != "" || s.Refused }

// Apply folds an event.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Saved:
		*s = State{ID: e.ID, Workspace: e.Workspace, Kind: e.Kind, Currency: e.Currency, Country: e.Country, CreatedAt: e.At}
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
