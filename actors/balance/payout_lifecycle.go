package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Statuses of a payout. Dollars are reserved for an open payout (isOpen).
const (
	PayoutHeld       = "held"            // open: a wire abroad before its release or cancellation
	PayoutReserved   = "reserved"        // open: not sent yet
	PayoutSubmitting = "submitting"      // open: committed before its one order is sent to the bank
	PayoutSubmitted  = "submitted"       // open: the bank took the order
	PayoutUnknown    = "outcome_unknown" // open: the bank did not answer
	PayoutSettled    = "settled"
	PayoutFailed     = "failed"
	PayoutReturned   = "returned"
	PayoutCancelled  = "cancelled"
	PayoutReleased   = "released" // the bank does not have the order: the dollars are free again
)

// PayoutStatuses are the states of a payout. The filter of payouts takes them.
var PayoutStatuses = []string{PayoutHeld, PayoutReserved, PayoutSubmitting, PayoutSubmitted, PayoutUnknown,
	PayoutSettled, PayoutFailed, PayoutReturned, PayoutCancelled, PayoutReleased}

// Rails of a payout.
const (
	RailACH      = "ach"
	RailWire     = "wire"
	RailRealtime = "realtime"
	RailIntlWire = "intl_wire"
)

// Times that the bank has, counted from the commit of PayoutSubmitting.
const (
	AnswerWithin = 30 * time.Second // for the answer to the order
	LapseAfter   = 24 * time.Hour   // for the report of its outcome; then the bank is asked
	// LapseAskEvery is the interval at which the bank is asked about an order without a report.
	LapseAskEvery = time.Hour
)

// Keys of the timers; the payout's id follows.
const (
	timerAnswer = "answer/"
	timerLapse  = "lapse/"
)

// AsksAgain reports whether the timer of a key only repeats a request to another party and frees no
// money.
func AsksAgain(timer string) bool {
	return strings.HasPrefix(timer, timerAnswer) || strings.HasPrefix(timer, timerDeskAnswer) ||
		strings.HasPrefix(timer, timerRamp)
}

// payoutStep is an event in the life of a payout. It completes "a payout that is … cannot be …".
type payoutStep string

const (
	stepRelease payoutStep = "released to the bank"
	stepCancel  payoutStep = "cancelled"
	stepSubmit  payoutStep = "sent"
	stepAccept  payoutStep = "taken by the bank"
	stepSilence payoutStep = "left without an answer"
	stepSettle  payoutStep = "settled"
	stepFail    payoutStep = "failed"
	stepReturn  payoutStep = "returned"
	stepLapse   payoutStep = "given up"
)

// payoutMoves is the transition table of a payout: the steps allowed in each status, and the status
// that each leads to. Every other step is refused.
//
// A report can arrive before the answer to the order is recorded, so it also moves a submitting
// payout. A released payout can still be reported settled; its dollars are then debited again.
var payoutMoves = map[string]map[payoutStep]string{
	PayoutHeld:     {stepRelease: PayoutReserved, stepCancel: PayoutCancelled},
	PayoutReserved: {stepSubmit: PayoutSubmitting},
	PayoutSubmitting: {
		stepAccept: PayoutSubmitted, stepSilence: PayoutUnknown, stepSettle: PayoutSettled, stepFail: PayoutFailed,
	},
	PayoutSubmitted: {stepSilence: PayoutUnknown, stepSettle: PayoutSettled, stepFail: PayoutFailed},
	PayoutUnknown:   {stepLapse: PayoutReleased, stepSettle: PayoutSettled, stepFail: PayoutFailed},
	PayoutReleased:  {stepSettle: PayoutSettled},
	PayoutSettled:   {stepReturn: PayoutReturned},
	PayoutFailed:    {},
	PayoutReturned:  {},
	PayoutCancelled: {},
}

// Payout is an order to pay a recipient. Its description is a record of its own, PayoutText.
type Payout struct {
	ID             string         `json:"id"`
	Rail           string         `json:"rail"`
	Status         string         `json:"status"`
	CounterpartyID string         `json:"counterpartyId"`
	AmountCents    money.Cents    `json:"amountCents"`
	FeeCents       money.Cents    `json:"feeCents"`
	SameDay        bool           `json:"sameDay"`
	QuoteID        *string        `json:"quoteId"`
	Buy            *Amount        `json:"buy,omitempty"` // amount that the recipient gets by the quote
	Reference      string         `json:"reference"`     // ours; the bank knows the payout by it
	UETR           string         `json:"uetr,omitempty"`
	ExpectedOn     string         `json:"expectedOn"` // bank day on which it should arrive
	Key            string         `json:"key"`        // key_ id of the API key that ordered it
	CreatedAt      decision.Stamp `json:"createdAt"`
	UpdatedAt      decision.Stamp `json:"updatedAt"`
	History        []PayoutStep   `json:"history"`
}

// PayoutStep is a status that a payout reached.
type PayoutStep struct {
	Status string         `json:"status"`
	At     decision.Stamp `json:"at"`
}

// PayoutText is the customer's description of a payout. It may name people.
type PayoutText struct {
	Description string `json:"description"`
}

// nextStatus is the status that a step leads to.
func (p *Payout) nextStatus(step payoutStep) (to string, allowed bool) {
	to, allowed = payoutMoves[p.Status][step]
	return to, allowed
}

// refuseStep is the fault for a step that the payout's status does not allow.
func (p *Payout) refuseStep(code fault.Code, step payoutStep) error {
	return fault.New(code, fmt.Sprintf("a payout that is %s cannot be %s", p.Status, step))
}

// isRepeat reports whether the payout already made the step, so that a repeat has no effect.
func (p *Payout) isRepeat(step payoutStep) bool {
	switch step {
	case stepRelease: // in any later status; a cancelled wire was never released
		return p.History[0].Status == PayoutHeld && len(p.History) > 1 && p.History[1].Status == PayoutReserved
	case stepCancel:
		return p.Status == PayoutCancelled
	case stepSettle: // a returned payout was settled before
		return p.Status == PayoutSettled || p.Status == PayoutReturned
	case stepFail:
		return p.Status == PayoutFailed
	case stepReturn:
		return p.Status == PayoutReturned
	}
	return false
}

// isOpen reports whether dollars are reserved for the payout.
func (p *Payout) isOpen() bool {
	switch p.Status {
	case PayoutHeld, PayoutReserved, PayoutSubmitting, PayoutSubmitted, PayoutUnknown:
		return true
	}
	return false
}

// openAtBank reports whether the payout is open and the bank may have the order.
func (p *Payout) openAtBank() bool {
	return p.Status == PayoutSubmitting || p.Status == PayoutSubmitted || p.Status == PayoutUnknown
}

// afterMove is the payout after an event.
func (p Payout) afterMove(e PayoutMoved) Payout {
	p.Status, p.UpdatedAt = e.To, e.At
	p.History = append(slices.Clip(p.History), PayoutStep{Status: e.To, At: e.At})
	return p
}

// effect is the change that a move makes to LedgerCents, ReservedCents and UsdCents.
type effect struct{ ledger, reserved, usd money.Cents }

func effectOfStep(p Payout, step payoutStep) effect {
	to, _ := p.nextStatus(step)
	return effectOfMove(p.Status, to, p.AmountCents)
}

// effectOfMove is the money that a move between two statuses changes: the reservation of an open
// payout leaves the workspace or becomes available again. A move without money gives zeros.
func effectOfMove(from, to string, cents money.Cents) effect {
	switch {
	case to == PayoutReturned:
		return effect{ledger: cents, usd: cents}
	case from == PayoutReleased && to == PayoutSettled:
		return effect{ledger: -cents, usd: -cents}
	case to == PayoutSettled:
		return effect{reserved: -cents, usd: -cents}
	case to == PayoutFailed, to == PayoutCancelled, to == PayoutReleased:
		return effect{ledger: cents, reserved: -cents}
	}
	return effect{}
}

// DayTotal is the sum of the payouts ordered on a UTC day, in total and by the key_ id that ordered
// them. Cancelled and failed payouts do not count.
type DayTotal struct {
	Day   string                 `json:"day"`
	Cents money.Cents            `json:"cents"`
	Keys  map[string]money.Cents `json:"keys"`
}

func dayOf(at decision.Stamp) string { return at.UTC().Format(time.DateOnly) }

// onDay is the total of a day: t for its own or an earlier day, zero for a later one.
func (t DayTotal) onDay(day string) DayTotal {
	if day <= t.Day {
		return t
	}
	return DayTotal{Day: day}
}

// addingCents is the total after cents were added to a key; negative cents take them back.
// PayoutLimits bound the sums, so that they cannot overflow.
func (t DayTotal) addingCents(key string, cents money.Cents) DayTotal {
	keys := maps.Clone(t.Keys)
	if keys == nil {
		keys = map[string]money.Cents{}
	}
	if keys[key] += cents; keys[key] == 0 {
		delete(keys, key)
	}
	return DayTotal{Day: t.Day, Cents: t.Cents + cents, Keys: keys}
}
