package card

import (
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Decide says what follows from Mint, Update or decision.Read; each answers a View. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Mint:
		return s.mint(m, c)
	case Update:
		return s.update(m, c)
	case decision.Read:
		if s.Card == "" {
			return decision.Decision{}, fault.New(fault.NotFound, "")
		}
		return decision.Decision{Reply: s.View()}, nil
	}
	panic(fmt.Sprintf("BUG: card command %T", command))
}

func (s *State) mint(m decision.Meta, c Mint) (decision.Decision, error) {
	if s.Card != "" {
		return s.mintAgain(c)
	}
	if err := c.check(); err != nil {
		return decision.Decision{}, err
	}
	at := decision.StampOf(m.At)
	if !c.OrderedAt.IsZero() {
		at = c.OrderedAt
	}
	e := Minted{
		Terms: Terms{
			Token: c.Token, Card: c.ID, Workspace: c.Workspace, State: StateActive,
			MonthlyLimitUsdCents: c.MonthlyLimitUsdCents, PerTxnLimitUsdCents: c.PerTxnLimitUsdCents,
			AllowedMccs: clone(c.AllowedMccs), AllowedMerchants: clone(c.AllowedMerchants),
		},
		Last4: c.Last4, HolderKind: c.HolderKind, CardholderID: c.CardholderID,
		Physical: c.Physical, Fixture: c.Fixture, At: at,
	}
	must(e.Terms.check())
	d := s.decided(e)
	d.Records = []decision.Record{{Kind: RecordLabel, ID: c.ID, Document: Label{c.HolderLabel}, Personal: true}}
	d.Tallies = []decision.Tally{{Name: "card", ID: c.ID, Max: MaxPerWorkspace}}
	return d, nil
}

// mintAgain answers who mints the same physical card once more: whoever fulfils an order may crash before it has heard of it.
func (s *State) mintAgain(c Mint) (decision.Decision, error) {
	if !s.Physical || !c.Physical || s.Card != c.ID || s.Token != c.Token {
		panic("BUG: minted twice")
	}
	return decision.Decision{Reply: s.View()}, nil
}

func (s *State) update(m decision.Meta, c Update) (decision.Decision, error) {
	if err := c.check(); err != nil {
		return decision.Decision{}, err
	}
	if s.Card == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if s.State == StateTerminated && !c.endsOnly() {
		return decision.Decision{}, fault.New(fault.CardTerminated, "a terminated card cannot be changed")
	}
	return s.decided(s.changes(c, decision.StampOf(m.At))...), nil
}

// endsOnly tells the one update that a terminated card answers.
func (c Update) endsOnly() bool {
	return c.State != nil && *c.State == StateTerminated && c.changesNoRule()
}

func (c Update) changesNoRule() bool {
	return c.MonthlyLimitUsdCents == nil && c.PerTxnLimitUsdCents == nil && !c.AllowedMccs.Set && !c.AllowedMerchants.Set
}

// changes lists what differs, the state last: whoever follows sees a card's final rule with its final state.
func (s *State) changes(c Update, at decision.Stamp) []decision.Event {
	var events []decision.Event
	terms := s.Terms
	if c.MonthlyLimitUsdCents != nil {
		terms.MonthlyLimitUsdCents = *c.MonthlyLimitUsdCents
	}
	if c.PerTxnLimitUsdCents != nil {
		terms.PerTxnLimitUsdCents = *c.PerTxnLimitUsdCents
	}
	if terms.MonthlyLimitUsdCents != s.MonthlyLimitUsdCents || terms.PerTxnLimitUsdCents != s.PerTxnLimitUsdCents {
		events = append(events, LimitsChanged{terms, at})
	}
	if c.AllowedMccs.Set {
		terms.AllowedMccs = clone(c.AllowedMccs.Value)
	}
	if c.AllowedMerchants.Set {
		terms.AllowedMerchants = clone(c.AllowedMerchants.Value)
	}
	if !same(terms.AllowedMccs, s.AllowedMccs) || !same(terms.AllowedMerchants, s.AllowedMerchants) {
		events = append(events, ScopesChanged{terms, at})
	}
	if c.State != nil && *c.State != s.State {
		terms.State = *c.State
		events = append(events, moved(terms, at))
	}
	return events
}

func moved(terms Terms, at decision.Stamp) decision.Event {
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

// decided answers the card as it stands after the events.
func (s *State) decided(events ...decision.Event) decision.Decision {
	after := *s
	for _, e := range events {
		after.Apply(e)
	}
	return decision.Decision{Events: events, Reply: after.View()}
}

// Apply folds an event.
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

// View copies the card as the interface shows it.
func (s *State) View() View {
	v := View{
		ID: s.Card, WorkspaceID: s.Workspace, HolderKind: s.HolderKind, State: s.State, Last4: s.Last4,
		PartnerCardToken: s.Token, MonthlyLimitUsdCents: s.MonthlyLimitUsdCents, PerTxnLimitUsdCents: s.PerTxnLimitUsdCents,
		AllowedMccs: clone(s.AllowedMccs), AllowedMerchants: clone(s.AllowedMerchants),
		Physical: s.Physical, Fixture: s.Fixture, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if holder := s.CardholderID; holder != "" {
		v.CardholderID = &holder
	}
	return v
}

// clone copies an allowlist; an empty one stays empty and never becomes null, for null allows all.
func clone(list *[]string) *[]string {
	if list == nil {
		return nil
	}
	c := append(make([]string, 0, len(*list)), *list...)
	return &c
}

func same(a, b *[]string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(*a, *b)
}
