package balance

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// AccountRamp is what the ramp's partner was given less what came of it, dollars and USDC together: they change one for one. Of
// what is finished it keeps the fees and what was withdrawn.
const AccountRamp = "ramp"

// ScopeRamp is where the event ids of the ramp's partner are claimed, each once within BankRetention.
const ScopeRamp = "ramp"

// Sources of the ramp's lines in the ledger. What left for a wallet is an off-ramp too.
const (
	sourceOnramp       = "ramp_onramp"
	sourceOfframp      = "ramp_offramp"
	sourceRampReversal = "ramp_reversal"
)

// RampAskEvery is how long the partner has to answer an order before it is given the same order again.
const RampAskEvery = 30 * time.Second

// timerRamp is the key of the timer of an open order, before the order's id. It gives the order to
// the partner again until the partner answers. For an order that the partner has, it is LapseDue
// after LapseAfter without a report.
const timerRamp = "ramp/"

// RampDue answers the timer of an order that the partner is to be told of, once more if it was told before.
type RampDue struct{ Order string }

// rampStep is what can happen to an order of the ramp. It reads after "a ramp order that is … cannot be …".
type rampStep string

const (
	rampAccept   rampStep = "taken by the partner"
	rampRefuse   rampStep = "refused by the partner"
	rampComplete rampStep = "completed"
	rampFail     rampStep = "failed"
)

// rampMoves is the life of an order: what may happen in each status, and where it leads. What is not here is refused. A report
// can come before it is noted that the partner has the order.
var rampMoves = map[string]map[rampStep]string{
	RampCreated: {
		rampAccept: RampProcessing, rampRefuse: RampFailed, rampComplete: RampCompleted, rampFail: RampFailed,
	},
	RampProcessing: {rampComplete: RampCompleted, rampFail: RampFailed},
	RampCompleted:  {},
	RampFailed:     {},
}

// rampReports are the outcomes that the partner reports.
var rampReports = map[string]rampStep{RampCompleted: rampComplete, RampFailed: rampFail}

// ramps decides and applies commands and events of orders between dollars and USDC.
type ramps struct{ *State }

// StatusAt is the quote's status as the clock has it.
func (q RampQuote) StatusAt(now time.Time) string {
	return statusAt(q.Status, q.ExpiresAt, now)
}

func (o *RampOrder) open() bool { return o.Status == RampCreated || o.Status == RampProcessing }

// moved is the order after an event.
func (o RampOrder) moved(e RampMoved) RampOrder {
	o.Status, o.FeeCents, o.TxHash, o.UpdatedAt = e.To, e.FeeCents, e.TxHash, e.At
	o.History = append(slices.Clip(o.History), PayoutStep{Status: e.To, At: e.At})
	return o
}

// given is the transfer that an order begins with.
func (o *RampOrder) given(workspace string) transfer {
	t := transfer{workspace: workspace, account: AccountStablecoin, counterpart: AccountRamp, cents: -o.AmountCents,
		source: sourceOfframp, reference: o.ID, cause: "ramp/ordered/" + o.ID, at: o.CreatedAt.Time}
	if o.Direction == RampOn {
		t.account, t.source = AccountUSD, sourceOnramp
	}
	return t
}

// ends is the transfer with which an order ends; none when what was withdrawn has arrived.
func (o *RampOrder) ends(workspace, to string, fee int64, at time.Time) (t transfer, moves bool) {
	t = o.given(workspace)
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

// decideRamp answers the commands of the ramp; known is false for any other.
func (b ramps) decideRamp(m decision.Meta, command any) (d decision.Decision, known bool, err error) {
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
	default:
		return d, false, nil
	}
	return d, true, err
}

func travelRule() error {
	return fault.New(fault.TravelRule, fmt.Sprintf("a withdrawal is of less than %d dollars", TravelRuleCents/100))
}

func (b ramps) quoteRamp(m decision.Meta, c QuoteRamp) (decision.Decision, error) {
	known := slices.Contains([]string{RampOn, RampOff, RampWithdraw}, c.Direction)
	if !known || (c.Direction == RampWithdraw) != (c.WalletID != "") {
		panic("BUG: a ramp quote of direction " + c.Direction + " with wallet " + c.WalletID)
	}
	switch {
	case c.AmountCents < 1 || c.AmountCents > MaxRampCents:
		return decision.Decision{}, fault.New(fault.InvalidAmount, fmt.Sprintf("amount: 0.01 to %d dollars", MaxRampCents/100))
	case c.FeeCents < 0 || c.FeeCents >= c.AmountCents:
		return decision.Decision{}, fault.New(fault.InvalidAmount, "amount: more than the fee")
	case c.Direction == RampWithdraw && c.AmountCents >= TravelRuleCents:
		return decision.Decision{}, travelRule()
	case b.RampQuoteLocks.lockedAt(m.At) >= MaxRampQuotes:
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d quotes may be locked", MaxRampQuotes))
	}
	q := RampQuote{ID: c.ID, Status: QuoteLocked, Direction: c.Direction, AmountCents: c.AmountCents, MaxFeeCents: c.FeeCents,
		ReceiveCents: c.AmountCents - c.FeeCents, WalletID: c.WalletID, ExpiresAt: decision.StampOf(m.At.Add(RampLock)),
		CreatedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events:  []decision.Event{RampQuoted{Workspace: c.Workspace, Quote: q}},
		Reply:   q,
		Records: []decision.Record{{Kind: RecordRampQuote, ID: q.ID, Document: q}},
	}, nil
}

func (b ramps) createRampOrder(m decision.Meta, c CreateRampOrder) (decision.Decision, error) {
	if err := b.mayRamp(m, c); err != nil {
		return decision.Decision{}, err
	}
	q, _ := b.orders.rampQuotes.find(c.Quote.ID)
	now := decision.StampOf(m.At)
	o := RampOrder{ID: c.ID, QuoteID: q.ID, Direction: q.Direction, Status: RampCreated, AmountCents: q.AmountCents,
		MaxFeeCents: q.MaxFeeCents, FeeCents: q.MaxFeeCents, WalletID: q.WalletID, CreatedAt: now, UpdatedAt: now,
		History: []PayoutStep{{Status: RampCreated, At: now}}}
	given := o.given(c.Workspace)
	q.Status = QuoteUsed
	d := decision.Decision{
		Events: []decision.Event{RampOrdered{Workspace: c.Workspace, Order: o, Postings: given.postings()}},
		Reply:  o,
		Records: []decision.Record{{Kind: RecordRampOrder, ID: o.ID, Document: o}, given.record(),
			{Kind: RecordRampQuote, ID: q.ID, Document: q}},
		Timers: []decision.Timer{{Key: timerRamp + o.ID, Due: m.At}},
	}
	if o.Direction == RampOn {
		d.Debit = &decision.Debit{Reservation: reservationOf(ident.RampOrder, o.ID), Cents: o.AmountCents}
	}
	return d, nil
}

// mayRamp says whether an order may use the quote it names. Of dollars the runtime knows whether
// there are enough.
func (b ramps) mayRamp(m decision.Meta, c CreateRampOrder) error {
	q := c.Quote
	stored, known := b.orders.rampQuotes.find(q.ID)
	switch {
	case c.Withdrawal != (q.Direction == RampWithdraw):
		return fault.New(fault.QuoteMismatch, "quoteId: withdrawals and orders have quotes of their own")
	case c.Withdrawal && q.AmountCents >= TravelRuleCents:
		return travelRule()
	case !known || stored.Status == QuoteUsed:
		return fault.New(fault.QuoteUsed, "a quote is for one order")
	case q.StatusAt(m.At) == QuoteExpired:
		return fault.New(fault.QuoteExpired, "the quote's offer has ended")
	case b.OpenRampOrders >= MaxOpenRampOrders:
		return fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d ramp orders may be open", MaxOpenRampOrders))
	case q.Direction == RampOn && !b.fits(-q.AmountCents):
		return overflow()
	case q.Direction != RampOn && b.StablecoinCents < q.AmountCents:
		return fault.New(fault.InsufficientFunds, "the stablecoin balance does not cover the order")
	}
	return nil
}

// answerRamp notes what the partner answered to an order. What comes after a report, or again, changes nothing.
func (b ramps) answerRamp(m decision.Meta, id string, step rampStep) (decision.Decision, error) {
	o, known := b.orders.rampOrders.find(id)
	if !known {
		return decision.Decision{}, nil
	}
	if _, allowed := rampMoves[o.Status][step]; !allowed {
		return decision.Decision{}, nil
	}
	return b.moveRamp(m, o, step, ReportRamp{})
}

// rampTimer answers the timer of an order; known is false for any other key.
func (b ramps) rampTimer(m decision.Meta, key string) (d decision.Decision, known bool) {
	id, known := strings.CutPrefix(key, timerRamp)
	if !known {
		return d, false
	}
	switch o, _ := b.orders.rampOrders.find(id); o.Status {
	case RampCreated:
		d.Timers = []decision.Timer{{Key: key, Due: m.At.Add(RampAskEvery)}}
		d.Reply = RampDue{Order: id}
	case RampProcessing:
		d = lapseDue(m, key, RecordRampOrder, id)
	}
	return d, true
}

func (b ramps) reportRamp(m decision.Meta, c ReportRamp) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	step, known := rampReports[c.Outcome]
	if !known {
		panic("BUG: outcome " + c.Outcome)
	}
	if utf8.RuneCountInString(c.TxHash) > maxTxHash {
		return decision.Decision{}, fault.New(fault.InvalidBody, fmt.Sprintf("txHash: at most %d characters", maxTxHash))
	}
	if c.Session != nil {
		return b.reportRampSession(m, c)
	}
	o, known := b.orders.rampOrders.find(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if o.reported(c) {
		return decision.Decision{}, nil
	}
	if err := o.mayReport(c, step); err != nil {
		return decision.Decision{}, err
	}
	d, err := b.moveRamp(m, o, step, c)
	d.Onces = rampClaim(m, c.EventID)
	return d, err
}

func rampClaim(m decision.Meta, eventID string) []decision.Once {
	return []decision.Once{{Scope: ScopeRamp, Key: eventID, Expires: m.At.Add(BankRetention)}}
}

// reported says whether a report tells nothing new of a finished order. What it leaves out it does not deny.
func (o *RampOrder) reported(c ReportRamp) bool {
	same := o.Status == c.Outcome
	if o.Status == RampCompleted {
		same = same && (c.FeeCents == nil || *c.FeeCents == o.FeeCents) && (c.TxHash == "" || c.TxHash == o.TxHash)
	}
	return same
}

// mayReport refuses a report that the order's status, its fee or its direction does not allow.
func (o *RampOrder) mayReport(c ReportRamp, step rampStep) error {
	_, allowed := rampMoves[o.Status][step]
	switch {
	case o.Status == c.Outcome:
		return fault.New(fault.RampConflict, "the order was reported with another fee or another transaction")
	case !allowed:
		return fault.New(fault.RampConflict, fmt.Sprintf("a ramp order that is %s cannot be %s", o.Status, step))
	case c.FeeCents != nil && (*c.FeeCents < 0 || *c.FeeCents > o.MaxFeeCents):
		return fault.New(fault.RampConflict, fmt.Sprintf("feeCents: 0 to %d", o.MaxFeeCents))
	case c.TxHash != "" && (o.Direction != RampWithdraw || step != rampComplete):
		return fault.New(fault.RampConflict, "txHash: of a withdrawal that completed")
	}
	return nil
}

// moveRamp makes a step that the table allows. An order that failed cost nothing.
func (b ramps) moveRamp(m decision.Meta, o RampOrder, step rampStep, c ReportRamp) (decision.Decision, error) {
	to := rampMoves[o.Status][step]
	e := RampMoved{Workspace: b.Workspace, Order: o.ID, Direction: o.Direction, From: o.Status, To: to, AmountCents: o.AmountCents,
		FeeCents: o.FeeCents, TxHash: c.TxHash, EventID: c.EventID, Postings: []Posting{}, At: decision.StampOf(m.At)}
	switch {
	case to == RampFailed:
		e.FeeCents = 0
	case c.FeeCents != nil:
		e.FeeCents = *c.FeeCents
	}
	after := o.moved(e)
	d := decision.Decision{Records: []decision.Record{{Kind: RecordRampOrder, ID: o.ID, Document: after}}}
	d.Timers = []decision.Timer{{Key: timerRamp + o.ID}}
	if after.open() {
		d.Timers[0].Due = m.At.Add(LapseAfter)
	} else {
		if t, moves := o.ends(b.Workspace, to, e.FeeCents, m.At); moves {
			if !b.holdsRamp(t) {
				return decision.Decision{}, overflow()
			}
			e.Postings = t.postings()
			d.Records = append(d.Records, t.record())
		}
	}
	d.Events = []decision.Event{e}
	return d, nil
}

// holdsRamp says whether the account can take what the ramp brings.
func (b ramps) holdsRamp(t transfer) bool {
	if t.account == AccountUSD {
		return b.fits(t.cents)
	}
	_, err := money.Add(b.StablecoinCents, t.cents)
	return err == nil
}

func (b ramps) applyRampQuoted(e RampQuoted) {
	b.Workspace = e.Workspace
	b.orders.rampQuotes.store(e.Quote.ID, e.Quote)
	b.RampQuoteLocks.lockQuote(e.Quote.CreatedAt, e.Quote.ExpiresAt)
}

func (b ramps) applyRampOrdered(e RampOrdered) {
	q, known := b.orders.rampQuotes.find(e.Order.QuoteID)
	if !known || q.Status != QuoteLocked {
		panic("BUG: used a ramp quote that is not locked")
	}
	q.Status = QuoteUsed
	b.orders.rampQuotes.store(q.ID, q)
	b.RampQuoteLocks.useQuote(q.ExpiresAt)
	b.orders.rampOrders.store(e.Order.ID, e.Order)
	b.OpenRampOrders++
	b.RampCents = money.MustAdd(b.RampCents, e.Order.AmountCents)
	b.postRamp(e.Postings)
}

func (b ramps) applyRampMoved(e RampMoved) {
	before, known := b.orders.rampOrders.find(e.Order)
	if !known || !before.open() {
		panic("BUG: moved a ramp order that is not open")
	}
	after := before.moved(e)
	b.orders.rampOrders.store(after.ID, after)
	if !after.open() {
		b.OpenRampOrders--
		b.RampCents = money.MustAdd(b.RampCents, -e.AmountCents)
	}
	b.postRamp(e.Postings)
}

// postRamp adds what a check has found to fit.
func (b ramps) postRamp(postings []Posting) {
	for _, p := range postings {
		switch p.Account {
		case AccountUSD:
			if err := b.credit(p.Cents); err != nil {
				panic("BUG: ramp's dollars after their check: " + err.Error())
			}
		case AccountStablecoin:
			b.StablecoinCents = money.MustAdd(b.StablecoinCents, p.Cents)
		}
	}
}

// checkRamp is the invariant of the ramp, looked at after every event.
func (b ramps) checkRamp() {
	mustAgree("ramp orders", b.OpenRampOrders, b.RampCents)
	if b.OpenRampOrders > MaxOpenRampOrders {
		panic(fmt.Sprintf("BUG: %d ramp orders are open", b.OpenRampOrders))
	}
	if b.StablecoinCents < 0 {
		panic(fmt.Sprintf("BUG: the stablecoin balance is %d", b.StablecoinCents))
	}
}
