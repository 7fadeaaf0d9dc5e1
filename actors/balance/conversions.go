package balance

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Limits of conversions, per workspace.
const (
	MaxOpenConversions      = 1_000
	MaxConversionQuotes     = 1_000 // locked at a time
	ConversionLock          = 30 * time.Second
	LeastConversionLifetime = 5 * time.Second // a shorter offer expires before a client can use it
)

// scopeConversion is the scope of claims on what happens to a finished conversion, once for ever.
const scopeConversion = "conversion"

// ConversionQuote is a firm rate for one conversion. Rate is units bought for one unit sold, the
// desk's spread included.
type ConversionQuote struct {
	ID            string         `json:"id"`
	Status        string         `json:"status"` // locked or used
	Sell          Amount         `json:"sell"`
	Buy           Amount         `json:"buy"`
	Rate          string         `json:"rate"`
	LockExpiresAt decision.Stamp `json:"lockExpiresAt"`
	CreatedAt     decision.Stamp `json:"createdAt"`
}

// conversions has the decisions and folds of conversions between currencies.
type conversions struct{ *State }

// StatusAt is the quote's status at a time: locked, expired or used.
func (q ConversionQuote) StatusAt(now time.Time) string {
	return quoteStatusAt(q.Status, q.LockExpiresAt, now)
}

// QuotePair is the request for a conversion quote.
type QuotePair struct {
	Sell, Buy   money.Currency
	FixedSide   string // sell or buy
	AmountMinor money.Minor
}

// CheckPair checks the pair without regard to a workspace. It fails with invalid_body for a
// currency that Purser does not serve, a FixedSide other than sell or buy, or an amount out of
// range. It fails with same_currency for a pair of equal currencies.
func (p QuotePair) CheckPair() error {
	for _, c := range []money.Currency{p.Sell, p.Buy} {
		if _, served := c.Exponent(); !served {
			return fault.New(fault.InvalidBody, "sellCurrency, buyCurrency: a currency is not served")
		}
	}
	switch {
	case p.FixedSide != "sell" && p.FixedSide != "buy":
		return fault.New(fault.InvalidBody, "fixedSide: sell or buy")
	case p.AmountMinor < 1 || p.AmountMinor > money.MaxMinor:
		return fault.New(fault.InvalidBody, "amountMinor: "+money.ErrMinor.Error())
	case p.Sell == p.Buy:
		return fault.New(fault.SameCurrency, "sellCurrency and buyCurrency are the same")
	}
	return nil
}

// QuoteConversion locks a rate while the offer is firm, at most ConversionLock. Its reply is a
// ConversionQuote. The refusals are, in this order: those of CheckPair,
// currency_account_not_found, account_not_ready, onboarding_required, currency_unavailable,
// account_suspended, NoOffer, quote_lifetime_too_short, invalid_body for an amount that Sides
// refuses, and limit_exceeded.
type QuoteConversion struct {
	Workspace, ID string
	Pair          QuotePair
	Rate          money.Rate
	Firm          time.Duration
	NoOffer       error // the reason for no rate: the desk's fault, or too many requests for quotes
}

// CreateConversion uses a quote. Quote is its record. Its reply is a Conversion. It is refused, in
// this order, with quote_used, quote_expired, insufficient_funds, balance_paused, limit_exceeded or
// account_suspended.
type CreateConversion struct {
	Workspace, ID string
	Quote         ConversionQuote
}

// SubmitConversion asks for permission to send the order to the desk. Its reply is a
// ConversionSubmission.
type SubmitConversion struct{ ID string }

// ConversionSubmission answers SubmitConversion. Send is true exactly once in the life of a
// conversion: that caller sends the order to the desk, once.
type ConversionSubmission struct {
	Conversion Conversion
	Send       bool
}

// AnswerConversion records the desk's answer: AnswerTaken, AnswerRefused or AnswerNone. It has no
// reply.
type AnswerConversion struct{ ID, Answer string }

// ReportConversion is the desk's report of a conversion's outcome: completed or failed. Its
// reply is ReportedConversion, again and without effect for a repeat. An unknown conversion is
// not_found, and a report that the status does not allow is conversion_conflict. The completion
// of an abandoned conversion is limit_exceeded when a balance has no room for it.
type ReportConversion struct {
	EventID     string // the desk's, claimed once for 90 days
	ID, Outcome string
}

// ReportedConversion answers ReportConversion. Late says that the conversion had been abandoned, so
// that the sold amount is debited again.
type ReportedConversion struct {
	Conversion Conversion
	Late       bool
}

// decideConversion decides the commands of this file. The error is a fault that refuses the
// command; the type of the command lists the codes. SubmitConversion, AnswerConversion and
// LapseConversion are never refused. A bug panics: a command for another workspace or an unknown
// outcome.
func (b conversions) decideConversion(m decision.Meta, command any) (d decision.Decision, err error) {
	switch c := command.(type) {
	case QuoteConversion:
		b.mustOwn(c.Workspace)
		d, err = b.quoteConversion(m, c)
	case CreateConversion:
		b.mustOwn(c.Workspace)
		d, err = b.createConversion(m, c)
	case SubmitConversion:
		d = b.submitConversion(m, c)
	case AnswerConversion:
		d = b.answerConversion(m, c)
	case ReportConversion:
		d, err = b.reportConversion(m, c)
	case LapseConversion:
		d = b.lapseConversion(m, c)
	}
	return d, err
}

// checkQuotable checks that the workspace can convert the pair now. It fails with CheckPair's
// faults, currency_account_not_found, account_not_ready, onboarding_required, currency_unavailable
// or account_suspended, checked in this order.
func (b conversions) checkQuotable(p QuotePair) error {
	if err := p.CheckPair(); err != nil {
		return err
	}
	pair := []money.Currency{p.Sell, p.Buy}
	for _, code := range []fault.Code{fault.CurrencyNotHeld, fault.AccountNotReady} {
		for _, c := range pair {
			if err := b.checkActive(c); fault.Is(err, code) {
				return err
			}
		}
	}
	if !b.Onboarded {
		return fault.New(fault.OnboardingRequired, "the workspace is not set up for conversions")
	}
	for _, c := range pair {
		if _, converts := Covered(c); !converts {
			return fault.New(fault.CurrencyUnavailable, string(c)+" is not converted")
		}
	}
	for _, c := range pair {
		if err := b.checkActive(c); err != nil {
			return err
		}
	}
	return nil
}

// quoteConversion decides a quote whose rate is locked for c.Firm, at most for ConversionLock. It
// fails with the faults that QuoteConversion lists.
func (b conversions) quoteConversion(m decision.Meta, c QuoteConversion) (decision.Decision, error) {
	if err := b.checkQuotable(c.Pair); err != nil {
		return decision.Decision{}, err
	}
	if c.NoOffer != nil {
		return decision.Decision{}, c.NoOffer
	}
	if c.Firm < LeastConversionLifetime {
		return decision.Decision{}, fault.New(fault.QuoteTooShort, "the desk's rate would end before it can be used")
	}
	sell, buy, err := Sides(c.Rate, c.Pair.Sell, c.Pair.Buy, c.Pair.FixedSide, c.Pair.AmountMinor)
	if err != nil {
		return decision.Decision{}, err
	}
	now := decision.StampOf(m.At)
	if b.ConversionQuoteLocks.lockedAt(m.At) >= MaxConversionQuotes {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("at most %d quotes may be locked", MaxConversionQuotes))
	}
	q := ConversionQuote{ID: c.ID, Status: QuoteLocked, Sell: sell, Buy: buy, Rate: c.Rate.String(), CreatedAt: now,
		LockExpiresAt: decision.StampOf(m.At.Add(min(c.Firm, ConversionLock)))}
	return decision.Decision{
		Events:  []decision.Event{ConversionQuoted{Workspace: c.Workspace, Quote: q}},
		Reply:   q,
		Records: []decision.Record{{Kind: RecordConversionQuote, ID: q.ID, Document: q}},
	}, nil
}

// createConversion uses a locked quote and holds the amount sold. It sets the timer that cancels
// the conversion after UnsentFor. It fails with quote_used for an unknown or used quote, with
// quote_expired, and with the faults of checkConvertible.
func (b conversions) createConversion(m decision.Meta, c CreateConversion) (decision.Decision, error) {
	q, known := b.orders.conversionQuotes.findOrder(c.Quote.ID)
	switch {
	case !known || q.Status == QuoteUsed:
		return decision.Decision{}, fault.New(fault.QuoteUsed, "a quote is for one conversion")
	case q.StatusAt(m.At) == QuoteExpired:
		return decision.Decision{}, fault.New(fault.QuoteExpired, "the quote's rate is no longer firm")
	}
	if err := b.checkConvertible(q); err != nil {
		return decision.Decision{}, err
	}
	now := decision.StampOf(m.At)
	v := Conversion{ID: c.ID, QuoteID: q.ID, Status: ConversionHeld, Sell: q.Sell, Buy: q.Buy, CreatedAt: now,
		UpdatedAt: now,
		History:   []PayoutStep{{Status: ConversionHeld, At: now}}}
	t := b.newCurrencyTransfer("conversion/held/"+v.ID, m.At)
	t.moveAmount(AccountCurrency, AccountCurrencyHeld, v.Sell)
	line := t.activityLine(ActivityHold, v.Sell.Currency, -v.Sell.AmountMinor)
	line.ConversionID = v.ID
	q.Status = QuoteUsed
	return decision.Decision{
		Events: []decision.Event{ConversionCreated{Workspace: c.Workspace, Conversion: v,
			Postings: t.balancedPostings()}},
		Reply: v,
		Records: []decision.Record{{Kind: RecordConversion, ID: v.ID, Document: v}, line.activityRecord(),
			{Kind: RecordConversionQuote, ID: q.ID, Document: q}},
		Timers: []decision.Timer{{Key: timerUnsent + v.ID, Due: m.At.Add(UnsentFor)}},
	}, nil
}

// checkConvertible checks that the balances allow the quote's conversion. It fails with
// insufficient_funds, balance_paused, limit_exceeded (too many open conversions, or no room for the
// amount bought) or account_suspended. It panics when the workspace has no balance in the currency
// sold.
func (b conversions) checkConvertible(q ConversionQuote) error {
	sell := b.Currencies[b.mustCurrencyIndex(q.Sell.Currency)]
	switch {
	case sell.AvailableMinor < q.Sell.AmountMinor:
		return fault.New(fault.InsufficientFunds, "the balance does not cover what is sold")
	case sell.Scope != ScopeOK:
		return fault.New(fault.BalancePaused, "the balance is "+sell.Scope)
	case b.OpenConversions >= MaxOpenConversions:
		return fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d conversions may be open", MaxOpenConversions))
	case !b.canReceive(q.Buy):
		return balanceFull()
	}
	for _, c := range []money.Currency{q.Sell.Currency, q.Buy.Currency} {
		if err := b.checkActive(c); err != nil {
			return err
		}
	}
	return nil
}

// submitConversion moves a held conversion to provider_submitted and replies Send; any other
// status, or an unknown id, gets an empty reply. So one caller sends the order, once.
func (b conversions) submitConversion(m decision.Meta, c SubmitConversion) decision.Decision {
	v, known := b.orders.conversions.findOrder(c.ID)
	if !known || v.Status != ConversionHeld {
		return decision.Decision{Reply: ConversionSubmission{}}
	}
	v, d := b.moveConversion(m, v, deskSubmit, "")
	d.Reply = ConversionSubmission{Conversion: v, Send: true}
	d.Timers = []decision.Timer{{Key: timerUnsent + v.ID}, {Key: timerDeskAnswer + v.ID, Due: m.At.Add(AnswerWithin)},
		{Key: timerDeskLapse + v.ID, Due: m.At.Add(LapseAfter)}}
	return d
}

// answerConversion records the desk's answer. AnswerTaken changes no status; an answer after a
// report, or for an unknown id, changes nothing.
func (b conversions) answerConversion(m decision.Meta, c AnswerConversion) decision.Decision {
	v, known := b.orders.conversions.findOrder(c.ID)
	if !known || v.Status != ConversionSubmitted || c.Answer == AnswerTaken {
		return decision.Decision{}
	}
	step := deskSilence
	if c.Answer == AnswerRefused {
		step = deskReject
	}
	_, d := b.moveConversion(m, v, step, "")
	return d
}

// reportConversion applies the desk's report and frees or moves the held amount. It fails with
// invalid_body for an EventID of a wrong length, with not_found, with conversion_conflict, and with
// limit_exceeded when a balance has no room. It panics for an unknown Outcome.
func (b conversions) reportConversion(m decision.Meta, c ReportConversion) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	step, known := map[string]conversionStep{ConversionCompleted: deskComplete, ConversionFailed: deskFail}[c.Outcome]
	if !known {
		panic("BUG: outcome " + c.Outcome)
	}
	v, known := b.orders.conversions.findOrder(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if v.isRepeat(step) {
		return decision.Decision{Reply: ReportedConversion{Conversion: v}}, nil
	}
	if _, allowed := conversionMoves[v.Status][step]; !allowed {
		return decision.Decision{}, v.refuseStep(fault.ConversionConflict, step)
	}
	if step == deskComplete && !v.isOpen() && !b.canCompleteAbandoned(v) { // an open conversion reserved its room
		return decision.Decision{}, balanceFull()
	}
	moved, d := b.moveConversion(m, v, step, c.EventID)
	d.Reply = ReportedConversion{Conversion: moved, Late: !v.isOpen()}
	d.Onces = []decision.Once{{Scope: ScopeBank, Key: c.EventID, Expires: m.At.Add(BankRetention)}}
	if !v.isOpen() { // State keeps no finished conversions: the claim detects a repeat
		d.Onces = append(d.Onces, decision.Once{Scope: scopeConversion, Key: moved.Status + "/" + v.ID})
	}
	return d, nil
}

// conversionUnsent cancels a conversion that no process has sent.
func conversionUnsent(s *State, m decision.Meta, _, id string) (d decision.Decision) {
	if v, known := s.orders.conversions.findOrder(id); known && v.Status == ConversionHeld {
		_, d = conversions{s}.moveConversion(m, v, deskCancel, "")
	}
	return d
}

// conversionUnanswered makes the outcome of a conversion unknown that the desk has not answered.
func conversionUnanswered(s *State, m decision.Meta, _, id string) (d decision.Decision) {
	if v, known := s.orders.conversions.findOrder(id); known && v.Status == ConversionSubmitted {
		_, d = conversions{s}.moveConversion(m, v, deskSilence, "")
	}
	return d
}

// conversionOverdue asks for an open conversion that the desk has not reported.
func conversionOverdue(s *State, m decision.Meta, key, id string) (d decision.Decision) {
	if v, known := s.orders.conversions.findOrder(id); known && v.isOpen() {
		d = lapseDue(m, key, RecordConversion, id)
	}
	return d
}

// lapseConversion frees the money of a conversion that the desk does not have. A submitted
// conversion passes through outcome_unknown first; one in any other status stays as it is.
func (b conversions) lapseConversion(m decision.Meta, c LapseConversion) decision.Decision {
	v, known := b.orders.conversions.findOrder(c.ID)
	if !known || v.Status != ConversionSubmitted && v.Status != ConversionUnknown {
		return decision.Decision{}
	}
	var before []decision.Event
	if v.Status == ConversionSubmitted {
		var d decision.Decision
		v, d = b.moveConversion(m, v, deskSilence, "")
		before = d.Events
	}
	_, d := b.moveConversion(m, v, deskLapse, "")
	d.Events = append(before, d.Events...)
	return d
}

// moveConversion makes a step that conversionMoves allows, and panics for any other. The end of a
// conversion books its money and removes its timers.
func (b conversions) moveConversion(m decision.Meta, v Conversion, step conversionStep, eventID string) (Conversion,
	decision.Decision) {
	to, allowed := conversionMoves[v.Status][step]
	if !allowed {
		panic("BUG: " + v.refuseStep(fault.Internal, step).Error())
	}
	e := ConversionMoved{Workspace: b.Workspace, Conversion: v.ID, From: v.Status, To: to, Sell: v.Sell, Buy: v.Buy,
		EventID: eventID, Postings: []Posting{}, At: decision.StampOf(m.At)}
	after, d := v.afterMove(e), decision.Decision{}
	if !after.isOpen() {
		t := b.newCurrencyTransfer("conversion/"+to+"/"+v.ID, m.At)
		for _, line := range v.closingLines(t, to) {
			d.Records = append(d.Records, line.activityRecord())
		}
		e.Postings = t.balancedPostings()
		d.Timers = []decision.Timer{{Key: timerUnsent + v.ID}, {Key: timerDeskAnswer + v.ID},
			{Key: timerDeskLapse + v.ID}}
	}
	d.Events = []decision.Event{e}
	d.Records = append(d.Records, decision.Record{Kind: RecordConversion, ID: v.ID, Document: after})
	return after, d
}

func (b conversions) applyConversionQuoted(e ConversionQuoted) {
	b.orders.conversionQuotes.storeOrder(e.Quote.ID, e.Quote)
	b.ConversionQuoteLocks.lockQuote(e.Quote.CreatedAt, e.Quote.LockExpiresAt)
}

// applyConversionCreated folds the event into the state: it uses the quote and books the hold. It
// panics when the quote is not loaded or not locked.
func (b conversions) applyConversionCreated(e ConversionCreated) {
	q, known := b.orders.conversionQuotes.findOrder(e.Conversion.QuoteID)
	if !known || q.Status != QuoteLocked {
		panic("BUG: used a quote that is not locked")
	}
	q.Status = QuoteUsed
	b.orders.conversionQuotes.storeOrder(q.ID, q)
	b.ConversionQuoteLocks.removeLock(q.LockExpiresAt)
	b.orders.conversions.storeOrder(e.Conversion.ID, e.Conversion)
	b.OpenConversions++
	addToSum(&b.BuyingMinor, e.Conversion.Buy)
	b.postCurrencies(e.Postings)
}

// applyConversionMoved folds the event into the state: it books the postings and closes a finished
// conversion. It panics when the conversion is not loaded.
func (b conversions) applyConversionMoved(e ConversionMoved) {
	b.postCurrencies(e.Postings)
	before, known := b.orders.conversions.findOrder(e.Conversion)
	if !known {
		panic("BUG: moved a conversion that is not loaded")
	}
	after := before.afterMove(e)
	b.orders.conversions.storeOrder(after.ID, after)
	if before.isOpen() && !after.isOpen() {
		b.OpenConversions--
		addToSum(&b.BuyingMinor, after.Buy.negated())
	}
}

// checkConversions panics when the held amounts and the open conversions disagree.
func (b conversions) checkConversions() {
	held := money.Minor(0)
	for _, a := range b.Currencies {
		if a.HeldMinor < 0 {
			panic(fmt.Sprintf("BUG: %d %s are held", a.HeldMinor, a.Currency))
		}
		held = max(held, a.HeldMinor)
	}
	mustAgree("conversions", b.OpenConversions, held)
}
