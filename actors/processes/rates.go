package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/persistence/money"
)

// Rates asks the bank's desk for exchange rates and for the account details of currency balances.
// Without a desk every method returns capability_unavailable; when the desk does not answer, the
// error is unavailable.
type Rates struct {
	desk partner.Desk // nil: there is no desk
	log  *slog.Logger
}

// Offer asks for a firm rate between two currencies, and for how long it is firm. It fails with
// currency_unavailable for a pair that the desk does not deal in, capability_unavailable without a
// desk, and unavailable when the desk does not answer.
func (r *Rates) Offer(ctx context.Context, p balance.QuotePair) (money.Rate, time.Duration, error) {
	if r.desk == nil {
		return money.Rate{}, 0, noDesk()
	}
	offer, err := r.desk.Offer(ctx, partner.OfferRequest{Sell: string(p.Sell), Buy: string(p.Buy),
		FixedSide:   p.FixedSide,
		AmountMinor: p.AmountMinor})
	switch {
	case errors.Is(err, partner.ErrRefused):
		return money.Rate{}, 0, fault.New(fault.CurrencyUnavailable, "the desk does not deal in the pair")
	case err != nil:
		r.log.Warn("the desk made no offer", "err", err)
		return money.Rate{}, 0, fault.New(fault.Unavailable, "The desk does not answer; nothing changed.")
	}
	rate, err := parseDeskRate(offer.Rate)
	return rate, offer.Firm, err
}

// FirmRate asks for the rate at which the desk sells a currency now, in units for a dollar. It
// fails with invalid_currency for a currency that the desk does not deal in, capability_unavailable
// without a desk, and unavailable when the desk does not answer.
func (r *Rates) FirmRate(ctx context.Context, currency money.Currency) (money.Rate, error) {
	if r.desk == nil {
		return money.Rate{}, noDesk()
	}
	text, err := r.desk.FirmRate(ctx, string(currency))
	switch {
	case errors.Is(err, partner.ErrRefused):
		return money.Rate{}, fault.New(fault.InvalidCurrency, "currency: is not sold")
	case err != nil:
		r.log.Warn("the desk gave no rate", "err", err)
		return money.Rate{}, fault.New(fault.Unavailable, "The desk does not answer; nothing changed.")
	}
	return parseDeskRate(text)
}

// MidRates returns the desk's mid-market rates for display, in units for a dollar, by currency. It
// fails with capability_unavailable without a desk, and unavailable when the desk does not answer.
func (r *Rates) MidRates(ctx context.Context) (map[string]string, error) {
	if r.desk == nil {
		return nil, noDesk()
	}
	rates, err := r.desk.MidRates(ctx)
	if err != nil {
		r.log.Warn("the desk gave no rates", "err", err)
		return nil, fault.New(fault.Unavailable, "The desk does not answer.")
	}
	return rates, nil
}

// MidBetween returns the mid-market rate between two currencies for display, in units of buy for
// one of sell. It fails with rate_unavailable when the desk gives none, also when it does not
// answer, and with capability_unavailable without a desk.
func (r *Rates) MidBetween(ctx context.Context, sell, buy money.Currency) (money.Rate, error) {
	if r.desk == nil {
		return money.Rate{}, noDesk()
	}
	text, err := r.desk.MidRate(ctx, string(sell), string(buy))
	if err != nil {
		r.log.Warn("the desk gave no rate", "err", err)
		return money.Rate{}, fault.New(fault.RateUnavailable, "there is no rate between the currencies now")
	}
	return parseDeskRate(text)
}

// Receiving is how money reaches a balance over one rail.
type Receiving = partner.ReceivingDetails

// Receiving returns the account details of a workspace's balance in a currency. There are none for
// a currency in which the partner keeps no balances. It fails with capability_unavailable without a
// desk, and unavailable when the partner does not answer.
func (r *Rates) Receiving(ctx context.Context, workspace string, currency money.Currency) ([]Receiving, error) {
	if r.desk == nil {
		return nil, noDesk()
	}
	details, err := r.desk.ReceivingDetails(ctx, workspace, string(currency))
	if err != nil && !errors.Is(err, partner.ErrRefused) {
		r.log.Warn("the partner gave no account details", "err", err)
		return nil, fault.New(fault.Unavailable, "The partner does not answer.")
	}
	return details, nil
}

func noDesk() error {
	return fault.New(fault.CapabilityUnavailable, "there is no desk for foreign exchange")
}

func parseDeskRate(text string) (money.Rate, error) {
	rate, err := money.ParseRate(text)
	if err != nil {
		return money.Rate{}, fmt.Errorf("the desk's rate: %w", err)
	}
	return rate, nil
}
