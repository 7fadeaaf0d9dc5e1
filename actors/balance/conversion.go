package balance

import (
	"fmt"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Sides are both amounts of a conversion at a rate (units of buy for one of sell), when that of the fixed side, "sell" or "buy",
// is given. The other is rounded half-even, once. What comes to nothing or to more than money.MaxMinor is invalid_body.
func Sides(rate money.Rate, sell, buy money.Currency, fixed string, minor money.Minor) (sold, bought Amount, err error) {
	sold, bought = Amount{sell, minor}, Amount{buy, minor}
	other := &bought.AmountMinor
	if fixed == "buy" {
		other = &sold.AmountMinor
		*other, err = rate.Cost(sell, buy, minor)
	} else {
		*other, err = rate.Proceeds(sell, buy, minor)
	}
	if err != nil || *other < 1 || *other > money.MaxMinor {
		return sold, bought, fault.New(fault.InvalidBody, fmt.Sprintf("amountMinor: both sides are 1 to %d", money.MaxMinor))
	}
	return sold, bought, nil
}

// Statuses of a conversion. The open ones are in the state of the balance; a finished one is a record.
const (
	ConversionHeld      = "held"               // open: what is sold is set aside, the desk is to be told
	ConversionSubmitted = "provider_submitted" // open: committed before the desk is told; nobody ever tells it again
	ConversionUnknown   = "outcome_unknown"    // open: the desk has not answered, or not reported
	ConversionCompleted = "completed"          // the money has moved
	ConversionRejected  = "rejected"           // the desk has not taken it
	ConversionFailed    = "failed"             // the desk took it and did not do it
	ConversionCancelled = "cancelled"          // the desk was not told while the rate was firm
	ConversionAbandoned = "abandoned"          // the desk does not have it: what was set aside is free again
)

// UnsentFor is how long a conversion may wait for the desk to be told.
const UnsentFor = 30 * time.Second

// Keys of the timers, before the conversion's id.
const (
	timerUnsent     = "conversion-unsent/"
	timerDeskAnswer = "conversion-answer/"
	timerDeskLapse  = "conversion-lapse/"
)

// conversionStep is what can happen to a conversion. It reads after "a conversion that is … cannot be …".
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

// conversionMoves is the life of a conversion: what may happen in each status, and where it leads. What is not here is refused.
// An abandoned one may still turn out to be completed: what was sold is gone, and is debited again.
var conversionMoves = map[string]map[conversionStep]string{
	ConversionHeld: {deskSubmit: ConversionSubmitted, deskCancel: ConversionCancelled},
	ConversionSubmitted: {
		deskReject: ConversionRejected, deskSilence: ConversionUnknown, deskComplete: ConversionCompleted,
		deskFail: ConversionFailed,
	},
	ConversionUnknown:   {deskComplete: ConversionCompleted, deskFail: ConversionFailed, deskLapse: ConversionAbandoned},
	ConversionAbandoned: {deskComplete: ConversionCompleted},
	ConversionCompleted: {},
	ConversionRejected:  {},
	ConversionFailed:    {},
	ConversionCancelled: {},
}

// Conversion is an order to the desk: Sell is what is set aside and sold, Buy what arrives.
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

// open says whether money is set aside for the conversion.
func (c *Conversion) open() bool {
	return c.Status == ConversionHeld || c.Status == ConversionSubmitted || c.Status == ConversionUnknown
}

// done says whether the step has been made already: a repeat of it is no news.
func (c *Conversion) done(step conversionStep) bool {
	return step == deskComplete && c.Status == ConversionCompleted || step == deskFail && c.Status == ConversionFailed
}

func (c *Conversion) refuse(code fault.Code, step conversionStep) error {
	return fault.New(code, fmt.Sprintf("a conversion that is %s cannot be %s", c.Status, step))
}

// moved is the conversion after an event.
func (c Conversion) moved(e ConversionMoved) Conversion {
	c.Status, c.UpdatedAt = e.To, e.At
	c.History = append(slices.Clip(c.History), PayoutStep{Status: e.To, At: e.At})
	return c
}

// ends writes the money of a move that ends a conversion, and the lines that show it. What was set aside comes back first, so
// that the lines add up to what is available; then it is sold, if it was.
func (c *Conversion) ends(t *movement, to string) (lines []Activity) {
	note := func(kind string, a Amount, sign money.Minor) {
		line := t.line(kind, a.Currency, sign*a.AmountMinor)
		line.ConversionID = c.ID
		lines = append(lines, line)
	}
	if c.open() {
		t.move(AccountCurrencyHeld, AccountCurrency, c.Sell)
		note(ActivityHold, c.Sell, 1)
	}
	if to == ConversionCompleted {
		t.move(AccountCurrency, AccountFX, c.Sell)
		note(ActivityConversion, c.Sell, -1)
		t.move(AccountFX, AccountCurrency, c.Buy)
		note(ActivityConversion, c.Buy, 1)
	}
	return lines
}
