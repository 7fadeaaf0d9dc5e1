package partner

import "context"

// Prices is a source of coin prices.
type Prices interface {
	// Price is the current price of one coin of an asset in dollars, as a decimal. ErrRefused says
	// that the asset has no price.
	Price(ctx context.Context, asset string) (dollars string, err error)
}
