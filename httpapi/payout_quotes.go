package httpapi

import (
	"fmt"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

func (h *treasuryHandlers) fxRoutes() []route {
	return []route{
		{method: "POST", path: "/api/treasury/fx-quotes", auth: authKey, scope: "write:payouts", kyb: true,
			idempotency: keyRequired, handle: h.createQuote},
		{method: "GET", path: "/api/treasury/fx-quotes/{id}", auth: authKey, scope: "read:treasury",
			handle: h.getQuote},
		{method: "GET", path: "/api/treasury/fx-rates", auth: authKey, scope: "read:treasury", handle: h.listRates},
	}
}

// amountDocument is money in the interface: whole smallest units, as decimal text.
type amountDocument struct {
	Currency    money.Currency `json:"currency"`
	AmountMinor string         `json:"amountMinor"`
}

// quoteDocument is an FX quote in the interface.
type quoteDocument struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"`
	CounterpartyID string         `json:"counterpartyId"`
	Sell           amountDocument `json:"sell"`
	Buy            amountDocument `json:"buy"`
	Rate           string         `json:"rate"`
	RateDisplay    string         `json:"rateDisplay"`
	LockExpiresAt  decision.Stamp `json:"lockExpiresAt"`
	ServerNow      decision.Stamp `json:"serverNow"`
}

func showAmount(a balance.Amount) amountDocument {
	return amountDocument{Currency: a.Currency, AmountMinor: money.FormatMinor(a.AmountMinor)}
}

// showQuote shows a quote in a status at a time of the server.
func showQuote(q balance.Quote, status string, now decision.Stamp) quoteDocument {
	return quoteDocument{ID: q.ID, Status: status, CounterpartyID: q.CounterpartyID, Sell: showAmount(q.Sell),
		Buy: showAmount(q.Buy), Rate: q.Rate, RateDisplay: fmt.Sprintf("1 %s = %s %s", q.Sell.Currency, q.Rate,
			q.Buy.Currency),
		LockExpiresAt: q.LockExpiresAt, ServerNow: now}
}

// getQuote handles GET /api/treasury/fx-quotes/{id}: the quote is locked, used or expired at the
// time of the request. Another workspace's quote is not_found.
func (h *treasuryHandlers) getQuote(c *call) (answer, error) {
	q, err := readOwn(h.edge, c, query.PayoutQuotes, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"quote": showQuote(q, q.StatusAt(c.now), decision.StampOf(c.now))})
}

// createQuote handles POST /api/treasury/fx-quotes: it locks the desk's rate for an international
// payout. A repeat asks neither the desk nor for the recipient. It fails with invalid_body,
// invalid_amount, not_found for an unknown recipient, and with the refusal of the desk or the
// balance.
func (h *treasuryHandlers) createQuote(c *call) (answer, error) {
	var body struct {
		CounterpartyID string `json:"counterpartyId"`
		Currency       string `json:"currency"`
		AmountMinor    string `json:"amountMinor"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	minor, err := money.ParseMinor(body.AmountMinor)
	if err != nil {
		return answer{}, fault.New(fault.InvalidAmount, "amountMinor: whole smallest units, as plain digits")
	}
	lock := balance.LockQuote{Workspace: c.who.workspace(),
		Buy: balance.Amount{Currency: money.Currency(body.Currency), AmountMinor: minor}}
	if lock.ID, err = h.newID(c, ident.FXQuote); err != nil {
		return answer{}, err
	}
	if err := lock.CheckBody(); err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, toBalance(lock.Workspace, nil), func() (_ any, err error) {
		if lock.Recipient, err = h.recipientNamed(c, body.CounterpartyID); err != nil {
			return nil, err
		}
		lock.Rate, err = h.actors.FirmRate(c.ctx, lock.Buy.Currency)
		return lock, err
	}, func(q balance.Quote) (answer, error) {
		return reply(map[string]any{"quote": showQuote(q, q.Status, q.CreatedAt)})
	})
}

// quoteNamed reads the quote that a payout names, or returns nil when it names none. An unknown
// quote is quote_not_found.
func (h *treasuryHandlers) quoteNamed(c *call, id string) (*balance.Quote, error) {
	if id == "" {
		return nil, nil
	}
	q, err := readQuote(h.edge, c, query.PayoutQuotes, id)
	if err != nil {
		return nil, err
	}
	return &q, nil
}

func (h *treasuryHandlers) listRates(c *call) (answer, error) {
	rates, err := h.actors.MidRates(c.ctx)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"base": money.USD, "asOf": decision.StampOf(c.now), "indicative": true, "rates": rates})
}
