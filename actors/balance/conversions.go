package balance

import (
	"fmt"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Limits of conversions, of a workspace.
const (
	MaxOpenConversions      = 1_000
	MaxConversionQuotes     = 1_000 // locked
	ConversionLock          = 30 * time.Second
	LeastConversionLifetime = 5 * time.Second // of an offer: with less nobody can use a quote
)

// scopeConversion is where what happens to a conversion after it is finished is claimed, once and for ever.
const scopeConversion = "conversion"

// ConversionQuote is a firm rate for one conversion. Rate is units bought for one sold, the desk's spread included.
type ConversionQuote struct {
	ID            string         `json:"id"`
	Status        string         `json:"status"` // locked or used
	Sell          Amount         `json:"sell"`
	Buy           Amount         `json:"buy"`
	Rate          string         `json:"rate"`
	LockExpiresAt decision.Stamp `json:"lockExpiresAt"`
	CreatedAt     decision.Stamp `json:"createdAt"`
}

// conversions decides and applies commands and events of conversions between a balance's
// currencies.
type conversions struct{ *State }

// StatusAt is the quote's status as the clock has it.
func (q ConversionQuote) StatusAt(now time.Time) string {
	return statusAt(q.Status, q.LockExpiresAt, now)
}

// QuotePair is what a quote is asked for.
type QuotePair struct {
	Sell, Buy   money.Currency
	FixedSide   string // sell or buy
	AmountMinor money.Minor
}

// CheckPair refuses what no workspace can be quoted: invalid_body, same_currency.
func (p QuotePair) CheckPair() error {
	for _, c := range []money.Currency{p.Sell, p.Buy} {
		if _, served := c.Exponent(); !served {
			return fault.New(fault.InvalidBody, "sellCurrency, buyCurrency: ones that are served")
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

// QuoteConversion locks a rate for as long as the offer is firm, at most ConversionLock. It answers ConversionQuote. It is
// refused with currency_account_not_found, account_not_ready, onboarding_required, currency_unavailable, account_suspended, then
// with what the desk said instead of a rate, quote_lifetime_too_short and limit_exceeded.
type QuoteConversion struct {
	Workspace, ID string
	Pair          QuotePair
	Rate          money.Rate
	Firm          time.Duration
	NoOffer       error // why there is no rate: the fault that the desk answered, or that too many quotes were asked for
}

// CreateConversion uses a quote. Quote is its record. It answers Conversion. It is refused with quote_used, quote_expired,
// insufficient_funds, balance_paused, limit_exceeded or account_suspended, in this order.
type CreateConversion struct {
	Workspace, ID string
	Quote         ConversionQuote
}

// SubmitConversion comes from who is about to tell the desk. It answers ConversionSubmission, with Send for one asker in its
// life.
type SubmitConversion struct{ ID string }

// ConversionSubmission answers SubmitConversion. Who got Send may tell the desk, once.
type ConversionSubmission struct {
	Conversion Conversion
	Send       bool
}

// AnswerConversion notes the desk's answer (AnswerTaken, AnswerRefused, AnswerNone). It answers nothing.
type AnswerConversion struct{ ID, Answer string }

// ReportConversion is the desk's report of the outcome of a conversion: completed or failed. It
// answers ReportedConversion, and repeats the answer without effect for an earlier report. A report
// that the status does not allow is conversion_conflict.
type ReportConversion struct {
	EventID     string // the desk's, once for 90 days
	ID, Outcome string
}

// ReportedConversion answers ReportConversion. Late says that the conversion had been abandoned: what was sold is debited again.
type ReportedConversion struct {
	Conversion Conversion
	Late       bool
}

// decideConversion answers the commands of this file; known is false for any other.
func (b conversions) decideConversion(m decision.Meta, command any) (d decision.Decision, known bool, err error) {
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
	default:
		return d, false, nil
	}
	return d, true, err
}

func (b conversions) mayQuote(p QuotePair) error {
	if err := p.CheckPair(); err != nil {
		return err
	}
	pair := []money.Currency{p.Sell, p.Buy}
	for _, code := range []fault.Code{fault.CurrencyNotHeld, fault.AccountNotReady} {
		for _, c := range pair {
			if err := b.ready(c); fault.Is(err, code) {
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
		if err := b.ready(c); err != nil {
			return err
		}
	}
	return nil
}

func (b conversions) quoteConversion(m decision.Meta, c QuoteConversion) (decision.Decision, error) {
	if err := b.mayQuote(c.Pair); err != nil {
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

func (b conversions) createConversion(m decision.Meta, c CreateConversion) (decision.Decision, error) {
	q, known := b.orders.conversionQuotes.find(c.Quote.ID)
	switch {
	case !known || q.Status == QuoteUsed:
		return decision.Decision{}, fault.New(fault.QuoteUsed, "a quote is for one conversion")
	case q.StatusAt(m.At) == QuoteExpired:
		return decision.Decision{}, fault.New(fault.QuoteExpired, "the quote's rate is no longer firm")
	}
	if err := b.mayConvert(q); err != nil {
		return decision.Decision{}, err
	}
	now := decision.StampOf(m.At)
	v := Conversion{ID: c.ID, QuoteID: q.ID, Status: ConversionHeld, Sell: q.Sell, Buy: q.Buy, CreatedAt: now, UpdatedAt: now,
		History: []PayoutStep{{Status: ConversionHeld, At: now}}}
	t := b.movement("conversion/held/"+v.ID, m.At)
	t.move(AccountCurrency, AccountCurrencyHeld, v.Sell)
	line := t.line(ActivityHold, v.Sell.Currency, -v.Sell.AmountMinor)
	line.ConversionID = v.ID
	q.Status = QuoteUsed
	return decision.Decision{
		Events: []decision.Event{ConversionCreated{Workspace: c.Workspace, Conversion: v, Postings: t.postings()}},
		Reply:  v,
		Records: []decision.Record{{Kind: RecordConversion, ID: v.ID, Document: v}, line.record(),
			{Kind: RecordConversionQuote, ID: q.ID, Document: q}},
		Timers: []decision.Timer{{Key: timerUnsent + v.ID, Due: m.At.Add(UnsentFor)}},
	}, nil
}

// mayConvert holds a quote against the balances.
func (b conversions) mayConvert(q ConversionQuote) error {
	sell := b.Currencies[b.mustCurrency(q.Sell.Currency)]
	switch {
	case sell.AvailableMinor < q.Sell.AmountMinor:
		return fault.New(fault.InsufficientFunds, "the balance does not cover what is sold")
	case sell.Scope != ScopeOK:
		return fault.New(fault.BalancePaused, "the balance is "+sell.Scope)
	case b.OpenConversions >= MaxOpenConversions:
		return fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d conversions may be open", MaxOpenConversions))
	case !b.holds(q.Buy):
		return overflow()
	}
	for _, c := range []money.Currency{q.Sell.Currency, q.Buy.Currency} {
		if err := b.ready(c); err != nil {
			return err
		}
	}
	return nil
}

// submitConversion makes a conversion the desk's to be told of, by who asked and by nobody else.
func (b conversions) submitConversion(m decision.Meta, c SubmitConversion) decision.Decision {
	v, known := b.orders.conversions.find(c.ID)
	if !known || v.Status != ConversionHeld {
		return decision.Decision{Reply: ConversionSubmission{}}
	}
	v, d := b.moveConversion(m, v, deskSubmit, "")
	d.Reply = ConversionSubmission{Conversion: v, Send: true}
	d.Timers = []decision.Timer{{Key: timerUnsent + v.ID}, {Key: timerDeskAnswer + v.ID, Due: m.At.Add(AnswerWithin)},
		{Key: timerDeskLapse + v.ID, Due: m.At.Add(LapseAfter)}}
	return d
}

// answerConversion notes what the desk answered. That it has the order is no news; what came after a report changes nothing.
func (b conversions) answerConversion(m decision.Meta, c AnswerConversion) decision.Decision {
	v, known := b.orders.conversions.find(c.ID)
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

func (b conversions) reportConversion(m decision.Meta, c ReportConversion) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	step, known := map[string]conversionStep{ConversionCompleted: deskComplete, ConversionFailed: deskFail}[c.Outcome]
	if !known {
		panic("BUG: outcome " + c.Outcome)
	}
	v, known := b.orders.conversions.find(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if v.done(step) {
		return decision.Decision{Reply: ReportedConversion{Conversion: v}}, nil
	}
	if _, allowed := conversionMoves[v.Status][step]; !allowed {
		return decision.Decision{}, v.refuse(fault.ConversionConflict, step)
	}
	if step == deskComplete && !v.open() && !b.holdsFact(v) { // an open conversion has reserved its room
		return decision.Decision{}, overflow()
	}
	moved, d := b.moveConversion(m, v, step, c.EventID)
	d.Reply = ReportedConversion{Conversion: moved, Late: !v.open()}
	d.Onces = []decision.Once{{Scope: ScopeBank, Key: c.EventID, Expires: m.At.Add(BankRetention)}}
	if !v.open() { // the state no longer tells a repeat
		d.Onces = append(d.Onces, decision.Once{Scope: scopeConversion, Key: moved.Status + "/" + v.ID})
	}
	return d, nil
}

// conversionTimer answers the timers of conversions; known is false for any other key.
func (b conversions) conversionTimer(m decision.Meta, key string) (d decision.Decision, known bool) {
	for prefix, fired := range map[string]func(Conversion) decision.Decision{
		timerUnsent: func(v Conversion) decision.Decision {
			if v.Status != ConversionHeld {
				return decision.Decision{}
			}
			_, d := b.moveConversion(m, v, deskCancel, "")
			return d
		},
		timerDeskAnswer: func(v Conversion) decision.Decision {
			if v.Status != ConversionSubmitted {
				return decision.Decision{}
			}
			_, d := b.moveConversion(m, v, deskSilence, "")
			return d
		},
		timerDeskLapse: func(v Conversion) decision.Decision { return lapseDue(m, key, RecordConversion, v.ID) },
	} {
		id, is := strings.CutPrefix(key, prefix)
		if !is {
			continue
		}
		if v, known := b.orders.conversions.find(id); known && v.open() {
			return fired(v), true
		}
		return d, true
	}
	return d, false
}

// lapseConversion frees the money of a conversion that the desk does not have. A conversion whose
// silence has not been noted yet passes through outcome_unknown.
func (b conversions) lapseConversion(m decision.Meta, c LapseConversion) decision.Decision {
	v, known := b.orders.conversions.find(c.ID)
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

// moveConversion makes a step that the table allows. Timers end with the conversion.
func (b conversions) moveConversion(m decision.Meta, v Conversion, step conversionStep, eventID string) (Conversion,
	decision.Decision) {
	to, allowed := conversionMoves[v.Status][step]
	if !allowed {
		panic("BUG: " + v.refuse(fault.Internal, step).Error())
	}
	e := ConversionMoved{Workspace: b.Workspace, Conversion: v.ID, From: v.Status, To: to, Sell: v.Sell, Buy: v.Buy,
		EventID: eventID, Postings: []Posting{}, At: decision.StampOf(m.At)}
	after, d := v.moved(e), decision.Decision{}
	if !after.open() {
		t := b.movement("conversion/"+to+"/"+v.ID, m.At)
		for _, line := range v.ends(t, to) {
			d.Records = append(d.Records, line.record())
		}
		e.Postings = t.postings()
		d.Timers = []decision.Timer{{Key: timerUnsent + v.ID}, {Key: timerDeskAnswer + v.ID}, {Key: timerDeskLapse + v.ID}}
	}
	d.Events = []decision.Event{e}
	d.Records = append(d.Records, decision.Record{Kind: RecordConversion, ID: v.ID, Document: after})
	return after, d
}

func (b conversions) applyConversionQuoted(e ConversionQuoted) {
	b.orders.conversionQuotes.store(e.Quote.ID, e.Quote)
	b.ConversionQuoteLocks.lockQuote(e.Quote.CreatedAt, e.Quote.LockExpiresAt)
}

func (b conversions) applyConversionCreated(e ConversionCreated) {
	q, known := b.orders.conversionQuotes.find(e.Conversion.QuoteID)
	if !known || q.Status != QuoteLocked {
		panic("BUG: used a quote that is not locked")
	}
	q.Status = QuoteUsed
	b.orders.conversionQuotes.store(q.ID, q)
	b.ConversionQuoteLocks.useQuote(q.LockExpiresAt)
	b.orders.conversions.store(e.Conversion.ID, e.Conversion)
	b.OpenConversions++
	addOpen(&b.BuyingMinor, e.Conversion.Buy, 1)
	b.post(e.Postings)
}

func (b conversions) applyConversionMoved(e ConversionMoved) {
	b.post(e.Postings)
	before, known := b.orders.conversions.find(e.Conversion)
	if !known {
		panic("BUG: moved a conversion that is not loaded")
	}
	after := before.moved(e)
	b.orders.conversions.store(after.ID, after)
	if before.open() && !after.open() {
		b.OpenConversions--
		addOpen(&b.BuyingMinor, after.Buy, -1)
	}
}

// checkConversions is the invariant of what is held, looked at after every event.
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
