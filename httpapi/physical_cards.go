package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// Bank days that a physical card is under way.
const (
	leastShippingDays = 5
	mostShippingDays  = 7
)

func (h *cardHandlers) physicalRoutes() []route {
	const path = "/api/physical-cards"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: "write:cards", kyb: true, physical: true, idempotency: keyOptional,
			handle: h.orderPhysical},
		{method: "GET", path: path, auth: authKey, scope: "read:cards", query: pageQuery, handle: h.listPhysical},
	}
}

// physicalDocument is a physical card as the interface shows it.
type physicalDocument struct {
	Card  cardDocument  `json:"card"`
	Order orderDocument `json:"order"`
	ETA   etaDocument   `json:"eta"`
}

type orderDocument struct {
	ID           string           `json:"id"`
	CardID       string           `json:"cardId"`
	Finish       string           `json:"finish"`
	UnlockMethod string           `json:"unlockMethod"`
	Status       string           `json:"status"`
	Shipping     balance.Shipping `json:"shipping"`
	CreatedAt    decision.Stamp   `json:"createdAt"`
}

type etaDocument struct {
	MinBusinessDays int    `json:"minBusinessDays"`
	MaxBusinessDays int    `json:"maxBusinessDays"`
	From            string `json:"from"`
	To              string `json:"to"`
}

func showPhysical(o balance.PhysicalOrder, shipping balance.Shipping, card cardDocument) physicalDocument {
	return physicalDocument{
		Card: card,
		Order: orderDocument{ID: o.ID, CardID: o.Card.ID, Finish: o.Finish, UnlockMethod: o.UnlockMethod, Status: o.Status,
			Shipping: shipping, CreatedAt: o.CreatedAt},
		ETA: etaDocument{MinBusinessDays: leastShippingDays, MaxBusinessDays: mostShippingDays, From: o.ArrivesFrom,
			To: o.ArrivesTo},
	}
}

// orderPhysical orders a physical card and answers when the card is there. The answer is that of the order, which says all of the
// card: it commits with the charge, so that a repeat after a crash gets it, and waits for the card too.
func (h *cardHandlers) orderPhysical(c *call) (answer, error) {
	order, err := h.readOrder(c)
	if err != nil {
		return answer{}, err
	}
	workspace, text := order.Workspace, order.Text
	if order.Order.UnlockMethod == balance.UnlockBalanceCommit5000 {
		h.actors.WaitRelayed(c.ctx, workspace) // the balance has the spend of the cards
	}
	done, err := h.askIdempotent(c, actors.Envelope{Kind: "balance", Stream: workspace, Workspace: workspace,
		Prepare: func(context.Context) (any, error) {
			var err error
			order.Order.Card.CardholderID, err = h.cardholderFor(c, "")
			return order, err
		}},
		func(ordered any) (answer, error) {
			o, ok := ordered.(balance.PhysicalOrder)
			if !ok {
				return answer{}, fmt.Errorf("order answered %T", ordered)
			}
			view, err := actors.OrderedCard(workspace, o, text.HolderLabel)
			if err != nil {
				return answer{}, err
			}
			return reply(showPhysical(o, text.Shipping, cardDocument{View: view, HolderLabel: text.HolderLabel}))
		})
	if err != nil {
		return answer{}, err
	}
	return done, h.awaitOrdered(c, done)
}

// awaitOrdered waits for the card of an order that was answered.
func (h *cardHandlers) awaitOrdered(c *call, done answer) error {
	var told struct{ Order struct{ ID string } }
	if err := json.Unmarshal(done.body, &told); err != nil {
		return fmt.Errorf("answer to an order: %w", err)
	}
	_, err := h.actors.MintOrdered(c.ctx, c.who.workspace(), told.Order.ID)
	if err == nil || fault.Is(err, fault.LimitExceeded) {
		return err
	}
	h.log.Warn("an ordered card is not minted yet", "order", told.Order.ID, "err", err)
	return fault.New(fault.OutcomeUnknown, "The card is ordered and not minted yet; retry with the same Idempotency-Key.")
}

// readOrder reads the body, and draws what identifies order and card. Under whom the card is issued is not looked up here: a
// repeat is answered though nobody is active any more.
func (h *cardHandlers) readOrder(c *call) (order balance.OrderPhysicalCard, err error) {
	var body struct {
		HolderLabel          string           `json:"holderLabel"`
		Finish               string           `json:"finish"`
		UnlockMethod         string           `json:"unlockMethod"`
		MonthlyLimitUsdCents int64            `json:"monthlyLimitUsdCents"`
		PerTxnLimitUsdCents  int64            `json:"perTxnLimitUsdCents"`
		Shipping             balance.Shipping `json:"shipping"`
	}
	body.Finish = balance.FinishMetal
	if err := h.decode(c, &body); err != nil {
		return order, err
	}
	var drawn card.Mint
	if err := h.newCardIdentity(c, &drawn); err != nil {
		return order, err
	}
	id, err := h.newID(c, ident.PhysicalOrder)
	if err != nil {
		return order, err
	}
	order = balance.OrderPhysicalCard{Workspace: c.who.workspace(), Order: balance.PhysicalOrder{
		ID: id, Finish: body.Finish, UnlockMethod: body.UnlockMethod,
		Card: balance.OrderedCard{ID: drawn.ID, Token: drawn.Token, Last4: drawn.Last4,
			MonthlyLimitUsdCents: body.MonthlyLimitUsdCents, PerTxnLimitUsdCents: body.PerTxnLimitUsdCents,
			Fixture: h.cfg.Issuer == IssuerFixture},
		ArrivesFrom: h.calendar.After(c.now, leastShippingDays).Format(time.DateOnly),
		ArrivesTo:   h.calendar.After(c.now, mostShippingDays).Format(time.DateOnly),
	}, Text: balance.PhysicalText{HolderLabel: body.HolderLabel, Shipping: body.Shipping}}
	_, err = actors.OrderedCard(order.Workspace, order.Order, body.HolderLabel) // nothing is charged for a card that nobody mints
	return order, err
}

func (h *cardHandlers) listPhysical(c *call) (answer, error) {
	workspace := c.who.workspace()
	h.actors.WaitRelayed(c.ctx, workspace)
	return h.list(c, listing{kind: balance.RecordPhysicalOrder, workspace: workspace}, func(r persistence.Record) (any, error) {
		var order balance.PhysicalOrder
		if err := json.Unmarshal(r.Document, &order); err != nil {
			return nil, fmt.Errorf("physical order's record: %w", err)
		}
		record, err := h.actors.Record(c.ctx, balance.RecordPhysicalText, workspace, order.ID)
		if err != nil {
			return nil, fmt.Errorf("shipping of an order: %v", err) // not to be taken for a list that is not found
		}
		var text balance.PhysicalText
		if err := json.Unmarshal(record.Document, &text); err != nil {
			return nil, fmt.Errorf("shipping of an order: %w", err)
		}
		card, err := h.orderedCard(c, order, text.HolderLabel)
		return showPhysical(order, text.Shipping, card), err
	})
}

// orderedCard shows the card of an order; for the moment until it is minted, as it is going to be.
func (h *cardHandlers) orderedCard(c *call, order balance.PhysicalOrder, holderLabel string) (cardDocument, error) {
	view, err := h.readCard(c, order.Card.ID)
	if fault.Is(err, fault.NotFound) {
		view, err = actors.OrderedCard(c.who.workspace(), order, holderLabel)
		return cardDocument{View: view, HolderLabel: holderLabel}, err
	}
	if err != nil {
		return cardDocument{}, err
	}
	return h.showCard(c, view)
}
