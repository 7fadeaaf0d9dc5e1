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
)

// More endings, of the amount of a payment. EndingTwice and EndingLate are about its settlement; EndingNever is a bank that
// neither answers the order, which it has taken, nor reports, nor says what has become of it.
const (
	EndingUnreported  = 90 // the order is taken, and nothing is ever reported
	EndingFails       = 94 // it is taken, and fails
	EndingReturned    = 95 // it settles, and is returned a delay later
	EndingRefused     = 96 // the order is not taken
	EndingAfterLapse  = 97 // it is not answered, and reported settled after reportsLapsed
	EndingAnswersLost = 98 // it is taken, the answer is lost, and it settles
)

// silentFor is how long a bank that says nothing of an order does not answer inquiries about it
// either. Then it says that it does not have the order.
const silentFor = time.Hour

// reportsLapsed is later than a customer waits for a report.
const reportsLapsed = 25 * time.Hour

// Names of recipients that steer the bank.
const (
	NameRefused = "Refused" // the bank will not pay to the account
	NameSilent  = "Silent"  // the bank does not take the account
)

var errLost = errors.New("sandbox bank: no answer")

// payment is an order to pay, how often it was given, and what becomes of it: an outcome for each report that is sent.
type payment struct {
	partner.Payment
	Taken    time.Time          `json:"taken"`
	Orders   int                `json:"orders"`
	Outcomes []partner.Standing `json:"outcomes"`
}

// prefixOf is that of the references of a kind of payment.
func prefixOf(p *partner.Payment) string {
	if p.Rail == partner.RailFX {
		return ident.Conversion
	}
	return ident.Payout
}

// dealEvents are what a deal's outcomes are reported as.
var dealEvents = map[partner.Standing]string{partner.Settled: "conversion.completed", partner.Failed: "conversion.failed"}

// news is what the report says that is due when so many are left.
func (p *payment) news(left int) news {
	field, eventType := "payoutId", "payout."+string(outcome(p.Outcomes, left))
	if p.Rail == partner.RailFX {
		field, eventType = "conversionId", dealEvents[outcome(p.Outcomes, left)]
	}
	return news{prefixOf(&p.Payment), "sandbox bank " + eventType + " " + p.Reference, eventType,
		map[string]string{field: p.Reference}}
}

// planPayment decides what the bank will do about a payment.
func planPayment(p partner.Payment, now time.Time, delay time.Duration) order {
	o := order{Payment: &payment{Payment: p, Taken: now, Orders: 1}}
	o.Payment.Outcomes, o.Due = planned(p.AmountCents, p.Rail != partner.RailFX, now, delay)
	o.Reports = len(o.Payment.Outcomes)
	return o
}

// planned is what becomes of an amount, by its ending, and when the first report of it is due. Only what can be returned is.
func planned(cents int64, returns bool, now time.Time, delay time.Duration) (outcomes []partner.Standing, due time.Time) {
	switch cents % 100 {
	case EndingTwice:
		return []partner.Standing{partner.Settled, partner.Settled}, now.Add(delay)
	case EndingLate:
		delay *= lateFactor
	case EndingAfterLapse:
		delay = reportsLapsed
	case EndingFails:
		return []partner.Standing{partner.Failed}, now.Add(delay)
	case EndingReturned:
		if returns {
			return []partner.Standing{partner.Settled, partner.Returned}, now.Add(delay)
		}
	case EndingNever, EndingUnreported:
		return nil, now.Add(remembers)
	}
	return []partner.Standing{partner.Settled}, now.Add(delay)
}

// Tokenize keeps the account, synced, under a token that follows from the reference.
func (b *Bank) Tokenize(_ context.Context, a partner.Account) (string, error) {
	switch {
	case a.Reference == "" || a.Name == NameRefused:
		return "", partner.ErrRefused
	case a.Name == NameSilent:
		return "", errLost
	}
	sum := sha256.Sum256([]byte("sandbox bank account|" + a.Reference))
	token := "bat_" + hex.EncodeToString(sum[:12])
	if err := b.store.saveAccount(token, a); err != nil {
		return "", fmt.Errorf("sandbox bank: %w", err)
	}
	return token, nil
}

// Pay takes the order, synced. Like a real bank it pays what it is told twice a second time: it counts, and Paid tells.
func (b *Bank) Pay(ctx context.Context, p partner.Payment) error {
	if _, err := ident.Parse(prefixOf(&p), p.Reference); err != nil {
		return partner.ErrRefused
	}
	if err := b.take(p); err != nil {
		return err
	}
	switch p.AmountCents % 100 {
	case EndingNever, EndingAfterLapse:
		<-ctx.Done()
		return ctx.Err()
	case EndingAnswersLost:
		return errLost
	}
	return nil
}

func (b *Bank) take(p partner.Payment) error {
	_, known, err := b.store.account(p.Account)
	if err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if !known && p.Rail != partner.RailFX || p.AmountCents%100 == EndingRefused || p.Rail == railACH &&
		p.AmountCents > maxACHCents {
		return partner.ErrRefused
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, again, err := b.store.load(p.Reference)
	if err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if again {
		more := old
		more.Payment.Orders++
		return b.store.save(&old, &more)
	}
	if b.open >= MaxOpen {
		return partner.ErrFull
	}
	return b.keep(planPayment(p, b.cfg.Clock(), b.cfg.Delay))
}

// Standing says what has become of a payment so far, reported or not.
func (b *Bank) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	o, known, err := b.store.load(reference)
	switch {
	case err != nil:
		return "", fmt.Errorf("sandbox bank: %w", err)
	case !known || o.Payment == nil:
		return "", partner.ErrUnknown
	}
	switch o.Payment.AmountCents % 100 {
	case EndingNever:
		if b.cfg.Clock().Sub(o.Payment.Taken) >= silentFor {
			return "", partner.ErrUnknown
		}
		<-ctx.Done()
		return "", ctx.Err()
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
		standing = outcome(o.Payment.Outcomes, o.Reports)
	}
	return standing, nil
}

// Paid is how often the bank was ordered to make a payment.
func (b *Bank) Paid(reference string) (int, error) {
	o, known, err := b.store.load(reference)
	if err != nil || !known || o.Payment == nil {
		return 0, err
	}
	return o.Payment.Orders, nil
}
