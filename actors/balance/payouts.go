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

const (
	sourcePayout       = "payout"
	sourcePayoutReturn = "payout_return"
)

// scopePayout is the scope of claims on what happens to a finished payout, once for ever.
const scopePayout = "payout"

// payouts has the decisions and folds of payouts and of their firm exchange rates.
type payouts struct{ *State }

// createPayout reserves the dollars and stores the order. A wire abroad waits for its release; any
// other payout is ready to be sent. It fails with the faults of checkWithRecipient, checkQuote and
// checkLimits; the runtime refuses dollars that the balance lacks.
func (b payouts) createPayout(m decision.Meta, c CreatePayout) (decision.Decision, error) {
	if err := c.checkWithRecipient(); err != nil {
		return decision.Decision{}, err
	}
	if err := b.checkQuote(m, c); err != nil {
		return decision.Decision{}, err
	}
	if err := b.checkLimits(m, c); err != nil {
		return decision.Decision{}, err
	}
	if _, known := b.orders.payouts.findOrder(c.ID); known {
		panic("BUG: payout created twice")
	}
	if !b.canAddCents(-c.AmountCents) {
		return decision.Decision{}, balanceFull()
	}
	p := newPayout(m, c)
	e := PayoutCreated{Workspace: c.Workspace, Payout: p}
	d := decision.Decision{
		Events: []decision.Event{e},
		Reply:  p,
		Records: []decision.Record{
			{Kind: RecordPayout, ID: p.ID, Document: p},
			{Kind: RecordPayoutText, ID: p.ID, Document: PayoutText{Description: c.Description}, Personal: true},
		},
		Debit: &decision.Debit{Reservation: ReservationOf(p.ID), Cents: p.AmountCents},
	}
	if c.Quote != nil {
		used := *c.Quote
		used.Status = QuoteUsed
		d.Records = append(d.Records, decision.Record{Kind: RecordQuote, ID: used.ID, Document: used})
	}
	return d, nil
}

// newPayout builds the payout that the command orders: held for a wire abroad, reserved on the
// other rails.
func newPayout(m decision.Meta, c CreatePayout) Payout {
	at := decision.StampOf(m.At)
	p := Payout{
		ID: c.ID, Rail: c.Rail, Status: PayoutReserved, CounterpartyID: c.Recipient.ID, AmountCents: c.AmountCents,
		SameDay: c.SameDay, Reference: c.ID, ExpectedOn: c.ExpectedOn, Key: c.Key, CreatedAt: at, UpdatedAt: at,
	}
	if c.Rail == RailIntlWire {
		p.Status, p.UETR = PayoutHeld, c.UETR
	}
	if c.Quote != nil {
		p.QuoteID, p.Buy = &c.Quote.ID, &c.Quote.Buy
	}
	p.History = []PayoutStep{{Status: p.Status, At: at}}
	return p
}

// ReservationOf is the id under which the authorizer reserves a payout's dollars until it has
// applied the payout's event. It panics for a text that is not a payout id.
func ReservationOf(payout string) string { return reservationOf(ident.Payout, payout) }

// reservationOf is the id of the reservation of an order with this prefix. It panics for a text
// that is not such an id.
func reservationOf(prefix, id string) string {
	u, err := ident.Parse(prefix, id)
	if err != nil {
		panic("BUG: " + prefix + " id " + id)
	}
	return u.Format(ident.Reservation)
}

// CheckBody fails with invalid_body for an order that no recipient could make valid: a wrong rail,
// amount or description, sameDay off the rail ach, or a quote off the rail intl_wire. quoted says
// that a quote is named.
func (c *CreatePayout) CheckBody(quoted bool) error {
	switch {
	case !slices.Contains([]string{RailACH, RailWire, RailRealtime, RailIntlWire}, c.Rail):
		return fault.New(fault.InvalidBody, "rail: ach, wire, realtime or intl_wire")
	case c.AmountCents <= 0 || c.AmountCents > money.MaxAmount:
		return fault.New(fault.InvalidBody, fmt.Sprintf("amountCents: 1 to %d", money.MaxAmount))
	case utf8.RuneCountInString(c.Description) < 1 || utf8.RuneCountInString(c.Description) > MaxDescription:
		return fault.New(fault.InvalidBody, fmt.Sprintf("description: 1 to %d characters", MaxDescription))
	case c.SameDay && c.Rail != RailACH:
		return fault.New(fault.InvalidBody, "sameDay: only on the rail ach")
	case quoted && c.Rail != RailIntlWire:
		return fault.New(fault.InvalidBody, "quoteId: only on the rail intl_wire")
	}
	return nil
}

// checkWithRecipient checks the order against its recipient. It fails with CheckBody's faults, with
// invalid_body for a rail that does not suit the recipient's country, and with limit_exceeded for a
// same-day payout above MaxSameDayCents.
func (c *CreatePayout) checkWithRecipient() error {
	if err := c.CheckBody(c.Quote != nil); err != nil {
		return err
	}
	switch {
	case (c.Rail == RailIntlWire) != c.Recipient.International:
		return fault.New(fault.InvalidBody, "rail: intl_wire for a recipient abroad, another rail for one in the US")
	case c.SameDay && c.AmountCents > MaxSameDayCents:
		return fault.New(fault.LimitExceeded, fmt.Sprintf("a same-day payout has at most %d cents", MaxSameDayCents))
	}
	return nil
}

// checkLimits fails with limit_exceeded for a payout beyond the number of open payouts, the number
// of paying keys, or the sums of the UTC day.
func (b payouts) checkLimits(m decision.Meta, c CreatePayout) error {
	if b.OpenPayouts >= MaxOpenPayouts {
		return fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d payouts may be open", MaxOpenPayouts))
	}
	today := b.PaidOut.onDay(dayOf(decision.StampOf(m.At)))
	if _, known := today.Keys[c.Key]; !known && len(today.Keys) >= MaxPayoutKeys {
		return fault.New(fault.LimitExceeded,
			fmt.Sprintf("at most %d keys may order payouts on one day", MaxPayoutKeys))
	}
	if today.Keys[c.Key] > c.Limits.KeyCents-c.AmountCents {
		return fault.New(fault.LimitExceeded, fmt.Sprintf(
			"one key or person pays out at most %d cents a day; %d cents are left today",
			c.Limits.KeyCents, c.Limits.KeyCents-today.Keys[c.Key]))
	}
	if today.Cents > c.Limits.WorkspaceCents-c.AmountCents {
		return fault.New(fault.LimitExceeded, fmt.Sprintf(
			"a workspace pays out at most %d cents a day; %d cents are left today",
			c.Limits.WorkspaceCents, c.Limits.WorkspaceCents-today.Cents))
	}
	return nil
}

// directPayout releases or cancels a held wire; a repeat replies the payout again. It fails with
// not_found, and with payout_not_held in any other status.
func (b payouts) directPayout(m decision.Meta, c DirectPayout) (decision.Decision, error) {
	step := stepCancel
	if c.Release {
		step = stepRelease
	}
	p, known := b.orders.payouts.findOrder(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if p.isRepeat(step) {
		return decision.Decision{Reply: p}, nil
	}
	if _, allowed := p.nextStatus(step); !allowed {
		return decision.Decision{}, p.refuseStep(fault.PayoutNotHeld, step)
	}
	moved, d := b.movePayout(m, p, step, "")
	d.Reply = moved
	return d, nil
}

// submitPayout moves a reserved payout to submitting and replies Send; any other status, or an
// unknown id, gets an empty reply. So one caller sends the order, once. Its error is always nil.
func (b payouts) submitPayout(m decision.Meta, c SubmitPayout) (decision.Decision, error) {
	p, known := b.orders.payouts.findOrder(c.ID)
	if !known || p.Status != PayoutReserved {
		return decision.Decision{Reply: Submission{}}, nil
	}
	p, d := b.movePayout(m, p, stepSubmit, "")
	d.Reply = Submission{Payout: p, Send: true}
	d.Timers = []decision.Timer{
		{Key: timerAnswer + p.ID, Due: m.At.Add(AnswerWithin)}, {Key: timerLapse + p.ID, Due: m.At.Add(LapseAfter)},
	}
	return d, nil
}

// answerPayout records the bank's answer to the order. An answer after a report or after
// AnswerWithin, or for an unknown id, changes nothing. An unknown Answer panics.
func (b payouts) answerPayout(m decision.Meta, c AnswerPayout) decision.Decision {
	step, known := map[string]payoutStep{AnswerTaken: stepAccept, AnswerRefused: stepFail,
		AnswerNone: stepSilence}[c.Answer]
	if !known {
		panic("BUG: answer " + c.Answer)
	}
	p, known := b.orders.payouts.findOrder(c.ID)
	if !known || p.Status != PayoutSubmitting {
		return decision.Decision{}
	}
	_, d := b.movePayout(m, p, step, "")
	if len(d.Timers) == 0 {
		d.Timers = []decision.Timer{{Key: timerAnswer + c.ID}}
	}
	return d
}

// reportPayout applies the bank's report of an outcome. Its reply is ReportedPayout. It fails with
// invalid_body for an EventID of a wrong length, not_found, unavailable for a return before its
// settlement, payout_conflict, or limit_exceeded when the balance has no room.
func (b payouts) reportPayout(m decision.Meta, c ReportPayout) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	step, known := map[string]payoutStep{PayoutSettled: stepSettle, PayoutFailed: stepFail,
		PayoutReturned: stepReturn}[c.Outcome]
	if !known {
		panic("BUG: outcome " + c.Outcome)
	}
	p, known := b.orders.payouts.findOrder(c.ID)
	if !known {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if p.isRepeat(step) {
		return decision.Decision{Reply: ReportedPayout{Payout: p}}, nil
	}
	if step == stepReturn && p.openAtBank() {
		return decision.Decision{}, fault.New(fault.Unavailable,
			"The settlement has not been reported yet; nothing changed.")
	}
	if _, allowed := p.nextStatus(step); !allowed {
		return decision.Decision{}, p.refuseStep(fault.PayoutConflict, step)
	}
	late := p.Status == PayoutReleased
	if !b.canBookEffect(effectOfStep(p, step)) {
		return decision.Decision{}, balanceFull()
	}
	moved, d := b.movePayout(m, p, step, c.EventID)
	d.Reply = ReportedPayout{Payout: moved, Late: late}
	d.Onces = []decision.Once{{Scope: ScopeBank, Key: c.EventID, Expires: m.At.Add(BankRetention)}}
	if !p.isOpen() { // State keeps no finished payouts: the claim detects a repeat
		d.Onces = append(d.Onces, decision.Once{Scope: scopePayout, Key: moved.Status + "/" + p.ID})
	}
	return d, nil
}

// payoutUnanswered makes the outcome of a payout unknown that the bank has not answered.
func payoutUnanswered(s *State, m decision.Meta, _, id string) decision.Decision {
	return payouts{s}.answerPayout(m, AnswerPayout{ID: id, Answer: AnswerNone})
}

// payoutOverdue asks for an open payout that the bank has not reported, every LapseAskEvery.
func payoutOverdue(s *State, m decision.Meta, key, id string) decision.Decision {
	if p, known := s.orders.payouts.findOrder(id); !known || !p.openAtBank() {
		return decision.Decision{}
	}
	return lapseDue(m, key, RecordPayout, id)
}

// AwaitsAnswer reports whether the timer of a key waits for the answer to an order of a payout or a
// conversion.
func AwaitsAnswer(key string) bool {
	return strings.HasPrefix(key, timerAnswer) || strings.HasPrefix(key, timerDeskAnswer)
}

// lapseDue replies that the bank is to be asked about an order, and sets the timer again.
func lapseDue(m decision.Meta, key, kind, id string) decision.Decision {
	return decision.Decision{Reply: LapseDue{Kind: kind, ID: id},
		Timers: []decision.Timer{{Key: key, Due: m.At.Add(LapseAskEvery)}}}
}

// lapsePayout releases a payout that the bank neither acknowledged nor has. An acknowledged payout
// stays open, even if the bank now denies it.
func (b payouts) lapsePayout(m decision.Meta, c LapsePayout) decision.Decision {
	p, known := b.orders.payouts.findOrder(c.ID)
	if !known || p.Status != PayoutSubmitting && p.Status != PayoutUnknown {
		return decision.Decision{}
	}
	events := []decision.Event(nil)
	if p.Status != PayoutUnknown {
		var d decision.Decision
		p, d = b.movePayout(m, p, stepSilence, "")
		events = d.Events
	}
	_, d := b.movePayout(m, p, stepLapse, "")
	d.Events = append(events, d.Events...)
	return d
}

// movePayout decides a step of a payout, and returns the payout after it. The decision has the
// step's event, the payout's record and, when dollars move, a ledger line. It removes the timers of
// a payout that is no longer open. eventID is the bank's, or "" for a step that the bank did not
// report. A step that payoutMoves does not allow panics.
func (b payouts) movePayout(m decision.Meta, p Payout, step payoutStep, eventID string) (Payout, decision.Decision) {
	to, allowed := p.nextStatus(step)
	if !allowed {
		panic("BUG: " + p.refuseStep(fault.Internal, step).Error())
	}
	e := PayoutMoved{
		Workspace: b.Workspace, Payout: p.ID, From: p.Status, To: to, AmountCents: p.AmountCents, EventID: eventID,
		Postings: []Posting{}, At: decision.StampOf(m.At),
	}
	d := decision.Decision{}
	if usd := effectOfStep(p, step).usd; usd != 0 {
		t := b.payoutTransfer(p, to, usd, m.At)
		e.Postings = t.balancedPostings()
		d.Records = append(d.Records, t.ledgerRecord())
	}
	after := p.afterMove(e)
	d.Events = []decision.Event{e}
	d.Records = append(d.Records, decision.Record{Kind: RecordPayout, ID: p.ID, Document: after})
	if p.openAtBank() && !after.isOpen() {
		d.Timers = []decision.Timer{{Key: timerAnswer + p.ID}, {Key: timerLapse + p.ID}}
	}
	return after, d
}

// payoutTransfer is the transfer of a payout's dollars to the bank, or back from it for positive
// usd.
func (s *State) payoutTransfer(p Payout, to string, usd money.Cents, at time.Time) transfer {
	source := sourcePayout
	if usd > 0 {
		source = sourcePayoutReturn
	}
	return transfer{
		workspace: s.Workspace, account: AccountUSD, counterpart: AccountBank, cents: usd, source: source,
		reference: p.Reference,
		cause:     "payout/" + to + "/" + p.ID, at: at,
	}
}

// canBookEffect reports whether an effect fits the balance.
func (s *State) canBookEffect(e effect) bool {
	after := *s
	return after.bookEffect(e) == nil
}

// bookEffect adds an effect to the balance. It fails when a sum overflows an int64; the state is
// then invalid.
func (s *State) bookEffect(e effect) error {
	reserved, err := money.Add(s.ReservedCents, e.reserved)
	if err != nil {
		return err
	}
	s.ReservedCents = reserved
	return s.addLedgerCents(e.ledger)
}

// applyPayoutCreated folds the event: it reserves the dollars, counts the payout and uses its
// quote. It panics when a sum overflows or the quote is not locked.
func (b payouts) applyPayoutCreated(e PayoutCreated) {
	b.Workspace = e.Workspace
	p := e.Payout
	if err := b.bookEffect(effect{ledger: -p.AmountCents, reserved: p.AmountCents}); err != nil {
		panic("BUG: payout after its check: " + err.Error())
	}
	b.orders.payouts.storeOrder(p.ID, p)
	b.OpenPayouts++
	b.PaidOut = b.PaidOut.onDay(dayOf(p.CreatedAt)).addingCents(p.Key, p.AmountCents)
	if p.QuoteID != nil {
		b.useQuote(*p.QuoteID)
	}
}

// applyPayoutMoved folds the event: it books the money and closes a finished payout. A cancelled or
// failed payout no longer counts in its day's total. It panics when the payout is not loaded or a
// sum overflows.
func (b payouts) applyPayoutMoved(e PayoutMoved) {
	if err := b.bookEffect(effectOfMove(e.From, e.To, e.AmountCents)); err != nil {
		panic("BUG: payout's move after its check: " + err.Error())
	}
	before, known := b.orders.payouts.findOrder(e.Payout)
	if !known {
		panic("BUG: moved a payout that is not loaded")
	}
	p := before.afterMove(e)
	b.orders.payouts.storeOrder(p.ID, p)
	if !before.isOpen() || p.isOpen() {
		return
	}
	b.OpenPayouts--
	if day := dayOf(p.CreatedAt); (p.Status == PayoutCancelled || p.Status == PayoutFailed) && day == b.PaidOut.Day {
		b.PaidOut = b.PaidOut.addingCents(p.Key, -p.AmountCents)
	}
}
