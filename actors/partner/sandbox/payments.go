package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"purser/actors/partner"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Magic endings of the amount of a payment. EndingTwice and EndingLate apply to its settlement.
// With EndingNever the bank takes the order, but neither answers it, nor reports, nor answers
// inquiries about it.
const (
	EndingUnreported  = 90 // the order is taken, and nothing is ever reported
	EndingFails       = 94 // it is taken and fails
	EndingReturned    = 95 // it settles, and is returned one delay later
	EndingRefused     = 96 // the order is not taken
	EndingAfterLapse  = 97 // it is not answered, and is reported settled after lateReportDelay
	EndingAnswersLost = 98 // it is taken, the answer is lost, and it settles
)

// inquirySilence is how long the bank leaves inquiries about an EndingNever order unanswered.
// Afterwards it denies the order.
const inquirySilence = time.Hour

// lateReportDelay exceeds the time after which Purser asks about an order without a report.
const lateReportDelay = 25 * time.Hour

// Magic names of recipients choose the bank's behaviour.
const (
	NameRefused = "Refused" // the bank refuses the account
	NameSilent  = "Silent"  // the bank does not answer
)

var errNoAnswer = errors.New("sandbox bank: no answer")

// payment is a payment order, the number of times it was received, and one outcome for each report.
type payment struct {
	partner.Payment
	Taken    time.Time          `json:"taken"`
	Orders   int                `json:"orders"`
	Outcomes []partner.Standing `json:"outcomes"`
}

// referencePrefix is the id prefix of a payment's reference.
func referencePrefix(p *partner.Payment) string {
	if p.Rail == partner.RailFX {
		return ident.Conversion
	}
	return ident.Payout
}

// fxReportTypes are the report types of a deal by outcome.
var fxReportTypes = map[partner.Standing]string{partner.Settled: "conversion.completed",
	partner.Failed: "conversion.failed"}

// reportWith is the report that is due when left reports remain.
func (p *payment) reportWith(left int) reportContent {
	field, eventType := "payoutId", "payout."+string(dueOutcome(p.Outcomes, left))
	if p.Rail == partner.RailFX {
		field, eventType = "conversionId", fxReportTypes[dueOutcome(p.Outcomes, left)]
	}
	return reportContent{referencePrefix(&p.Payment), "sandbox bank " + eventType + " " + p.Reference, eventType,
		map[string]string{field: p.Reference}}
}

// planPayment sets the reports of a payment by the ending of its amount.
func planPayment(p partner.Payment, now time.Time, delay time.Duration) order {
	o := order{Payment: &payment{Payment: p, Taken: now, Orders: 1}}
	o.Payment.Outcomes, o.Due = planOutcomes(p.AmountMinor, p.Rail != partner.RailFX, now, delay)
	o.Reports = len(o.Payment.Outcomes)
	return o
}

// planOutcomes are the outcomes of an amount by its ending, and the due time of the first report.
// Without returns EndingReturned is ignored.
func planOutcomes(amount money.Minor, returns bool, now time.Time, delay time.Duration) (outcomes []partner.Standing,
	due time.Time) {
	switch amount % 100 {
	case EndingTwice:
		return []partner.Standing{partner.Settled, partner.Settled}, now.Add(delay)
	case EndingLate:
		delay *= lateDelays
	case EndingAfterLapse:
		delay = lateReportDelay
	case EndingFails:
		return []partner.Standing{partner.Failed}, now.Add(delay)
	case EndingReturned:
		if returns {
			return []partner.Standing{partner.Settled, partner.Returned}, now.Add(delay)
		}
	case EndingNever, EndingUnreported:
		return nil, now.Add(orderRetention)
	}
	return []partner.Standing{partner.Settled}, now.Add(delay)
}

// Tokenize implements partner.Bank: it stores the account, synced, under a token derived from its
// reference. It fails with partner.ErrRefused without a reference and for NameRefused, with no
// answer for NameSilent, and with the store's error.
func (b *Bank) Tokenize(_ context.Context, a partner.Account) (string, error) {
	switch {
	case a.Reference == "" || a.Name == NameRefused:
		return "", partner.ErrRefused
	case a.Name == NameSilent:
		return "", errNoAnswer
	}
	sum := sha256.Sum256([]byte("sandbox bank account|" + a.Reference))
	token := "bat_" + hex.EncodeToString(sum[:12])
	if err := b.store.saveAccount(token, a); err != nil {
		return "", fmt.Errorf("sandbox bank: %w", err)
	}
	return token, nil
}

// Pay implements partner.Bank: it stores the order, synced. Like a real bank it pays a repeated
// order again: Paid counts the orders. It fails with partner.ErrRefused for a malformed reference,
// with the errors of recordOrder, and by the ending of the amount with ErrSilent or without an
// answer.
func (b *Bank) Pay(_ context.Context, p partner.Payment) error {
	if _, err := ident.Parse(referencePrefix(&p), p.Reference); err != nil {
		return partner.ErrRefused
	}
	if err := b.recordOrder(p); err != nil {
		return err
	}
	switch p.AmountMinor % 100 {
	case EndingNever, EndingAfterLapse:
		return partner.ErrSilent
	case EndingAnswersLost:
		return errNoAnswer
	}
	return nil
}

// recordOrder stores a new payment with its reports, or counts a repeat of a stored one, synced. It
// fails with ErrRefused for an unknown account (unless a conversion), EndingRefused, and an ACH
// amount over the format's. It fails with ErrFull at MaxOpen open orders, and with the store's
// error.
func (b *Bank) recordOrder(p partner.Payment) error {
	_, known, err := b.store.loadAccount(p.Account)
	if err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if !known && p.Rail != partner.RailFX || p.AmountMinor%100 == EndingRefused || p.Rail == railACH &&
		p.AmountMinor > maxACHCents {
		return partner.ErrRefused
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, again, err := b.store.loadOrder(p.Reference)
	if err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if again {
		more := old
		more.Payment.Orders++
		return b.store.saveOrder(&old, &more)
	}
	if b.openOrders >= MaxOpen {
		return partner.ErrFull
	}
	return b.addOrder(planPayment(p, b.cfg.Clock(), b.cfg.Delay))
}

// Standing implements partner.Bank: it returns the status of a payment, reported or due to be
// reported. It fails with partner.ErrUnknown for an unknown payment, with ErrSilent for
// EndingNever, and with the store's error.
func (b *Bank) Standing(_ context.Context, reference string) (partner.Standing, error) {
	o, known, err := b.store.loadOrder(reference)
	switch {
	case err != nil:
		return "", fmt.Errorf("sandbox bank: %w", err)
	case !known || o.Payment == nil:
		return "", partner.ErrUnknown
	}
	switch o.Payment.AmountMinor % 100 {
	case EndingNever:
		if b.cfg.Clock().Sub(o.Payment.Taken) >= inquirySilence {
			return "", partner.ErrUnknown
		}
		return "", partner.ErrSilent
	case EndingAfterLapse:
		if b.cfg.Clock().Before(o.Due) {
			return "", partner.ErrUnknown
		}
	}
	standing, reported := partner.Pending, len(o.Payment.Outcomes)-o.Reports
	if reported > 0 {
		standing = o.Payment.Outcomes[reported-1]
	}
	if o.Reports > 0 && !b.cfg.Clock().Before(o.Due) {
		standing = dueOutcome(o.Payment.Outcomes, o.Reports)
	}
	return standing, nil
}

// Paid returns the number of times that a payment was ordered; 0 for an unknown one. It fails with
// the store's error.
func (b *Bank) Paid(reference string) (int, error) {
	o, known, err := b.store.loadOrder(reference)
	if err != nil || !known || o.Payment == nil {
		return 0, err
	}
	return o.Payment.Orders, nil
}
