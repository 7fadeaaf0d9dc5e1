package sandbox

import (
	"context"

	"purser/actors/partner"
)

// Prices is a partner.Prices with fixed prices.
type Prices struct{}

// Price is the fixed price of an asset.
func (Prices) Price(_ context.Context, asset string) (string, error) {
	switch asset {
	case "ETH":
		return "3150.42", nil
	case "BTC":
		return "97000", nil
	}
	return "", partner.ErrRefused
}
