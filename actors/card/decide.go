package card

import (
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide returns the decision for Mint, Update or decision.Read. Each reply is a View. The actor of
// the card calls it and commits the result. Its errors are faults: not_found for a card that does
// not exist, and those of mintCard and updateCard. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Mint:
		return s.mintCard(m, c)
	case Update:
		return s.updateCard(m, c)
	case decision.Read:
		if s.Card == "" {
			return decision.Decision{}, fault.New(fault.NotFound, "")
		}
		return decision.Decision{Reply: s.View()}, nil
	}
	panic(fmt.Sprintf("BUG: card command %T", command))
}

// mintCard issues the card and counts it against MaxPerWorkspace, which the commit checks. It fails
// with invalid_body for a wrong holder, limit or allowlist. A second Mint of the same physical card
// is replied again; any other second Mint panics.
func (s *State) mintCard(m decision.Meta, c Mint) (decision.Decision, error) {
	if s.Card != "" {
		return s.mintAgain(c)
	}
	if err := c.validate(); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	if !c.OrderedAt.IsZero() {
		at = c.OrderedAt
	}
	e := Minted{
		Terms: c.terms(), Last4: c.Last4, HolderKind: c.HolderKind, CardholderID: c.CardholderID,
		Physical: c.Physical, Fixture: c.Fixture, At: at,
	}
	mustBeValid(e.Terms.validate())
	d := s.cardDecision(e)
	d.Records = []decision.Record{{Kind: RecordLabel, ID: c.ID, Document: Label{c.HolderLabel}, Personal: true}}
	d.Tallies = []decision.Tally{{Name: "card", ID: c.ID, Max: MaxPerWorkspace}}
	return d, nil
}

// mintAgain answers a second Mint of the same physical card, because fulfilment may crash before it
// sees the first reply. It never fails, but panics for a card that was minted otherwise.
func (s *State) mintAgain(c Mint) (decision.Decision, error) {
	if !s.Physical || !c.Physical || s.Card != c.ID || s.Token != c.Token {
		panic("BUG: card minted twice")
	}
	return decision.Decision{Reply: s.View()}, nil
}

// updateCard changes limits, allowlists or the state. It fails with invalid_body for an empty
// update or a wrong value, with not_found, and with card_terminated unless the update only
// terminates the card.
func (s *State) updateCard(m decision.Meta, c Update) (decision.Decision, error) {
	if err := c.validate(); err != nil {
		return decision.Decision{}, err
	}
	if s.Card == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if s.State == StateTerminated && !c.onlyTerminates() {
		return decision.Decision{}, fault.New(fault.CardTerminated, "a terminated card cannot be changed")
	}
	return s.cardDecision(s.changeEvents(c, decision.StampOf(m.At))...), nil
}

// stateEvent returns the event that announces the state of the terms. An unknown state panics.
func stateEvent(terms Terms, at decision.Stamp) decision.Event {
	switch terms.State {
	case StateActive:
		return Unfrozen{terms, at}
	case StateFrozen:
		return Frozen{terms, at}
	case StateTerminated:
		return Terminated{terms, at}
	}
	panic("BUG: card state " + terms.State)
}

// cardDecision replies with the card as it is after the events.
func (s *State) cardDecision(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

// Apply folds an event into the state. The actor of the card calls it for each event that it
// decides; it loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Minted:
		*s = State{
			Terms: e.Terms, Last4: e.Last4, HolderKind: e.HolderKind, CardholderID: e.CardholderID,
			Physical: e.Physical, Fixture: e.Fixture, CreatedAt: e.At, UpdatedAt: e.At,
		}
	case Frozen:
		s.Terms, s.UpdatedAt = e.Terms, e.At
	case Unfrozen:
		s.Terms, s.UpdatedAt = e.Terms, e.At
	case Terminated:
		s.Terms, s.UpdatedAt = e.Terms, e.At
	case LimitsChanged:
		s.Terms, s.UpdatedAt = e.Terms, e.At
	case ScopesChanged:
		s.Terms, s.UpdatedAt = e.Terms, e.At
	default:
		panic(fmt.Sprintf("BUG: card event %T", e))
	}
}

// cloneList copies an allowlist. An empty list stays empty and never becomes null, because null
// allows everything.
func cloneList(list *[]string) *[]string {
	if list == nil {
		return nil
	}
	c := append(make([]string, 0, len(*list)), *list...)
	return &c
}

func sameList(a, b *[]string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(*a, *b)
}
