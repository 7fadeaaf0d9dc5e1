package partner

import (
	"context"
	"time"
)

// Receiving is how money reaches a balance in a currency over one rail. Fields are what the sender must write, by name.
type Receiving struct {
	Rail   string            `json:"rail"`
	Fields map[string]string `json:"fields"`
}

// Wanted is what an offer is asked for: how much of Sell buys how much of Buy, when the amount of the fixed side is given.
type Wanted struct {
	Sell, Buy   string // currencies
	FixedSide   string // sell or buy
	AmountMinor int64
}

// Offer is a firm rate, spread included, in units of the bought currency for one of the sold, for as long as Firm says.
type Offer struct {
	Rate string
	Firm time.Duration
}

// Currencies is what the desk does about balances in currencies.
type Currencies interface {
	// Receiving are the details of a workspace's balance in a currency, the same each time; ErrRefused for a currency in which
	// none is kept.
	Receiving(ctx context.Context, workspace, currency string) ([]Receiving, error)
	// Offer is a firm rate between two currencies; ErrRefused for a pair that it does not deal in.
	Offer(ctx context.Context, w Wanted) (Offer, error)
	// Between is the mid rate of two currencies, for display only; ErrRefused as Offer.
	Between(ctx context.Context, sell, buy string) (rate string, err error)
}
