package sandbox

import (
	"context"

	"purser/actors/partner"
	"purser/persistence/money"
)

// SpreadBasisPoints is the desk's spread below the mid rate, in hundredths of a percent. Firm rates
// are rounded half-even to rateDecimals.
const (
	SpreadBasisPoints = 50
	rateDecimals      = 6
)

// Desk is a partner.Desk with fixed mid rates.
type Desk struct{}

// midRates are units bought for a dollar.
func midRates() map[string]string {
	return map[string]string{
		"EUR": "0.9153", "GBP": "0.7842", "JPY": "149.52", "KWD": "0.3072", "AUD": "1.5305", "CAD": "1.3914",
		"CHF": "0.8841",
		"SGD": "1.3377", "HKD": "7.7741", "MXN": "18.4520", "BRL": "5.4310", "INR": "84.2650",
	}
}

// FirmRate implements partner.Desk: the mid rate less the spread, in units for a dollar. A currency
// without a mid rate is partner.ErrRefused.
func (Desk) FirmRate(_ context.Context, currency string) (string, error) {
	mid, dealt := midRates()[currency]
	if !dealt {
		return "", partner.ErrRefused
	}
	rate, err := money.ParseRate(mid)
	if err != nil {
		return "", err
	}
	return rate.LessBasisPoints(SpreadBasisPoints, rateDecimals).String(), nil
}

// MidRates implements partner.Desk. Its rates are units for a dollar, and never change.
func (Desk) MidRates(context.Context) (map[string]string, error) { return midRates(), nil }
