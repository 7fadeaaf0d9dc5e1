package audit

import (
	"context"
	"encoding/json"
	"maps"

	"purser/persistence"
	"purser/persistence/money"
)

// rampTotals are the events of the ramp between dollars and USDC, by id.
type rampTotals struct {
	*shardTotals
	accounts map[string]rampAccount
	wallets  map[string]rampWallet
	quotes   map[string]rampQuote
	orders   map[string]rampOrder
	sessions map[string]rampSession
	open     map[string]openRampOrders // by workspace
}

func newRampTotals(b *shardTotals) *rampTotals {
	return &rampTotals{shardTotals: b, accounts: map[string]rampAccount{}, wallets: map[string]rampWallet{},
		quotes: map[string]rampQuote{},
		orders: map[string]rampOrder{}, sessions: map[string]rampSession{}, open: map[string]openRampOrders{}}
}

// The records must equal these structs.
type (
	rampAccount struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	rampWallet struct {
		ID      string `json:"id"`
		Chain   string `json:"chain"`
		Address string `json:"address"`
		Status  string `json:"status"`
	}
	rampQuote struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		rampTerms
	}
	// rampTerms are the members that an order copies from its quote, in cents.
	rampTerms struct {
		Direction   string      `json:"direction"`
		AmountCents money.Cents `json:"amountCents"`
		MaxFeeCents money.Cents `json:"maxFeeCents"`
		WalletID    string      `json:"walletId"`
	}
	rampOrder struct {
		ID       string      `json:"id"`
		QuoteID  string      `json:"quoteId"`
		Status   string      `json:"status"`
		FeeCents money.Cents `json:"feeCents"`
		TxHash   string      `json:"txHash"`
		rampTerms
	}
	rampSession struct {
		ID          string      `json:"id"`
		Direction   string      `json:"direction"`
		Status      string      `json:"status"`
		AmountCents money.Cents `json:"amountCents"`
	}
)

// openRampOrders are the sum, in cents, and the number of a workspace's open ramp orders.
type openRampOrders struct {
	cents  money.Cents
	orders int64
}

// rampOrderOpen reports whether an order of a status is open.
func rampOrderOpen(status string) bool { return status == "created" || status == "processing" }

// rampFolds has how each event about the ramp, of its actor or of the balance, is folded.
var rampFolds = map[string]func(*rampTotals, *persistence.Event) error{
	"ramp.account_asked.v1":            rampAccountAsked,
	"ramp.account_linked.v1":           rampAccountLinked,
	"ramp.wallet_added.v1":             (*rampTotals).rampWalletAdded,
	"ramp.wallet_proven.v1":            rampWalletProven,
	"ramp.wallet_approved.v1":          rampWalletApproved,
	"balance.ramp_quoted.v1":           (*rampTotals).rampQuoted,
	"balance.ramp_ordered.v1":          (*rampTotals).rampOrdered,
	"balance.ramp_moved.v1":            (*rampTotals).rampMoved,
	"balance.ramp_session_imported.v1": (*rampTotals).rampSessionImported,
	"balance.ramp_session_moved.v1":    (*rampTotals).rampSessionMoved,
}

// rampEvent folds an event about the ramp. It fails when the payload does not decode.
func (ramp *rampTotals) rampEvent(e *persistence.Event) error {
	fold := rampFolds[e.Type]
	if fold == nil {
		ramp.expectEqual("event", e.ID, "type", "one of the ramp's", e.Type)
		return nil
	}
	return fold(ramp, e)
}

func rampAccountAsked(ramp *rampTotals, e *persistence.Event) error {
	return ramp.rampAccountMoved(e, "", "pending")
}

func rampAccountLinked(ramp *rampTotals, e *persistence.Event) error {
	return ramp.rampAccountMoved(e, "pending", "linked")
}

// rampAccountMoved folds the move of an account between two statuses; from "" it is new.
func (ramp *rampTotals) rampAccountMoved(e *persistence.Event, from, to string) error {
	var p struct{ Account string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	before := rampAccount{}
	if from != "" {
		before = rampAccount{p.Account, from}
	}
	ramp.expectEqual("ramp_account", p.Account, "before it was "+to, before, ramp.accounts[p.Account])
	ramp.accounts[p.Account] = rampAccount{p.Account, to}
	return nil
}

// rampWalletAdded folds a new wallet. It fails when the payload does not decode.
func (ramp *rampTotals) rampWalletAdded(e *persistence.Event) error {
	var p struct{ Wallet rampWallet }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	ramp.expectEqual("ramp_wallet", p.Wallet.ID, "added before", rampWallet{}, ramp.wallets[p.Wallet.ID])
	ramp.expectEqual("ramp_wallet", p.Wallet.ID, "added as", "unproven", p.Wallet.Status)
	ramp.wallets[p.Wallet.ID] = p.Wallet
	return nil
}

func rampWalletProven(ramp *rampTotals, e *persistence.Event) error {
	return ramp.rampWalletMoved(e, "unproven", "pending_approval")
}

func rampWalletApproved(ramp *rampTotals, e *persistence.Event) error {
	return ramp.rampWalletMoved(e, "pending_approval", "approved")
}

// rampWalletMoved folds the move of a wallet between two statuses.
func (ramp *rampTotals) rampWalletMoved(e *persistence.Event, from, to string) error {
	var p struct{ Wallet string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	w := ramp.wallets[p.Wallet]
	ramp.expectEqual("ramp_wallet", p.Wallet, "before it was "+to, from, w.Status)
	w.Status = to
	ramp.wallets[p.Wallet] = w
	return nil
}

// rampQuoted folds a new quote. It fails when the payload does not decode.
func (ramp *rampTotals) rampQuoted(e *persistence.Event) error {
	var p struct{ Quote rampQuote }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	ramp.expectEqual("ramp_quote", p.Quote.ID, "made before", rampQuote{}, ramp.quotes[p.Quote.ID])
	ramp.expectEqual("ramp_quote", p.Quote.ID, "made", "locked", p.Quote.Status)
	ramp.quotes[p.Quote.ID] = p.Quote
	return nil
}

// rampOrdered compares an order with the locked quote that it uses, and a withdrawal with its
// wallet. Differences are findings. It fails when the payload does not decode.
func (ramp *rampTotals) rampOrdered(e *persistence.Event) error {
	var p struct {
		Order    rampOrder
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	o, q := p.Order, ramp.quotes[p.Order.QuoteID]
	ramp.expectEqual("ramp_order", o.ID, "created before", rampOrder{}, ramp.orders[o.ID])
	ramp.expectEqual("ramp_order", o.ID, "created", "created", o.Status)
	ramp.expectEqual("ramp_order", o.ID, "quote", rampQuote{o.QuoteID, "locked", o.rampTerms}, q)
	ramp.expectEqual("ramp_order", o.ID, "fee", o.MaxFeeCents, o.FeeCents)
	if o.Direction == "withdraw" {
		ramp.expectEqual("ramp_order", o.ID, "wallet", "approved", ramp.wallets[o.WalletID].Status)
	}
	q.Status = "used"
	ramp.quotes[q.ID], ramp.orders[o.ID] = q, o
	ramp.addOpenOrders(e, 1, o.AmountCents)
	from := "stablecoin"
	if o.Direction == "onramp" {
		from = "usd"
	}
	ramp.expectRampPostings(e, p.Postings, map[string]money.Cents{from: -o.AmountCents, "ramp": o.AmountCents})
	return nil
}

// rampMoveAllowed is the audit's own transition table of a ramp order.
func rampMoveAllowed(from, to string) bool {
	return from == "created" && to == "processing" || rampOrderOpen(from) && (to == "completed" || to == "failed")
}

// rampMoved folds a move: the amount is given back, is converted less the fee, or has left for a
// wallet. It fails when the payload does not decode.
func (ramp *rampTotals) rampMoved(e *persistence.Event) error {
	var p struct {
		Order, Direction, From, To, TxHash string
		AmountCents, FeeCents              money.Cents
		Postings                           []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	o := ramp.orders[p.Order]
	before := o
	before.Status, before.Direction, before.AmountCents = p.From, p.Direction, p.AmountCents
	ramp.expectEqual("ramp_order", p.Order, "moved from", before, o)
	ramp.expectEqual("ramp_order", p.Order, "may go from "+p.From+" to "+p.To, true, rampMoveAllowed(p.From, p.To))
	most := o.MaxFeeCents
	if p.To == "failed" {
		most = 0
	}
	if p.FeeCents < 0 || p.FeeCents > most || p.To == "processing" && p.FeeCents != most {
		ramp.expectEqual("ramp_order", p.Order, "fee", most, p.FeeCents)
	}
	want, into := map[string]money.Cents{}, money.Cents(0)
	switch p.To + " " + p.Direction {
	case "completed onramp", "failed offramp", "failed withdraw":
		into = p.AmountCents - p.FeeCents
		want["stablecoin"], want["ramp"] = into, -into
	case "completed offramp", "failed onramp":
		into = p.AmountCents - p.FeeCents
		want["usd"], want["ramp"] = into, -into
	}
	if !rampOrderOpen(p.To) {
		ramp.addOpenOrders(e, -1, -p.AmountCents)
	}
	o.Status, o.FeeCents, o.TxHash = p.To, p.FeeCents, p.TxHash
	ramp.orders[p.Order] = o
	ramp.expectRampPostings(e, p.Postings, want)
	return nil
}

func (ramp *rampTotals) addOpenOrders(e *persistence.Event, orders int64, cents money.Cents) {
	o := ramp.open[e.Workspace]
	o.orders += orders
	addChecked(ramp.shardTotals, "workspace", e.Workspace, "ramp", &o.cents, cents)
	ramp.open[e.Workspace] = o
}

// expectRampPostings adds and compares postings. Their dollars are credits that the authorizer
// applies.
func (ramp *rampTotals) expectRampPostings(e *persistence.Event, postings []posting, want map[string]money.Cents) {
	moved := ramp.addPostings(e, postings)
	ramp.expectPostings(e, moved, want)
	ramp.addLedgerCents(e, moved["usd"])
}

// rampSessionImported folds an imported session. It fails when the payload does not decode.
func (ramp *rampTotals) rampSessionImported(e *persistence.Event) error {
	var p struct{ Session rampSession }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	ramp.expectEqual("ramp_session", p.Session.ID, "brought over before", rampSession{}, ramp.sessions[p.Session.ID])
	ramp.sessions[p.Session.ID] = p.Session
	return nil
}

// rampSessionMoved folds the end of an imported session and checks its credit. It fails when the
// payload does not decode.
func (ramp *rampTotals) rampSessionMoved(e *persistence.Event) error {
	var p struct {
		Session, Direction, From, To string
		AmountCents                  money.Cents
		Postings                     []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	ramp.expectEqual("ramp_session", p.Session, "moved from", rampSession{p.Session, p.Direction, p.From,
		p.AmountCents},
		ramp.sessions[p.Session])
	ramp.expectEqual("ramp_session", p.Session, "may go from "+p.From+" to "+p.To, true,
		rampOrderOpen(p.From) && (p.To == "completed" || p.To == "failed"))
	ramp.sessions[p.Session] = rampSession{p.Session, p.Direction, p.To, p.AmountCents}
	want := map[string]money.Cents{}
	switch p.Direction + " " + p.To {
	case "onramp completed", "offramp failed":
		want["stablecoin"], want["ramp"] = p.AmountCents, -p.AmountCents
	}
	ramp.expectRampPostings(e, p.Postings, want)
	return nil
}

// rampRecord compares the account and the wallets of a workspace's ramp with the events;
// differences are findings. It fails when the document does not decode.
func (ramp *rampTotals) rampRecord(r *persistence.Record) error {
	var d struct {
		Account rampAccount
		Wallets []rampWallet
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	ramp.expectEqual("ramp", r.ID, "account", ramp.accounts[d.Account.ID], d.Account)
	for _, w := range d.Wallets {
		ramp.expectEqual("ramp", r.ID, "wallet", ramp.wallets[w.ID], w)
	}
	return nil
}

// compareOpenRamp compares a workspace's balance of open ramp orders with the events; differences
// are findings. It fails when the document does not decode.
func (ramp *rampTotals) compareOpenRamp(r *persistence.Record) error {
	var d struct {
		RampCents      money.Cents
		OpenRampOrders int64
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	ramp.expectEqual("balance", r.ID, "ramp and its open orders", ramp.open[r.ID],
		openRampOrders{d.RampCents, d.OpenRampOrders})
	return nil
}

// compareRamp compares the ramp's records with the events; differences are findings. It fails when
// the journal cannot be read.
func (ramp *rampTotals) compareRamp(ctx context.Context, journal persistence.Snapshot) error {
	if err := matchAll(ctx, ramp.shardTotals, journal, "ramp_account", maps.Clone(ramp.accounts)); err != nil {
		return err
	}
	if err := matchAll(ctx, ramp.shardTotals, journal, "ramp_wallet", maps.Clone(ramp.wallets)); err != nil {
		return err
	}
	if err := matchAll(ctx, ramp.shardTotals, journal, "ramp_quote", maps.Clone(ramp.quotes)); err != nil {
		return err
	}
	if err := matchAll(ctx, ramp.shardTotals, journal, "ramp_order", maps.Clone(ramp.orders)); err != nil {
		return err
	}
	return matchAll(ctx, ramp.shardTotals, journal, "ramp_session", maps.Clone(ramp.sessions))
}
