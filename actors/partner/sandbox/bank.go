// Package sandbox has stand-ins for the partners, honest in the ways that hurt: the bank answers later, through a signed report
// that is sent until it is taken, sometimes twice, late or never, and it goes on after a restart; it loses answers and changes
// its mind about payments; so does the ramp; the issuer refuses, or is silent; the desk has fixed rates.
//
// Bank and Ramp keep what they were told in a store of their own. Step does all that is due; Run calls Step as time passes. The
// clock is passed in, so that a test can turn it. They move no money and know nothing of balances.
package sandbox

import (
	"context"
	"fmt"
	"time"

	"purser/actors/partner"
	"purser/persistence/ident"
)

// Magic endings of an amount (cents modulo 100) steer the bank. See payments.go for those of payments only.
const (
	EndingTwice = 91 // the outcome is reported twice, with one event id
	EndingLate  = 92 // it is reported after lateFactor delays
	EndingNever = 93 // it is never reported
)

// Bank is a partner.Bank.
type Bank struct{ *office }

// NewBank opens the bank's store.
func NewBank(cfg Config) (*Bank, error) {
	o, err := openOffice(cfg, func(*order) Reporter { return cfg.Report })
	if err != nil {
		return nil, err
	}
	return &Bank{o}, nil
}

// Expect keeps the order, synced. It returns partner.ErrFull at MaxOpen open orders.
func (b *Bank) Expect(_ context.Context, d partner.Deposit) error {
	if _, err := ident.Parse(ident.Deposit, d.ID); err != nil {
		return fmt.Errorf("sandbox bank: deposit id: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known, err := b.store.load(d.ID); known || err != nil {
		return err
	}
	if b.open >= MaxOpen {
		return partner.ErrFull
	}
	return b.keep(plan(d, b.cfg.Clock(), b.cfg.Delay))
}

// plan decides what the bank will do about a deposit.
func plan(d partner.Deposit, now time.Time, delay time.Duration) order {
	o := order{Deposit: d, Due: now.Add(delay), Reports: 1}
	switch d.AmountUsdCents % 100 {
	case EndingTwice:
		o.Reports = 2
	case EndingLate:
		o.Due = now.Add(lateFactor * delay)
	case EndingNever:
		o.Due, o.Reports = now.Add(remembers), 0
	}
	return o
}
