package partner

import "context"

// Prices says what coins are worth.
type Prices interface {
	// Price is what one coin of an asset is worth now, in dollars, as a decimal; ErrRefused for an asset that has no price here.
	Price(ctx context.Context, asset string) (dollars string, err error)
}
