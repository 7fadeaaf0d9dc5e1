package actors

import (
	"fmt"
	"time"

	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/actors/checkout"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/derivation"
	"purser/actors/ramp"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
)

// Kind is one row of the table of actors: the whole of what the runtime must be told about a domain package.
type Kind struct {
	Name string
	New  func() State
	// Rules says that answers of this kind report what the authorizer enforces: they wait until it has applied it.
	Rules bool
	// AsksAgain reports that a timer, by its key, only calls another party again and ends no
	// promise. nil: no timer does.
	AsksAgain func(key string) bool
	// Personal names the kinds of its records that are sealed. See package seal.
	Personal []string
	// Follow adds to f what the authorizer must know of an event; nil when it needs none of them.
	Follow func(e *persistence.Event, f *authorizer.Follow) error
}

// Kinds is the table of the product's actors.
func Kinds() []Kind {
	return []Kind{
		{Name: "user", New: func() State { return new(user.State) },
			Personal: []string{user.RecordCredential, user.RecordPlaces}},
		{Name: "workspace", New: func() State { return new(workspace.State) },
			Personal: []string{workspace.RecordInvitation}},
		{Name: "cardholder", New: func() State { return new(cardholder.State) },
			Personal: []string{cardholder.RecordPerson}},
		{Name: "counterparty", New: func() State { return new(counterparty.State) },
			Personal: []string{counterparty.RecordView, counterparty.RecordAccount}},
		{Name: "agent", New: func() State { return new(agent.State) }},
		{Name: "card", New: func() State { return new(card.State) }, Rules: true, Follow: followCard,
			Personal: []string{card.RecordLabel}},
		{Name: "balance", New: func() State { return new(balance.State) }, Rules: true, AsksAgain: balance.AsksAgain,
			Follow: followBalance,
			Personal: []string{balance.RecordPayoutText, balance.RecordPayinText, balance.RecordPhysicalText,
				balance.RecordUnmatched}},
		{Name: "checkout", New: func() State { return new(checkout.State) }, Personal: []string{checkout.RecordText}},
		{Name: "ramp", New: func() State { return new(ramp.State) }, AsksAgain: always},
		{Name: "derivation", New: func() State { return new(derivation.State) }},
		{Name: "webhook", New: func() State { return new(webhook.State) }, AsksAgain: always,
			Personal: []string{webhook.RecordEndpoint}},
	}
}

func always(string) bool { return true }

func followCard(e *persistence.Event, f *authorizer.Follow) error {
	event, err := card.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	if rule, ok := card.RuleOf(event, e.Version); ok {
		f.Rules = append(f.Rules, rule)
	}
	return nil
}

func followBalance(e *persistence.Event, f *authorizer.Follow) error {
	if e.Type == (balance.Relayed{}).EventType() {
		return nil // the authorizer's own decisions, coming back
	}
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	id, cents, settles, ok := balance.Credit(event)
	if !ok {
		return nil
	}
	c := authorizer.Credit{Cents: cents}
	if c.Workspace, err = ident.Parse(ident.Workspace, id); err != nil {
		return fmt.Errorf("credited workspace: %w", err)
	}
	if settles != "" {
		if c.Settles, err = ident.Parse(ident.Reservation, settles); err != nil {
			return fmt.Errorf("settled reservation: %w", err)
		}
	}
	f.Credits = append(f.Credits, c)
	return nil
}

func (s *System) allReactions() []Reaction { return append(s.reactions(), s.hooks.Reactions...) }

func (s *System) reactions() []Reaction {
	return []Reaction{
		{Name: "payouts", Handle: s.sendPayouts, Events: []decision.Event{balance.PayoutCreated{}, balance.PayoutMoved{}}},
		{Name: "conversions", Handle: s.tellDesk,
			Events: []decision.Event{balance.ConversionCreated{}, balance.ConversionMoved{}}},
		{Name: "recipients", Handle: s.tokenizeRecipients, Events: []decision.Event{counterparty.Saved{}}},
		{Name: "physical_cards", Handle: s.fulfilPhysical, Events: []decision.Event{balance.PhysicalCardOrdered{}}},
		{Name: "watch", Handle: s.noteWatched, Events: []decision.Event{checkout.Selected{}, checkout.WatchEnded{}}},
	}
}

// reactionKeyLife keeps the once-key of a reaction past any crash between the deed and the cursor.
const reactionKeyLife = 24 * time.Hour
