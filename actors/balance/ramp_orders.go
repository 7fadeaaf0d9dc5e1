package balance

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// AccountRamp is the ramp's counterpart account: amounts of orders less their proceeds, dollars and
// USDC together, because they convert one for one. Finished orders leave their fees and withdrawals
// in it.
const AccountRamp = "ramp"

// ScopeRamp is the scope of the ramp partner's event ids. Each is claimed once within
// BankRetention.
const ScopeRamp = "ramp"

// Sources of the ramp's ledger lines. A withdrawal to a wallet has the source of an off-ramp.
const (
	sourceOnramp       = "ramp_onramp"
	sourceOfframp      = "ramp_offramp"
	sourceRampReversal = "ramp_reversal"
)

// RampAskEvery is the time after which an unanswered order is sent to the partner again. It grows
// with the order's age, up to LapseAskEvery, so that orders which the partner does not answer leave
// its calls to others.
const RampAskEvery = 30 * time.Second

// timerRamp is the key prefix of an open order's timer; the order's id follows. For an unanswered
// order it sends the order to the partner again. For an order that the partner took it asks for
// LapseDue after LapseAfter without a report.
const timerRamp = "ramp/"

// RampDue answers the timer of an order that is to be sent to the partner, possibly once more.
type RampDue struct{ Order string }

// rampStep is an event in the life of a ramp order. It completes "a ramp order that is … cannot be
// …".
type rampStep string

const (
	rampAccept   rampStep = "taken by the partner"
	rampRefuse   rampStep = "refused by the partner"
	rampComplete rampStep = "completed"
	rampFail     rampStep = "failed"
)

// rampMoves is the transition table of a ramp order: the steps allowed in each status, and the
// status that each leads to. Every other step is refused. A report can arrive before the partner's
// answer is recorded.
var rampMoves = map[string]map[rampStep]string{
	RampCreated: {
		rampAccept: RampProcessing, rampRefuse: RampFailed, rampComplete: RampCompleted, rampFail: RampFailed,
	},
	RampProcessing: {rampComplete: RampCompleted, rampFail: RampFailed},
	RampCompleted:  {},
	RampFailed:     {},
}

// rampReports are the steps of the outcomes that the partner reports.
var rampReports = map[string]rampStep{RampCompleted: rampComplete, RampFailed: rampFail}

// ramps has the decisions and folds of orders between dollars, USDC and wallets.
type ramps struct{ *State }

// StatusAt is the quote's status at a time: locked, expired or used.
func (q RampQuote) StatusAt(now time.Time) string {
	return quoteStatusAt(q.Status, q.ExpiresAt, now)
}

func (o *RampOrder) isOpen() bool { return o.Status == RampCreated || o.Status == RampProcessing }

// afterMove is the order after an event.
func (o RampOrder) afterMove(e RampMoved) RampOrder {
	o.Status, o.FeeCents, o.TxHash, o.UpdatedAt = e.To, e.FeeCents, e.TxHash, e.At
	o.History = append(slices.Clip(o.History), PayoutStep{Status: e.To, At: e.At})
	return o
}

// fundingTransfer is the transfer that creates the order: it debits the amount from the dollars for
// an on-ramp, otherwise from the stablecoins.
func (o *RampOrder) fundingTransfer(workspace string) transfer {
	t := transfer{workspace: workspace, account: AccountStablecoin, counterpart: AccountRamp, cents: -o.AmountCents,
		source: sourceOfframp, reference: o.ID, cause: "ramp/ordered/" + o.ID, at: o.CreatedAt.Time}
	if o.Direction == RampOn {
		t.account, t.source = AccountUSD, sourceOnramp
	}
	return t
}

// closingTransfer is the transfer that ends an order in the status to. A failed order gives its
// amount back. A completed order credits the other account with the amount less the fee; moves is
// false for a completed withdrawal, which credits none.
func (o *RampOrder) closingTransfer(workspace, to string, fee money.Cents, at time.Time) (t transfer, moves bool) {
	t = o.fundingTransfer(workspace)
	t.cause, t.at = "ramp/"+to+"/"+o.ID, at
	switch {
	case to == RampFailed:
		t.cents, t.source = o.AmountCents, sourceRampReversal
		return t, true
	case o.Direction == RampOn:
		t.account = AccountStablecoin
	case o.Direction == RampOff:
		t.account = AccountUSD
	default:
		return transfer{}, false
	}
	t.cents = o.AmountCents - fee
	return t, true
}

// decideRamp decides the commands of ramp_commands.go. Its errors are the faults that the type of
// the command lists. A bug panics: a command of another workspace, or a direction or an outcome
// that does not exist.
func (b ramps) decideRamp(m decision.Meta, command any) (d decision.Decision, err error) {
	switch c := command.(type) {
	case QuoteRamp:
		b.mustOwn(c.Workspace)
		d, err = b.quoteRamp(m, c)
	case CreateRampOrder:
		b.mustOwn(c.Workspace)
		d, err = b.createRampOrder(m, c)
	case AcceptRampOrder:
		d, err = b.answerRamp(m, c.ID, rampAccept)
	case RefuseRampOrder:
		d, err = b.answerRamp(m, c.ID, rampRefuse)
	case ReportRamp:
		d, err = b.reportRamp(m, c)
	case ImportRampSession:
		b.mustOwn(c.Workspace)
		d, err = b.importRampSession(m, c)
	}
	return d, err
}

func travelRuleFault() error {
	return fault.New(fault.TravelRule, fmt.Sprintf("a withdrawal must be less than %d dollars", TravelRuleCents/100))
}

// quoteRamp stores an offer, locked for RampLock. It fails with invalid_amount, with
// travel_rule_unsupported for a withdrawal of TravelRuleCents or more, and with limit_exceeded for
// too many quotes. An unknown direction panics.
func (b ramps) quoteRamp(m decision.Meta, c QuoteRamp) (decision.Decision, error) {
	known := slices.Contains([]string{RampOn, RampOff, RampWithdraw}, c.Direction)
	if !known || (c.Direction == RampWithdraw) != (c.WalletID != "") {
		panic("BUG: a ramp quote of direction " + c.Direction + " with wallet " + c.WalletID)
	}
	switch {
	case c.AmountCents < 1 || c.AmountCents > MaxRampCents:
		return decision.Decision{}, fault.New(fault.InvalidAmount, fmt.Sprintf("amount: 0.01 to %d dollars",
			MaxRampCents/100))
	case c.FeeCents < 0 || c.FeeCents >= c.AmountCents:
		return decision.Decision{}, fault.New(fault.InvalidAmount, "amount: more than the fee")
	case c.Direction == RampWithdraw && c.AmountCents >= TravelRuleCents:
		return decision.Decision{}, travelRuleFault()
	case b.RampQuoteLocks.lockedAt(m.At) >= MaxRampQuotes:
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d quotes may be locked",
			MaxRampQuotes))
	}
	q := RampQuote{ID: c.ID, Status: QuoteLocked, Direction: c.Direction, AmountCents: c.AmountCents,
		MaxFeeCents:  c.FeeCents,
		ReceiveCents: c.AmountCents - c.FeeCents, WalletID: c.WalletID, ExpiresAt: decision.StampOf(m.At.Add(RampLock)),
		CreatedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events:  []decision.Event{RampQuoted{Workspace: c.Workspace, Quote: q}},
		Reply:   q,
		Records: []decision.Record{{Kind: RecordRampQuote, ID: q.ID, Document: q}},
	}, nil
}

// createRampOrder uses a quote, debits its amount, and sets the timer that sends the order to the
// partner. It fails with checkRampOrder's faults.
func (b ramps) createRampOrder(m decision.Meta, c CreateRampOrder) (decision.Decision, error) {
	if err := b.checkRampOrder(m, c); err != nil {
		return decision.Decision{}, err
	}
	q, _ := b.orders.rampQuotes.findOrder(c.Quote.ID)
	now := decision.StampOf(m.At)
	o := RampOrder{ID: c.ID, QuoteID: q.ID, Direction: q.Direction, Status: RampCreated, AmountCents: q.AmountCents,
		MaxFeeCents: q.MaxFeeCents, FeeCents: q.MaxFeeCents, WalletID: q.WalletID, CreatedAt: now, UpdatedAt: now,
		History: []PayoutStep{{Status: RampCreated, At: now}}}
	given := o.fundingTransfer(c.Workspace)
	q.Status = QuoteUsed
	d := decision.Decision{
		Events: []decision.Event{RampOrdered{Workspace: c.Workspace, Order: o, Postings: given.balancedPostings()}},
		Reply:  o,
		Records: []decision.Record{{Kind: RecordRampOrder, ID: o.ID, Document: o}, given.ledgerRecord(),
			{Kind: RecordRampQuote, ID: q.ID, Document: q}},
		Timers: []decision.Timer{{Key: timerRamp + o.ID, Due: m.At}},
	}
	if o.Direction == RampOn {
		d.Debit = &decision.Debit{Reservation: reservationOf(ident.RampOrder, o.ID), Cents: o.AmountCents}
	}
	return d, nil
}

// checkRampOrder checks the quote that an order names. It fails with quote_mismatch,
// travel_rule_unsupported, quote_used, quote_expired, limit_exceeded or insufficient_funds. The
// runtime checks the dollars of an on-ramp.
func (b ramps) checkRampOrder(m decision.Meta, c CreateRampOrder) error {
	q := c.Quote
	stored, known := b.orders.rampQuotes.findOrder(q.ID)
	switch {
	case c.Withdrawal != (q.Direction == RampWithdraw):
		return fault.New(fault.QuoteMismatch, "quoteId: withdrawals and orders have quotes of their own")
	case c.Withdrawal && q.AmountCents >= TravelRuleCents:
		return travelRuleFault()
	case !known || stored.Status == QuoteUsed:
		return fault.New(fault.QuoteUsed, "a quote is for one order")
	case q.StatusAt(m.At) == QuoteExpired:
		return fault.New(fault.QuoteExpired, "the quote's offer has ended")
	case b.OpenRampOrders >= MaxOpenRampOrders:
		return fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d ramp orders may be open", MaxOpenRampOrders))
	case q.Direction == RampOn && !b.canAddCents(-q.AmountCents):
		return balanceFull()
	case q.Direction != RampOn && b.StablecoinCents < q.AmountCents:
		return fault.New(fault.InsufficientFunds, "the stablecoin balance does not cover the order")
	}
	return nil
}

// answerRamp records the partner's answer to an order. A repeat, an answer after a report, or one
// for an unknown order changes nothing. It fails with limit_exceeded when a refused order's refund
// does not fit the balance.
func (b ramps) answerRamp(m decision.Meta, id string, step rampStep) (decision.Decision, error) {
	o, known := b.orders.rampOrders.findOrder(id)
	if !known {
		return decision.Decision{}, nil
	}
	if _, allowed := rampMoves[o.Status][step]; !allowed {
		return decision.Decision{}, nil
	}
	return b.moveRamp(m, o, step, ReportRamp{})
}

// rampDue has an unanswered order sent again, and asks for one that the partner has not reported.
func rampDue(s *State, m decision.Meta, key, id string) (d decision.Decision) {
	switch o, _ := s.orders.rampOrders.findOrder(id); o.Status {
	case RampCreated:
		again := min(LapseAskEvery, max(RampAskEvery, m.At.Sub(o.CreatedAt.Time)))
		d.Timers = []decision.Timer{{Key: key, Due: m.At.Add(again)}}
		d.Reply = RampDue{Order: id}
	case RampProcessing:
		d = lapseDue(m, key, RecordRampOrder, id)
	}
	return d
}

// reportRamp decides the partner's report of an order or, with c.Session, of a session. A report
// that repeats the outcome of a finished order changes nothing. It fails with invalid_body for an
// EventID that checkEventID refuses or a TxHash of more than maxTxHash characters, with not_found,
// with checkReport's faults, and with limit_exceeded when the balance has no room. An unknown
// Outcome panics.
func (b ramps) reportRamp(m decision.Meta, c ReportRamp) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	step, known := rampReports[c.Outcome]
	if !known {
		panic("BUG: outcome " + c.Outcome)
	}
	if utf8.RuneCountInString(c.TxHash) > maxTxHash {
		return decision.Decision{}, fault.New(fault.InvalidBody, fmt.Sprintf("txHash: at most %d characters",
			maxTxHash))
	}
	if c.Session != nil {
		return b.reportRampSession(m, c)
	}
	o, known := b.orders.rampOrders.findOrder(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if o.isRepeat(c) {
		return decision.Decision{}, nil
	}
	if err := o.checkReport(c, step); err != nil {
		return decision.Decision{}, err
	}
	d, err := b.moveRamp(m, o, step, c)
	d.Onces = rampClaim(m, c.EventID)
	return d, err
}

func rampClaim(m decision.Meta, eventID string) []decision.Once {
	return []decision.Once{{Scope: ScopeRamp, Key: eventID, Expires: m.At.Add(BankRetention)}}
}

// isRepeat reports whether a report repeats the outcome of a finished order. A field that the
// report leaves out counts as equal.
func (o *RampOrder) isRepeat(c ReportRamp) bool {
	same := o.Status == c.Outcome
	if o.Status == RampCompleted {
		same = same && (c.FeeCents == nil || *c.FeeCents == o.FeeCents) && (c.TxHash == "" || c.TxHash == o.TxHash)
	}
	return same
}

// checkReport fails with ramp_conflict for a report that the order's status, fee or direction does
// not allow.
func (o *RampOrder) checkReport(c ReportRamp, step rampStep) error {
	_, allowed := rampMoves[o.Status][step]
	switch {
	case o.Status == c.Outcome:
		return fault.New(fault.RampConflict, "the order was reported with another fee or another transaction")
	case !allowed:
		return fault.New(fault.RampConflict, fmt.Sprintf("a ramp order that is %s cannot be %s", o.Status, step))
	case c.FeeCents != nil && (*c.FeeCents < 0 || *c.FeeCents > o.MaxFeeCents):
		return fault.New(fault.RampConflict, fmt.Sprintf("feeCents: 0 to %d", o.MaxFeeCents))
	case c.TxHash != "" && (o.Direction != RampWithdraw || step != rampComplete):
		return fault.New(fault.RampConflict, "txHash: only of a completed withdrawal")
	}
	return nil
}

// moveRamp makes a step that the caller has checked in rampMoves. A failed order has no fee. It
// fails with limit_exceeded when the balance has no room.
func (b ramps) moveRamp(m decision.Meta, o RampOrder, step rampStep, c ReportRamp) (decision.Decision, error) {
	to := rampMoves[o.Status][step]
	e := RampMoved{Workspace: b.Workspace, Order: o.ID, Direction: o.Direction, From: o.Status, To: to,
		AmountCents: o.AmountCents, FeeCents: o.FeeCents, TxHash: c.TxHash, EventID: c.EventID, Postings: []Posting{},
		At: decision.StampOf(m.At)}
	switch {
	case to == RampFailed:
		e.FeeCents = 0
	case c.FeeCents != nil:
		e.FeeCents = *c.FeeCents
	}
	after := o.afterMove(e)
	d := decision.Decision{Records: []decision.Record{{Kind: RecordRampOrder, ID: o.ID, Document: after}}}
	d.Timers = []decision.Timer{{Key: timerRamp + o.ID}}
	if after.isOpen() {
		d.Timers[0].Due = m.At.Add(LapseAfter)
	} else {
		if t, moves := o.closingTransfer(b.Workspace, to, e.FeeCents, m.At); moves {
			if !b.canCredit(t) {
				return decision.Decision{}, balanceFull()
			}
			e.Postings = t.balancedPostings()
			d.Records = append(d.Records, t.ledgerRecord())
		}
	}
	d.Events = []decision.Event{e}
	return d, nil
}

// canCredit reports whether a transfer's account can take its cents without an overflow.
func (b ramps) canCredit(t transfer) bool {
	if t.account == AccountUSD {
		return b.canAddCents(t.cents)
	}
	_, err := money.Add(b.StablecoinCents, t.cents)
	return err == nil
}

func (b ramps) applyRampQuoted(e RampQuoted) {
	b.Workspace = e.Workspace
	b.orders.rampQuotes.storeOrder(e.Quote.ID, e.Quote)
	b.RampQuoteLocks.lockQuote(e.Quote.CreatedAt, e.Quote.ExpiresAt)
}

// applyRampOrdered folds the event: it uses the quote and books the order's amount. It panics when
// the quote is not loaded or not locked.
func (b ramps) applyRampOrdered(e RampOrdered) {
	q, known := b.orders.rampQuotes.findOrder(e.Order.QuoteID)
	if !known || q.Status != QuoteLocked {
		panic("BUG: used a ramp quote that is not locked")
	}
	q.Status = QuoteUsed
	b.orders.rampQuotes.storeOrder(q.ID, q)
	b.RampQuoteLocks.removeLock(q.ExpiresAt)
	b.orders.rampOrders.storeOrder(e.Order.ID, e.Order)
	b.OpenRampOrders++
	b.RampCents = money.MustAdd(b.RampCents, e.Order.AmountCents)
	b.postRamp(e.Postings)
}

// applyRampMoved folds the event: it books the postings and closes a finished order. It panics when
// the order is not loaded or not open.
func (b ramps) applyRampMoved(e RampMoved) {
	before, known := b.orders.rampOrders.findOrder(e.Order)
	if !known || !before.isOpen() {
		panic("BUG: moved a ramp order that is not open")
	}
	after := before.afterMove(e)
	b.orders.rampOrders.storeOrder(after.ID, after)
	if !after.isOpen() {
		b.OpenRampOrders--
		b.RampCents = money.MustAdd(b.RampCents, -e.AmountCents)
	}
	b.postRamp(e.Postings)
}

// postRamp adds postings to the balance. The decision checked that they fit; an overflow panics.
func (b ramps) postRamp(postings []Posting) {
	for _, p := range postings {
		switch p.Account {
		case AccountUSD:
			if err := b.addLedgerCents(p.Amount.Cents()); err != nil {
				panic("BUG: ramp's dollars after their check: " + err.Error())
			}
		case AccountStablecoin:
			b.StablecoinCents = money.MustAdd(b.StablecoinCents, p.Amount.Cents())
		}
	}
}

// checkRamp panics when the ramp's sums disagree.
func (b ramps) checkRamp() {
	mustAgree("ramp orders", b.OpenRampOrders, b.RampCents)
	if b.OpenRampOrders > MaxOpenRampOrders {
		panic(fmt.Sprintf("BUG: %d ramp orders are open", b.OpenRampOrders))
	}
	if b.StablecoinCents < 0 {
		panic(fmt.Sprintf("BUG: the stablecoin balance is %d", b.StablecoinCents))
	}
}
