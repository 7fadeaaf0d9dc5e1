package actors

import (
	"context"
	"errors"
	"fmt"

	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
)

// An order of a physical card is led by the balance: its event, with the fee, is the first thing that is durable, and names the
// card, whose id and token were drawn with the order. The card is minted after that, by whoever comes first: who took the request
// and waits for the card, or the reaction below, which goes on after a crash. Both mint the same card, so that it is one. The
// order is a record of the balance's own commit, so that no third step is left to do. A card that can never be minted undoes the
// order.

// fulfilPhysical mints what was ordered.
func (s *System) fulfilPhysical(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	_, err = s.MintOrdered(ctx, e.Workspace, event.(balance.PhysicalCardOrdered).Order.ID)
	if neverMinted(err) {
		return nil
	}
	return err
}

// MintOrdered mints the card of an order, unless that has been done, and returns it as it stands. An order whose card can never
// be minted is undone; its error is then, and ever after, limit_exceeded. After unavailable and outcome_unknown the reaction goes
// on with it.
func (s *System) MintOrdered(ctx context.Context, workspace, id string) (card.View, error) {
	order, err := readDocument[balance.PhysicalOrder](ctx, s, balance.RecordPhysicalOrder, workspace, id)
	if fault.Is(err, fault.NotFound) {
		return card.View{}, orderUndone()
	}
	if err != nil {
		return card.View{}, err
	}
	text, err := readDocument[balance.PhysicalText](ctx, s, balance.RecordPhysicalText, workspace, id)
	if fault.Is(err, fault.NotFound) { // it was undone in between
		return card.View{}, orderUndone()
	}
	if err != nil {
		return card.View{}, err
	}
	mint := mintOf(workspace, order, text.HolderLabel)
	minted, err := s.Ask(ctx, Envelope{Kind: "card", Stream: mint.ID, Workspace: workspace, Command: mint})
	if err == nil {
		return minted.(card.View), nil
	}
	if !neverMinted(err) {
		return card.View{}, err
	}
	s.log.Error("an ordered card can not be minted; the order is undone", "order", id, "err", err)
	_, err = s.Ask(ctx, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace,
		Command: balance.RefusePhysicalCard{Order: order}})
	if err != nil {
		return card.View{}, fmt.Errorf("undo an order: %v", err) // not for ever, whatever it is: the fee is owed
	}
	return card.View{}, orderUndone()
}

func orderUndone() error {
	return fault.New(fault.LimitExceeded, "The card can not be issued; the order was undone and nothing is charged.")
}

// neverMinted tells a refusal that a repeat would meet again from one that it may not.
func neverMinted(err error) bool {
	f, refused := errors.AsType[*fault.Error](err)
	return refused && f.Code != fault.Unavailable && f.Code != fault.OutcomeUnknown
}

// OrderedCard is the card of an order as it is going to be minted. Its error is invalid_body: no such card is minted.
func OrderedCard(workspace string, order balance.PhysicalOrder, holderLabel string) (card.View, error) {
	d, err := new(card.State).Decide(decision.Meta{At: order.CreatedAt.Time}, mintOf(workspace, order, holderLabel))
	if err != nil {
		return card.View{}, err
	}
	return d.Reply.(card.View), nil
}

func mintOf(workspace string, order balance.PhysicalOrder, holderLabel string) card.Mint {
	c := order.Card
	return card.Mint{
		ID: c.ID, Workspace: workspace, Token: c.Token, Last4: c.Last4, HolderKind: "human", HolderLabel: holderLabel,
		CardholderID: c.CardholderID, MonthlyLimitUsdCents: c.MonthlyLimitUsdCents, PerTxnLimitUsdCents: c.PerTxnLimitUsdCents,
		Physical: true, Fixture: c.Fixture, OrderedAt: order.CreatedAt,
	}
}
