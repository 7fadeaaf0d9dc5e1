package partner

import (
	"context"
	"time"

	"purser/persistence/money"
)

// ReceivingDetails are the details of one rail by which money reaches a balance in a currency.
// Fields are the values that the sender must enter, by name.
type ReceivingDetails struct {
	Rail   string            `json:"rail"`
	Fields map[string]string `json:"fields"`
}

// OfferRequest asks for a rate at which Sell buys Buy. AmountMinor is the amount of the fixed side,
// in minor units.
type OfferRequest struct {
	Sell, Buy   string // currencies
	FixedSide   string // sell or buy
	AmountMinor money.Minor
}

// Offer is a firm rate, spread included, in units bought for one unit sold. It can be used for the
// duration Firm.
type Offer struct {
	Rate string
	Firm time.Duration
}

// Currencies is the desk's part for balances in currencies.
type Currencies interface {
	// ReceivingDetails are the details of a workspace's balance in a currency, the same at each
	// call. ErrRefused says that the desk keeps no balance in the currency.
	ReceivingDetails(ctx context.Context, workspace, currency string) ([]ReceivingDetails, error)
	// Offer is a firm rate between two currencies. ErrRefused says that the desk does not trade the
	// pair.
	Offer(ctx context.Context, w OfferRequest) (Offer, error)
	// MidRate is the mid rate of two currencies, for display only. ErrRefused says that the pair
	// has no rate.
	MidRate(ctx context.Context, sell, buy string) (rate string, err error)
}
