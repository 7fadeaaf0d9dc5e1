package actors

import (
	"context"
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
	"purser/actors/fault"
	"purser/actors/partner"
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

func (s *System) reactions() []reaction {
	return []reaction{
		{name: "bank", handle: s.tellBank, events: []decision.Event{balance.DepositCreated{}}},
		{name: "payouts", handle: s.sendPayouts, events: []decision.Event{balance.PayoutCreated{}, balance.PayoutMoved{}}},
		{name: "conversions", handle: s.tellDesk,
			events: []decision.Event{balance.ConversionCreated{}, balance.ConversionMoved{}}},
		{name: "recipients", handle: s.tokenizeRecipients, events: []decision.Event{counterparty.Saved{}}},
		{name: "physical_cards", handle: s.fulfilPhysical, events: []decision.Event{balance.PhysicalCardOrdered{}}},
		{name: "membership", handle: s.listMembership, events: []decision.Event{
			workspace.WorkspaceCreated{}, workspace.MemberAdded{}, workspace.MemberRoleChanged{}, workspace.MemberRemoved{}}},
		{name: "agents", handle: s.mirrorAgents, events: []decision.Event{
			agent.Registered{}, agent.Frozen{}, agent.Unfrozen{}, agent.Terminated{}, workspace.ModeChanged{}}},
		{name: "checkout", handle: s.creditCheckouts, events: []decision.Event{checkout.SessionCompleted{}}},
		{name: "watch", handle: s.noteWatched, events: []decision.Event{checkout.Selected{}, checkout.WatchEnded{}}},
	}
}

// tellBank announces a deposit to the bank.
func (s *System) tellBank(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	d := event.(balance.DepositCreated)
	return s.bank.Expect(ctx, partner.Deposit{ID: d.ID, WorkspaceID: e.Workspace, Rail: d.Rail, AmountUsdCents: d.AmountUsdCents,
		ExpectedAt: d.ExpectedAt.Time})
}

// listMembership keeps the workspaces shown in a user's own list; who may do what is the workspace's to say.
func (s *System) listMembership(ctx context.Context, e persistence.Event) error {
	event, err := workspace.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	join := func(id, name, userID, role string, foreign bool) error {
		return s.tellUser(ctx, e, userID, user.Join{Workspace: id, Name: name, Role: role, Foreign: foreign})
	}
	switch event := event.(type) {
	case workspace.WorkspaceCreated:
		for _, owner := range event.Owners {
			if err := join(event.ID, event.Name, owner, workspace.Owner, owner != event.MadeBy()); err != nil {
				return err
			}
		}
	case workspace.MemberAdded:
		return join(event.Workspace, event.Name, event.User, event.Role, true)
	case workspace.MemberRoleChanged:
		return join(event.Workspace, event.Name, event.User, event.Role, true)
	case workspace.MemberRemoved:
		return s.tellUser(ctx, e, event.User, user.Leave{Workspace: event.Workspace})
	}
	return nil
}

// reactionKeyLife keeps the once-key of a reaction past any crash between the deed and the cursor.
const reactionKeyLife = 24 * time.Hour

func (s *System) tellUser(ctx context.Context, cause persistence.Event, id string, command any) error {
	_, err := s.Ask(ctx, Envelope{Kind: "user", Stream: id, Workspace: id, Command: command,
		Key: &Key{Scope: "reaction", Key: "membership/" + cause.ID + "/" + id, Expires: s.clock().Add(reactionKeyLife)}})
	if fault.Is(err, fault.NotFound) {
		return nil // the user is gone; there is no list to keep
	}
	return err
}
