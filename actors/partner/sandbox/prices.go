package sandbox

import (
	"context"

	"purser/actors/partner"
)

// Prices is a partner.Prices with fixed prices.
type Prices struct{}

// Price implements partner.Prices: it returns the fixed price of ETH or BTC, in dollars. Any other
// asset is partner.ErrRefused.
func (Prices) Price(_ context.Context, asset string) (string, error) {
	switch asset {
	case "ETH":
		return "3150.42", nil
	case "BTC":
		return "97000", nil
	}
	return "", partner.ErrRefused
}
