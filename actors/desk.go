package actors

import (
	"context"
	"errors"
	"fmt"

	"purser/actors/fault"
	"purser/actors/partner"
	"purser/persistence/money"
)

// FirmRate asks the desk for the rate at which it sells a currency now, in units bought for a dollar. A currency that it does not
// deal in is invalid_currency.
func (s *System) FirmRate(ctx context.Context, currency money.Currency) (money.Rate, error) {
	if s.desk == nil {
		return money.Rate{}, noDesk()
	}
	text, err := s.desk.Firm(ctx, string(currency))
	switch {
	case errors.Is(err, partner.ErrRefused):
		return money.Rate{}, fault.New(fault.InvalidCurrency, "currency: is not sold")
	case err != nil:
		s.log.Warn("the desk gave no rate", "err", err)
		return money.Rate{}, fault.New(fault.Unavailable, "The desk does not answer; nothing changed.")
	}
	rate, err := money.ParseRate(text)
	if err != nil {
		return money.Rate{}, fmt.Errorf("the desk's rate: %w", err)
	}
	return rate, nil
}

// MidRates are the desk's rates for display, in units for a dollar, by currency.
func (s *System) MidRates(ctx context.Context) (map[string]string, error) {
	if s.desk == nil {
		return nil, noDesk()
	}
	rates, err := s.desk.Mid(ctx)
	if err != nil {
		s.log.Warn("the desk gave no rates", "err", err)
		return nil, fault.New(fault.Unavailable, "The desk does not answer.")
	}
	return rates, nil
}

func noDesk() error {
	return fault.New(fault.CapabilityUnavailable, "there is no desk for foreign exchange")
}

// Receiving is how money reaches a balance over one rail.
type Receiving = partner.Receiving

// Receiving are the details of a balance in a currency; none for one in which the partner keeps no balances.
func (s *System) Receiving(ctx context.Context, workspace string, currency money.Currency) ([]Receiving, error) {
	if s.desk == nil {
		return nil, noDesk()
	}
	details, err := s.desk.Receiving(ctx, workspace, string(currency))
	if err != nil && !errors.Is(err, partner.ErrRefused) {
		s.log.Warn("the partner gave no account details", "err", err)
		return nil, fault.New(fault.Unavailable, "The partner does not answer.")
	}
	return details, nil
}

// MidBetween is the rate between two currencies for display, in units of buy for one of sell; rate_unavailable when there is
// none.
func (s *System) MidBetween(ctx context.Context, sell, buy money.Currency) (money.Rate, error) {
	if s.desk == nil {
		return money.Rate{}, noDesk()
	}
	text, err := s.desk.Between(ctx, string(sell), string(buy))
	if err != nil {
		s.log.Warn("the desk gave no rate", "err", err)
		return money.Rate{}, fault.New(fault.RateUnavailable, "there is no rate between the currencies now")
	}
	rate, err := money.ParseRate(text)
	if err != nil {
		return money.Rate{}, fmt.Errorf("the desk's rate: %w", err)
	}
	return rate, nil
}
