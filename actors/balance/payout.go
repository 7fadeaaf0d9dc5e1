package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Statuses of a payout. The open ones are in the state of the balance; a finished one is a record.
const (
	PayoutHeld       = "held"            // open: a wire abroad, until it is released or cancelled
	PayoutReserved   = "reserved"        // open: to be sent
	PayoutSubmitting = "submitting"      // open: committed before the bank is told; nobody ever tells it again
	PayoutSubmitted  = "submitted"       // open: the bank has taken the order
	PayoutUnknown    = "outcome_unknown" // open: the bank has not answered
	PayoutSettled    = "settled"
	PayoutFailed     = "failed"
	PayoutReturned   = "returned"
	PayoutCancelled  = "cancelled"
	PayoutReleased   = "released" // the bank does not have the order: the dollars are free again
)

// Rails of a payout.
const (
	RailACH      = "ach"
	RailWire     = "wire"
	RailRealtime = "realtime"
	RailIntlWire = "intl_wire"
)

// Times that a bank is given, from the moment at which a payout is about to be sent.
const (
	AnswerWithin = 30 * time.Second // to answer the order
	LapseAfter   = 24 * time.Hour   // to report what became of it; then the bank is asked
	// LapseAskEvery is how often the bank is asked about an order that it has reported nothing of.
	LapseAskEvery = time.Hour
)

// Keys of the timers, before the payout's id.
const (
	timerAnswer = "answer/"
	timerLapse  = "lapse/"
)

// AsksAgain reports that a timer, by its key, only calls another party again and gives no money
// back.
func AsksAgain(timer string) bool {
	return strings.HasPrefix(timer, timerAnswer) || strings.HasPrefix(timer, timerDeskAnswer) ||
		strings.HasPrefix(timer, timerRamp)
}

// payoutStep is what can happen to a payout. It reads after "a payout that is … cannot be …".
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

// payoutMoves is the life of a payout: what may happen in each status, and where it leads. What is not here is refused.
//
// A report can come before the answer to the order has been noted, so that it moves a submitting payout too. A released payout
// may still turn out to be settled: the dollars are gone, and are debited again.
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

// Payout is an order to pay a recipient. Its description is in a record of its own, PayoutText.
type Payout struct {
	ID             string         `json:"id"`
	Rail           string         `json:"rail"`
	Status         string         `json:"status"`
	CounterpartyID string         `json:"counterpartyId"`
	AmountCents    int64          `json:"amountCents"`
	FeeCents       int64          `json:"feeCents"`
	SameDay        bool           `json:"sameDay"`
	QuoteID        *string        `json:"quoteId"`
	Buy            *Amount        `json:"buy,omitempty"` // what the recipient gets by the quote
	Reference      string         `json:"reference"`     // ours; the bank knows the payout by it
	UETR           string         `json:"uetr,omitempty"`
	ExpectedOn     string         `json:"expectedOn"` // the bank day on which it should arrive
	Key            string         `json:"key"`        // key_ id of who ordered it
	CreatedAt      decision.Stamp `json:"createdAt"`
	UpdatedAt      decision.Stamp `json:"updatedAt"`
	History        []PayoutStep   `json:"history"`
}

// PayoutStep is a status that a payout reached.
type PayoutStep struct {
	Status string         `json:"status"`
	At     decision.Stamp `json:"at"`
}

// PayoutText is what the customer wrote on a payout. It may name people.
type PayoutText struct {
	Description string `json:"description"`
}

// after is where a step leads.
func (p *Payout) after(step payoutStep) (to string, allowed bool) {
	to, allowed = payoutMoves[p.Status][step]
	return to, allowed
}

// refuse names the step that the payout's status does not allow.
func (p *Payout) refuse(code fault.Code, step payoutStep) error {
	return fault.New(code, fmt.Sprintf("a payout that is %s cannot be %s", p.Status, step))
}

// done says whether the step has been made already: a repeat of it is no news.
func (p *Payout) done(step payoutStep) bool {
	switch step {
	case stepRelease: // whatever has become of it since, but a cancelled wire was never released
		return p.History[0].Status == PayoutHeld && len(p.History) > 1 && p.History[1].Status == PayoutReserved
	case stepCancel:
		return p.Status == PayoutCancelled
	case stepSettle: // only what has settled comes back
		return p.Status == PayoutSettled || p.Status == PayoutReturned
	case stepFail:
		return p.Status == PayoutFailed
	case stepReturn:
		return p.Status == PayoutReturned
	}
	return false
}

// open says whether dollars are reserved for the payout.
func (p *Payout) open() bool {
	switch p.Status {
	case PayoutHeld, PayoutReserved, PayoutSubmitting, PayoutSubmitted, PayoutUnknown:
		return true
	}
	return false
}

// sent says whether the bank may know of the payout while it is open.
func (p *Payout) sent() bool {
	return p.Status == PayoutSubmitting || p.Status == PayoutSubmitted || p.Status == PayoutUnknown
}

// moved is the payout after an event.
func (p Payout) moved(e PayoutMoved) Payout {
	p.Status, p.UpdatedAt = e.To, e.At
	p.History = append(slices.Clip(p.History), PayoutStep{Status: e.To, At: e.At})
	return p
}

// effect is what a move does to the balance, in cents: to what the journal originated, to what is reserved, to the dollars.
type effect struct{ ledger, reserved, usd int64 }

func effectOf(p Payout, step payoutStep) effect {
	to, _ := p.after(step)
	return effects(p.Status, to, p.AmountCents)
}

// effects is the table of the money: what an open payout has reserved goes out, or back.
func effects(from, to string, cents int64) effect {
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

// DayTotal is what was ordered to be paid out on a day in UTC, less what was cancelled or failed. By key_ id, and in all.
type DayTotal struct {
	Day   string           `json:"day"`
	Cents int64            `json:"cents"`
	Keys  map[string]int64 `json:"keys"`
}

func dayOf(at decision.Stamp) string { return at.UTC().Format(time.DateOnly) }

// on is the total of a day. Days do not go back.
func (t DayTotal) on(day string) DayTotal {
	if day <= t.Day {
		return t
	}
	return DayTotal{Day: day}
}

// plus is the total with cents more, or less, of a key. Limits bound the sums.
func (t DayTotal) plus(key string, cents int64) DayTotal {
	keys := maps.Clone(t.Keys)
	if keys == nil {
		keys = map[string]int64{}
	}
	if keys[key] += cents; keys[key] == 0 {
		delete(keys, key)
	}
	return DayTotal{Day: t.Day, Cents: t.Cents + cents, Keys: keys}
}
