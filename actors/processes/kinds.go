package processes

import (
	"fmt"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/actors/checkout"
	"purser/actors/counterparty"
	"purser/actors/derivation"
	"purser/actors/ramp"
	"purser/actors/user"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
)

// Kinds returns the table of the actors, one row for each domain package. Start uses it unless
// Config has one, and so do the commands that rebuild or restore an authorizer.
func Kinds() []actors.Kind {
	return []actors.Kind{
		{Name: actors.KindUser, New: func() actors.State { return new(user.State) },
			Personal: []string{user.RecordCredential, user.RecordPlaces, user.RecordFactor, user.RecordPendingFactor,
				user.RecordEmailLink}},
		{Name: actors.KindAddress, New: func() actors.State { return new(user.Address) }},
		{Name: actors.KindWorkspace, New: func() actors.State { return new(workspace.State) },
			Personal: []string{workspace.RecordInvitation}},
		{Name: actors.KindCardholder, New: func() actors.State { return new(cardholder.State) },
			Personal: []string{cardholder.RecordPerson}},
		{Name: actors.KindCounterparty, New: func() actors.State { return new(counterparty.State) },
			Personal: []string{counterparty.RecordView, counterparty.RecordAccount}},
		{Name: actors.KindAgent, New: func() actors.State { return new(agent.State) }},
		{Name: actors.KindCard, New: func() actors.State { return new(card.State) }, Rules: true, Follow: followCard,
			Personal: []string{card.RecordLabel}},
		{Name: actors.KindBalance, New: func() actors.State { return new(balance.State) }, Rules: true,
			AsksAgain: balance.AsksAgain,
			Follow:    followBalance,
			Personal: []string{balance.RecordPayoutText, balance.RecordPayinText, balance.RecordPhysicalText,
				balance.RecordUnmatched}},
		{Name: actors.KindCheckout, New: func() actors.State { return new(checkout.State) },
			Personal: []string{checkout.RecordText}},
		{Name: actors.KindRamp, New: func() actors.State { return new(ramp.State) }, AsksAgain: always},
		{Name: actors.KindDerivation, New: func() actors.State { return new(derivation.State) }},
		{Name: actors.KindWebhook, New: func() actors.State { return new(webhook.State) }, AsksAgain: always,
			Personal: []string{webhook.RecordEndpoint}},
	}
}

func always(string) bool { return true }

// followCard adds the rule that a card's event sets for the authorizer, if any. It fails only for a
// damaged event.
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

// followBalance adds the dollars that a balance's event makes available to the authorizer, and the
// reservation that it settles, if any. It fails only for a damaged event or id.
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

// toBalance addresses a command to the balance of a workspace.
func toBalance(workspace string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindBalance, Stream: workspace, Workspace: workspace, Command: command}
}
