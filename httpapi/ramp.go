package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/ramp"
	"purser/actors/workspace"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// rampHandlers serve the ramp between dollars and USDC: quotes, orders, withdrawals and wallets.
type rampHandlers struct{ *edge }

// rampRoutes returns the routes of the ramp: its account, quotes, orders, withdrawals and sessions.
func (h *rampHandlers) rampRoutes() []route {
	const account, orders, read, write = "/api/ramp/account", "/api/ramp/orders", "read:treasury",
		workspace.WriteRamps
	const sessions = "/api/ramp/onramp/sessions"
	return []route{
		{method: "POST", path: account, auth: authKey, scope: write, sandboxOnly: true, ramp: true,
			idempotency: keyOptional,
			handle:      h.linkRamp},
		{method: "GET", path: account, auth: authKey, scope: read, handle: h.getRampAccount},
		{method: "POST", path: "/api/ramp/quotes", auth: authKey, scope: write, sandboxOnly: true, ramp: true,
			idempotency: keyOptional, handle: h.createRampQuote},
		{method: "GET", path: "/api/ramp/quotes/{id}", auth: authKey, scope: read, handle: h.getRampQuote},
		{method: "POST", path: orders, auth: authKey, scope: write, sandboxOnly: true, ramp: true,
			idempotency: keyOptional,
			handle:      h.createRampOrder},
		{method: "POST", path: "/api/ramp/withdrawals", auth: authKey, scope: write, sandboxOnly: true, ramp: true,
			idempotency: keyOptional, handle: h.createWithdrawal},
		{method: "GET", path: orders, auth: authKey, scope: read, query: slices.Concat(rampOrderQuery, pageQuery),
			handle: h.listRampOrders},
		{method: "GET", path: orders + "/{id}", auth: authKey, scope: read, handle: h.getRampOrder},
		{method: "GET", path: sessions, auth: authKey, scope: read, query: pageQuery, handle: h.listRampSessions},
		{method: "GET", path: "/api/ramp/sessions/{id}", auth: authKey, scope: read, handle: h.getRampSession},
		{method: "POST", path: sessions, auth: authKey, scope: write, use: orders, handle: neverReached},
		{method: "POST", path: "/api/ramp/offramp/sessions", auth: authKey, scope: write, use: orders,
			handle: neverReached},
		{method: "POST", path: "/api/ramp/quote", auth: authKey, scope: write, use: orders, handle: neverReached},
	}
}

// rampAccountDocument is a ramp account in the interface. Id is null until the account is
// requested.
type rampAccountDocument struct {
	ID     *string `json:"id"`
	Status string  `json:"status"`
}

func replyRampAccount(a ramp.Account) (answer, error) {
	d := rampAccountDocument{Status: a.Status}
	if a.ID != "" {
		d.ID = &a.ID
	}
	return reply(map[string]any{"account": d})
}

// linkRamp handles POST /api/ramp/account: it requests the account; reading the account shows the
// partner's decision. The id is derived from the workspace's, so a journal restored to an earlier
// time requests the account under the same id. It fails only with the ramp's refusal.
func (h *rampHandlers) linkRamp(c *call) (answer, error) {
	link := ramp.Link{Workspace: c.who.workspace()}
	owner, err := ident.Parse(ident.Workspace, link.Workspace)
	if err != nil {
		return answer{}, err
	}
	link.ID = ident.Derive(owner.Slot(), owner.Time(), "ramp/"+link.Workspace).Format(ident.RampAccount)
	return askIdempotent(h.edge, c, toRamp(link.Workspace, link), replyRampAccount)
}

func (h *rampHandlers) getRampAccount(c *call) (answer, error) {
	a, err := h.rampAccount(c)
	if err != nil {
		return answer{}, err
	}
	return replyRampAccount(a)
}

// rampAccount reads the account of the caller's workspace, which has at most one; without one its
// status is none. It fails only with an error of the store.
func (h *rampHandlers) rampAccount(c *call) (a ramp.Account, err error) {
	records, err := query.RampAccounts.List(c.ctx, h.actors, c.who.workspace(), "", query.Page{Limit: 1})
	if err != nil {
		return a, err
	}
	if len(records) == 0 {
		return ramp.Account{Status: ramp.None}, nil
	}
	return records[0].Document, nil
}

// rampQuoteDocument is a ramp quote in the interface.
type rampQuoteDocument struct {
	ID        string         `json:"id"`
	Direction string         `json:"direction"`
	Amount    string         `json:"amount"`
	Receive   string         `json:"receive"`
	MaxFee    string         `json:"maxFee"`
	Rate      string         `json:"rate"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// rampRate is the amount of USDC for one dollar.
const rampRate = "1"

// createRampQuote handles POST /api/ramp/quotes: it locks the partner's offer to trade dollars and
// USDC. A repeat is answered without asking the partner again. It fails like readRampQuote and
// offerRamp, and with the balance's refusal.
func (h *rampHandlers) createRampQuote(c *call) (answer, error) {
	quote, err := h.readRampQuote(c)
	if err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, toBalance(quote.Workspace, nil), func() (any, error) {
		err := h.offerRamp(c, &quote)
		return quote, err
	}, func(q balance.RampQuote) (answer, error) {
		return reply(map[string]any{"quote": showRampQuote(q)})
	})
}

// showRampQuote shows a quote.
func showRampQuote(q balance.RampQuote) rampQuoteDocument {
	return rampQuoteDocument{ID: q.ID, Direction: q.Direction, Amount: money.FormatDollars(q.AmountCents),
		Receive: money.FormatDollars(q.ReceiveCents), MaxFee: money.FormatDollars(q.MaxFeeCents), Rate: rampRate,
		ExpiresAt: q.ExpiresAt}
}

// rampQuoteState is a quote as it is read later. WalletID is null except for a withdrawal.
type rampQuoteState struct {
	rampQuoteDocument
	Status   string  `json:"status"`
	WalletID *string `json:"walletId"`
}

// getRampQuote handles GET /api/ramp/quotes/{id}: the quote is locked, used or expired at the time
// of the request. Another workspace's quote is not_found.
func (h *rampHandlers) getRampQuote(c *call) (answer, error) {
	q, err := readOwn(h.edge, c, query.RampQuotes, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	d := rampQuoteState{rampQuoteDocument: showRampQuote(q), Status: q.StatusAt(c.now)}
	if q.WalletID != "" {
		d.WalletID = &q.WalletID
	}
	return reply(map[string]any{"quote": d})
}

// readRampQuote reads the body. Only a withdrawal names a wallet, and it must. It fails with
// invalid_body, and with invalid_amount for an amount beyond 0.01 to balance.MaxRampCents.
func (h *rampHandlers) readRampQuote(c *call) (quote balance.QuoteRamp, err error) {
	var body struct {
		Direction string `json:"direction"`
		Amount    string `json:"amount"`
		WalletID  string `json:"walletId"`
	}
	if err := h.decode(c, &body); err != nil {
		return quote, err
	}
	switch withdrawal := body.Direction == balance.RampWithdraw; {
	case withdrawal && body.WalletID == "":
		return quote, fault.New(fault.InvalidBody, "walletId: a withdrawal names its wallet")
	case !withdrawal && body.WalletID != "":
		return quote, fault.New(fault.InvalidBody, "walletId: for a withdrawal only")
	}
	cents, err := money.ParseDollars(body.Amount)
	if err != nil || cents > balance.MaxRampCents {
		return quote, fault.New(fault.InvalidAmount,
			fmt.Sprintf("amount: a plain decimal with at most two places, 0.01 to %s",
				money.FormatDollars(balance.MaxRampCents)))
	}
	quote = balance.QuoteRamp{Workspace: c.who.workspace(), Direction: body.Direction, AmountCents: cents,
		WalletID: body.WalletID}
	quote.ID, err = h.newID(c, ident.RampQuote)
	return quote, err
}

// offerRamp asks the partner for its fee. First it refuses a workspace without a linked account,
// and a withdrawal to an unknown or unapproved wallet. The balance refuses a withdrawal that the
// travel rule forbids, whatever the wallet's status and the fee. It fails with
// capability_unavailable, with not_found for an unknown wallet, with rate_limited, and with the
// partner's error.
func (h *rampHandlers) offerRamp(c *call, quote *balance.QuoteRamp) error {
	account, err := h.rampAccount(c)
	if err != nil {
		return err
	}
	if account.Status != ramp.Linked {
		return fault.New(fault.CapabilityUnavailable, "the ramp account is not linked")
	}
	if quote.Direction == balance.RampWithdraw {
		wallet, err := readOwn(h.edge, c, query.RampWallets, quote.WalletID)
		if err != nil {
			return err
		}
		switch {
		case quote.AmountCents >= balance.TravelRuleCents:
			return nil
		case wallet.Status != ramp.Approved:
			return fault.New(fault.CapabilityUnavailable, "walletId: the wallet is not approved")
		}
	}
	if err := h.limits.countQuote(c, "ramp_quotes"); err != nil {
		return err
	}
	quote.FeeCents, err = h.actors.RampFee(c.ctx, quote.Direction, quote.AmountCents)
	return err
}

// rampOrderDocument is a ramp order in the interface. Only the route of one order shows its
// History.
type rampOrderDocument struct {
	ID        string               `json:"id"`
	Direction string               `json:"direction"`
	Status    string               `json:"status"`
	Amount    string               `json:"amount"`
	Fee       string               `json:"fee"`
	CreatedAt decision.Stamp       `json:"createdAt"`
	History   []balance.PayoutStep `json:"history,omitempty"`
}

// withdrawalDocument is a withdrawal in the interface. TxHash is null until it is completed.
type withdrawalDocument struct {
	rampOrderDocument
	WalletID string  `json:"walletId"`
	TxHash   *string `json:"txHash"`
}

// showRampOrder shows an order with a history, or without one for nil. Of a withdrawal it also
// shows the wallet and the transaction.
func showRampOrder(o balance.RampOrder, history []balance.PayoutStep) any {
	d := rampOrderDocument{ID: o.ID, Direction: o.Direction, Status: o.Status,
		Amount: money.FormatDollars(o.AmountCents),
		Fee:    money.FormatDollars(o.FeeCents), CreatedAt: o.CreatedAt, History: history}
	if o.Direction != balance.RampWithdraw {
		return d
	}
	w := withdrawalDocument{rampOrderDocument: d, WalletID: o.WalletID}
	if o.TxHash != "" {
		w.TxHash = &o.TxHash
	}
	return w
}

func (h *rampHandlers) createRampOrder(c *call) (answer, error) {
	return h.useRampQuote(c, false, "order")
}

func (h *rampHandlers) createWithdrawal(c *call) (answer, error) {
	return h.useRampQuote(c, true, "withdrawal")
}

// useRampQuote creates the order of a quote. A repeat under the same Idempotency-Key gets the
// stored answer, although its quote is used. The single-use quote bounds a request without a key to
// one order: every repeat is quote_used. An unknown quote is quote_not_found.
func (h *rampHandlers) useRampQuote(c *call, withdrawal bool, name string) (answer, error) {
	var body struct {
		QuoteID string `json:"quoteId"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	create := balance.CreateRampOrder{Workspace: id, Withdrawal: withdrawal}
	var err error
	prefix := ident.RampOrder
	if withdrawal {
		prefix = ident.Withdrawal
	}
	if create.ID, err = h.newID(c, prefix); err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, toBalance(id, nil), func() (_ any, err error) {
		create.Quote, err = readQuote(h.edge, c, query.RampQuotes, body.QuoteID)
		return create, err
	}, func(o balance.RampOrder) (answer, error) {
		return reply(map[string]any{name: showRampOrder(o, nil)})
	})
}

// rampOrderQuery holds the query parameters that narrow the list of orders.
var rampOrderQuery = slices.Concat(periodQuery, []string{"status", "direction"})

// listRampOrders handles GET /api/ramp/orders: orders and withdrawals, newest first. The period
// bounds when an order was made. It fails with invalid_query for a bad filter, limit or cursor, and
// with the store's error.
func (h *rampHandlers) listRampOrders(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	status, ofStatus, err := c.readChoice("status", balance.RampCreated, balance.RampProcessing,
		balance.RampCompleted,
		balance.RampFailed)
	if err != nil {
		return answer{}, err
	}
	direction, ofDirection, err := c.readChoice("direction", balance.RampOn, balance.RampOff, balance.RampWithdraw)
	if err != nil {
		return answer{}, err
	}
	list := filteredList[balance.RampOrder]{of: query.RampOrders, filter: c.filterText(rampOrderQuery...),
		within: within,
		timeOf: func(o *balance.RampOrder) time.Time { return o.CreatedAt.Time },
		matches: func(o *balance.RampOrder) bool {
			return (!ofStatus || o.Status == status) && (!ofDirection || o.Direction == direction)
		},
		show: func(_ json.RawMessage, o *balance.RampOrder) (any, error) { return showRampOrder(*o, nil), nil }}
	return list.answerPage(h.edge, c)
}

func (h *rampHandlers) getRampOrder(c *call) (answer, error) {
	o, err := readOwn(h.edge, c, query.RampOrders, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"order": showRampOrder(o, o.History)})
}

// rampSessionDocument is a session of the retired routes in the interface.
type rampSessionDocument struct {
	ID        string         `json:"id"`
	Direction string         `json:"direction"`
	Status    string         `json:"status"`
	Amount    string         `json:"amount"`
	HostedURL string         `json:"hostedUrl"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

func showRampSession(r balance.RampSession) rampSessionDocument {
	return rampSessionDocument{ID: r.ID, Direction: r.Direction, Status: r.Status,
		Amount:    money.FormatDollars(r.AmountCents),
		HostedURL: r.HostedURL, CreatedAt: r.CreatedAt}
}

// listRampSessions lists the on-ramp's sessions.
func (h *rampHandlers) listRampSessions(c *call) (answer, error) {
	return listRecords(h.edge, c, query.RampSessions, balance.RampOn,
		func(session balance.RampSession) (any, error) { return showRampSession(session), nil })
}

func (h *rampHandlers) getRampSession(c *call) (answer, error) {
	session, err := readOwn(h.edge, c, query.RampSessions, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"session": showRampSession(session)})
}
