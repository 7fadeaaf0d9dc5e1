package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Shipping time of a physical card, in bank days.
const (
	leastShippingDays = 5
	mostShippingDays  = 7
)

// physicalRoutes returns the routes of orders of physical cards.
func (h *cardHandlers) physicalRoutes() []route {
	const path = "/api/physical-cards"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: "write:cards", kyb: true, physical: true,
			idempotency: keyOptional,
			handle:      h.orderPhysical},
		{method: "GET", path: path, auth: authKey, scope: "read:cards", query: pageQuery, handle: h.listPhysical},
	}
}

// physicalDocument is a physical card in the interface.
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

// showPhysical shows an order with its card and the days of its arrival.
func showPhysical(o balance.PhysicalOrder, shipping balance.Shipping, card cardDocument) physicalDocument {
	return physicalDocument{
		Card: card,
		Order: orderDocument{ID: o.ID, CardID: o.Card.ID, Finish: o.Finish, UnlockMethod: o.UnlockMethod,
			Status:   o.Status,
			Shipping: shipping, CreatedAt: o.CreatedAt},
		ETA: etaDocument{MinBusinessDays: leastShippingDays, MaxBusinessDays: mostShippingDays, From: o.ArrivesFrom,
			To: o.ArrivesTo},
	}
}

// orderPhysical handles POST /api/physical-cards: it orders a physical card and answers when the
// card exists. The answer is rendered from the order, which holds all of the card, and commits with
// the charge. A repeat after a crash returns it and waits for the card too. It fails like
// readOrder, cardholderFor and awaitOrdered, and with the balance's refusal.
func (h *cardHandlers) orderPhysical(c *call) (answer, error) {
	order, err := h.readOrder(c)
	if err != nil {
		return answer{}, err
	}
	workspace, text := order.Workspace, order.Text
	if order.Order.UnlockMethod == balance.UnlockBalanceCommit5000 {
		// The unlock method is checked against the cards' spend, which the relay brings to the
		// balance.
		h.actors.WaitRelayed(c.ctx, workspace)
	}
	done, err := askPrepared(h.edge, c, toBalance(workspace, nil),
		func() (_ any, err error) {
			order.Order.Card.CardholderID, err = h.cardholderFor(c, "")
			return order, err
		},
		func(o balance.PhysicalOrder) (answer, error) {
			view, err := processes.OrderedCard(workspace, o, text.HolderLabel)
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

// awaitOrdered waits until the card of an answered order is minted. It fails with limit_exceeded,
// and with outcome_unknown when the card is not minted in time.
func (h *cardHandlers) awaitOrdered(c *call, done answer) error {
	var answered struct{ Order struct{ ID string } }
	if err := json.Unmarshal(done.body, &answered); err != nil {
		return fmt.Errorf("answer to an order: %w", err)
	}
	_, err := h.actors.MintOrdered(c.ctx, c.who.workspace(), answered.Order.ID)
	if err == nil || fault.Is(err, fault.LimitExceeded) {
		return err
	}
	h.log.Warn("an ordered card is not minted yet", "order", answered.Order.ID, "err", err)
	return fault.New(fault.OutcomeUnknown,
		"The card is ordered and not minted yet; retry with the same Idempotency-Key.")
}

// readOrder reads the body, and draws the ids of order and card. It does not look up the
// cardholder, because a repeat is answered even without an active cardholder. It fails with
// invalid_body, and for a card that could not be minted.
func (h *cardHandlers) readOrder(c *call) (order balance.OrderPhysicalCard, err error) {
	var body struct {
		HolderLabel          string           `json:"holderLabel"`
		Finish               string           `json:"finish"`
		UnlockMethod         string           `json:"unlockMethod"`
		MonthlyLimitUsdCents money.Cents      `json:"monthlyLimitUsdCents"`
		PerTxnLimitUsdCents  money.Cents      `json:"perTxnLimitUsdCents"`
		Shipping             balance.Shipping `json:"shipping"`
	}
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
		ID: id, Finish: cmp.Or(body.Finish, balance.FinishMetal), UnlockMethod: body.UnlockMethod,
		Card: balance.OrderedCard{ID: drawn.ID, Token: drawn.Token, Last4: drawn.Last4,
			MonthlyLimitUsdCents: body.MonthlyLimitUsdCents, PerTxnLimitUsdCents: body.PerTxnLimitUsdCents,
			Fixture: h.cfg.Issuer == IssuerFixture},
		ArrivesFrom: h.calendar.BankDayAfter(c.now, leastShippingDays).Format(time.DateOnly),
		ArrivesTo:   h.calendar.BankDayAfter(c.now, mostShippingDays).Format(time.DateOnly),
	}, Text: balance.PhysicalText{HolderLabel: body.HolderLabel, Shipping: body.Shipping}}
	// An order of a card that cannot be minted must not be charged.
	_, err = processes.OrderedCard(order.Workspace, order.Order, body.HolderLabel)
	return order, err
}

// listPhysical handles GET /api/physical-cards. It fails like listRecords.
func (h *cardHandlers) listPhysical(c *call) (answer, error) {
	workspace := c.who.workspace()
	h.actors.WaitRelayed(c.ctx, workspace)
	return listRecords(h.edge, c, query.PhysicalOrders, "", func(order balance.PhysicalOrder) (any, error) {
		text, err := query.PhysicalTexts.ReadPart(c.ctx, h.actors, workspace, order.ID)
		if err != nil {
			return nil, err
		}
		card, err := h.orderedCard(c, order, text.HolderLabel)
		return showPhysical(order, text.Shipping, card), err
	})
}

// orderedCard shows the card of an order. Until the card is minted, it is shown as the order
// describes it. It fails only with an error of the store.
func (h *cardHandlers) orderedCard(c *call, order balance.PhysicalOrder, holderLabel string) (cardDocument, error) {
	view, err := h.readCard(c, order.Card.ID)
	if fault.Is(err, fault.NotFound) {
		view, err = processes.OrderedCard(c.who.workspace(), order, holderLabel)
		return cardDocument{View: view, HolderLabel: holderLabel}, err
	}
	if err != nil {
		return cardDocument{}, err
	}
	return h.showCard(c, view)
}
