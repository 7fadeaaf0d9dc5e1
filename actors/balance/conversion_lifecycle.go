package balance

import (
	"fmt"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Sides computes both amounts of a conversion at a rate (units of buy for one of sell), given the
// amount of the fixed side, "sell" or "buy". The other is rounded once: less is bought, more is
// sold. It fails with invalid_body when the other amount is zero or above money.MaxMinor.
func Sides(rate money.Rate, sell, buy money.Currency, fixed string, minor money.Minor) (sold, bought Amount,
	err error) {
	sold, bought = Amount{sell, minor}, Amount{buy, minor}
	other := &bought.AmountMinor
	if fixed == "buy" {
		other = &sold.AmountMinor
		*other, err = rate.Cost(sell, buy, minor)
	} else {
		*other, err = rate.Proceeds(sell, buy, minor)
	}
	if err != nil || *other < 1 || *other > money.MaxMinor {
		return sold, bought, fault.New(fault.InvalidBody, fmt.Sprintf("amountMinor: both sides are 1 to %d",
			money.MaxMinor))
	}
	return sold, bought, nil
}

// Statuses of a conversion. Money is held for an open conversion (isOpen).
const (
	ConversionHeld      = "held"               // open: the sold amount is held, the desk has no order yet
	ConversionSubmitted = "provider_submitted" // open: committed before its one order is sent to the desk
	ConversionUnknown   = "outcome_unknown"    // open: the desk did not answer, or did not report
	ConversionCompleted = "completed"          // the money has moved
	ConversionRejected  = "rejected"           // the desk refused the order
	ConversionFailed    = "failed"             // the desk took the order and reported its failure
	ConversionCancelled = "cancelled"          // the order was not sent within UnsentFor
	ConversionAbandoned = "abandoned"          // the desk does not have the order: the held amount is free again
)

// UnsentFor is the time within which a conversion must be sent to the desk.
const UnsentFor = 30 * time.Second

// Keys of the timers; the conversion's id follows.
const (
	timerUnsent     = "conversion-unsent/"
	timerDeskAnswer = "conversion-answer/"
	timerDeskLapse  = "conversion-lapse/"
)

// conversionStep is an event in the life of a conversion. It completes "a conversion that is …
// cannot be …".
type conversionStep string

const (
	deskSubmit   conversionStep = "given to the desk"
	deskCancel   conversionStep = "cancelled"
	deskReject   conversionStep = "rejected"
	deskSilence  conversionStep = "left without an answer"
	deskComplete conversionStep = "completed"
	deskFail     conversionStep = "failed"
	deskLapse    conversionStep = "given up"
)

// conversionMoves is the transition table of a conversion: the steps allowed in each status, and
// the status that each leads to. Every other step is refused. An abandoned conversion can still be
// reported completed; the sold amount is then debited again.
var conversionMoves = map[string]map[conversionStep]string{
	ConversionHeld: {deskSubmit: ConversionSubmitted, deskCancel: ConversionCancelled},
	ConversionSubmitted: {
		deskReject: ConversionRejected, deskSilence: ConversionUnknown, deskComplete: ConversionCompleted,
		deskFail: ConversionFailed,
	},
	ConversionUnknown: {deskComplete: ConversionCompleted, deskFail: ConversionFailed,
		deskLapse: ConversionAbandoned},
	ConversionAbandoned: {deskComplete: ConversionCompleted},
	ConversionCompleted: {},
	ConversionRejected:  {},
	ConversionFailed:    {},
	ConversionCancelled: {},
}

// Conversion is an order to the desk: Sell is held and then sold, Buy arrives.
type Conversion struct {
	ID        string         `json:"id"`
	QuoteID   string         `json:"quoteId"`
	Status    string         `json:"status"`
	Sell      Amount         `json:"sell"`
	Buy       Amount         `json:"buy"`
	CreatedAt decision.Stamp `json:"createdAt"`
	UpdatedAt decision.Stamp `json:"updatedAt"`
	History   []PayoutStep   `json:"history"`
}

// isOpen reports whether money is held for the conversion.
func (c *Conversion) isOpen() bool {
	return c.Status == ConversionHeld || c.Status == ConversionSubmitted || c.Status == ConversionUnknown
}

// isRepeat reports whether the conversion already made the step, so that a repeat has no effect.
func (c *Conversion) isRepeat(step conversionStep) bool {
	return step == deskComplete && c.Status == ConversionCompleted || step == deskFail && c.Status == ConversionFailed
}

func (c *Conversion) refuseStep(code fault.Code, step conversionStep) error {
	return fault.New(code, fmt.Sprintf("a conversion that is %s cannot be %s", c.Status, step))
}

// afterMove is the conversion after an event.
func (c Conversion) afterMove(e ConversionMoved) Conversion {
	c.Status, c.UpdatedAt = e.To, e.At
	c.History = append(slices.Clip(c.History), PayoutStep{Status: e.To, At: e.At})
	return c
}

// closingLines adds the money of a move that ends the conversion to t, and returns its activity
// lines. The held amount is freed first, so that the lines add up to the available balance; a
// completed conversion then sells it.
func (c *Conversion) closingLines(t *currencyTransfer, to string) (lines []Activity) {
	note := func(kind string, a Amount, sign money.Minor) {
		line := t.activityLine(kind, a.Currency, sign*a.AmountMinor)
		line.ConversionID = c.ID
		lines = append(lines, line)
	}
	if c.isOpen() {
		t.moveAmount(AccountCurrencyHeld, AccountCurrency, c.Sell)
		note(ActivityHold, c.Sell, 1)
	}
	if to == ConversionCompleted {
		t.moveAmount(AccountCurrency, AccountFX, c.Sell)
		note(ActivityConversion, c.Sell, -1)
		t.moveAmount(AccountFX, AccountCurrency, c.Buy)
		note(ActivityConversion, c.Buy, 1)
	}
	return lines
}
