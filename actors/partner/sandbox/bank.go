// Package sandbox has simulated partners that fail as real ones do. The bank and the ramp report
// outcomes later, by signed reports that they retry until one is taken; by magic amounts they
// report twice, late or never, lose answers, and return settled payments. The issuer refuses or
// does not answer by magic names. The desk and the prices are fixed.
//
// Bank, Ramp and Chains keep what they know in one Store and continue after a restart. Step of Bank
// and Ramp does all that is due; Run calls Step as time passes. The clock is passed in, so that a
// test can advance it. They move no money and know no balances.
package sandbox

import (
	"context"
	"fmt"
	"time"

	"purser/actors/partner"
	"purser/persistence/ident"
)

// Magic endings of an amount (cents modulo 100) choose the bank's behaviour. payments.go has those
// of payments.
const (
	EndingTwice = 91 // the outcome is reported twice, with one event id
	EndingLate  = 92 // it is reported after lateDelays delays
	EndingNever = 93 // it is never reported
)

// Bank is a partner.Bank.
type Bank struct{ *orderProcessor }

// NewBank returns the bank of a store. It fails for an incomplete Config and when the store cannot
// be read.
func NewBank(cfg Config) (*Bank, error) {
	o, err := newOrderProcessor(cfg, bankPrefix, func(*order) Reporter { return cfg.Report })
	if err != nil {
		return nil, err
	}
	return &Bank{o}, nil
}

// Expect implements partner.Bank: it stores the announcement of a deposit, synced; a repeat has no
// effect. It fails for a malformed id, with partner.ErrFull at MaxOpen open orders, and with the
// store's error.
func (b *Bank) Expect(_ context.Context, d partner.Deposit) error {
	if _, err := ident.Parse(ident.Deposit, d.ID); err != nil {
		return fmt.Errorf("sandbox bank: deposit id: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known, err := b.store.loadOrder(d.ID); known || err != nil {
		return err
	}
	if b.openOrders >= MaxOpen {
		return partner.ErrFull
	}
	return b.addOrder(planDeposit(d, b.cfg.Clock(), b.cfg.Delay))
}

// planDeposit sets the reports of a deposit by the ending of its amount.
func planDeposit(d partner.Deposit, now time.Time, delay time.Duration) order {
	o := order{Deposit: d, Due: now.Add(delay), Reports: 1}
	switch d.AmountUsdCents % 100 {
	case EndingTwice:
		o.Reports = 2
	case EndingLate:
		o.Due = now.Add(lateDelays * delay)
	case EndingNever:
		o.Due, o.Reports = now.Add(orderRetention), 0
	}
	return o
}
