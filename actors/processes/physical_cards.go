package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence"
)

// PhysicalCards mints the cards that are ordered from a balance.
//
// The balance commits the order with its fee first. The order names the card, whose id and token
// were drawn with the order. The handler of the request then mints the card and waits for it; the
// reaction to the order mints it after a crash of the handler. Both mint the same card, so that
// there is one. The order itself is a record of the balance, and needs no third step. A card that
// can never be minted has its order undone.
type PhysicalCards struct {
	runtime Runtime
	log     *slog.Logger
}

// mintAfterOrder mints the card of a new order. It is the reaction "physical_cards" to the order.
// It fails, and is repeated, when a record or actor does not answer; a card that can never be
// minted is no error.
func (p *PhysicalCards) mintAfterOrder(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	_, err = p.MintOrdered(ctx, e.Workspace, event.(balance.PhysicalCardOrdered).Order.ID)
	if isPermanent(err) {
		return nil
	}
	return err
}

// MintOrdered mints the card of an order unless it is minted, and returns the card's present state.
// An order whose card can never be minted is undone; the error is then, and in every repeat,
// limit_exceeded. After unavailable and outcome_unknown the reaction mints the card. The route that
// orders a card calls it, and the reaction.
func (p *PhysicalCards) MintOrdered(ctx context.Context, workspace, id string) (card.View, error) {
	order, err := query.PhysicalOrders.Read(ctx, p.runtime, workspace, id)
	if fault.Is(err, fault.NotFound) {
		return card.View{}, orderUndone()
	}
	if err != nil {
		return card.View{}, err
	}
	text, err := query.PhysicalTexts.Read(ctx, p.runtime, workspace, id)
	if fault.Is(err, fault.NotFound) { // a concurrent call has undone the order
		return card.View{}, orderUndone()
	}
	if err != nil {
		return card.View{}, err
	}
	mint := mintOf(workspace, order, text.HolderLabel)
	minted, err := actors.ReplyAs[card.View](p.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindCard,
		Stream: mint.ID, Workspace: workspace, Command: mint}))
	if err == nil {
		return minted, nil
	}
	if !isPermanent(err) {
		return card.View{}, err
	}
	p.log.Error("an ordered card can not be minted; the order is undone", "order", id, "err", err)
	if _, err = p.runtime.Ask(ctx, toBalance(workspace, balance.RefusePhysicalCard{Order: order})); err != nil {
		return card.View{}, fmt.Errorf("undo an order: %v", err) // %v: no refusal of this command is permanent
	}
	return card.View{}, orderUndone()
}

func orderUndone() error {
	return fault.New(fault.LimitExceeded, "The card can not be issued; the order was undone and nothing is charged.")
}

// isPermanent reports whether err is a refusal that every repeat of the command would meet.
func isPermanent(err error) bool {
	f, refused := errors.AsType[*fault.Error](err)
	return refused && f.Code != fault.Unavailable && f.Code != fault.OutcomeUnknown
}

// OrderedCard returns the card of an order as it will be minted. It fails with invalid_body for a
// card that can not be minted.
func OrderedCard(workspace string, order balance.PhysicalOrder, holderLabel string) (card.View, error) {
	d, err := new(card.State).Decide(decision.Meta{At: order.CreatedAt.Time}, mintOf(workspace, order, holderLabel))
	if err != nil {
		return card.View{}, err
	}
	return d.Reply.(card.View), nil
}

// mintOf returns the command that creates the card of a physical order. MintOrdered and OrderedCard
// call it, so that both make the same card.
func mintOf(workspace string, order balance.PhysicalOrder, holderLabel string) card.Mint {
	c := order.Card
	return card.Mint{
		ID: c.ID, Workspace: workspace, Token: c.Token, Last4: c.Last4, HolderKind: "human", HolderLabel: holderLabel,
		CardholderID: c.CardholderID, MonthlyLimitUsdCents: c.MonthlyLimitUsdCents,
		PerTxnLimitUsdCents: c.PerTxnLimitUsdCents,
		Physical:            true, Fixture: c.Fixture, OrderedAt: order.CreatedAt,
	}
}
