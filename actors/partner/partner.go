// Package partner says what Purser needs of the outside world, as small interfaces: today a bank. The implementations live
// elsewhere; package sandbox has one that behaves like the real thing.
//
// A partner is told what to do once or many times, for whoever tells it may crash in between: every method is idempotent
// by the id it is given. What becomes of an order is never an answer here. It comes later, as a signed report through the
// inbound webhook handlers.
package partner

import (
	"context"
	"errors"
	"time"
)

// ErrFull says that a partner takes no more orders for now. Nothing was kept; a later retry is safe.
var ErrFull = errors.New("partner takes no more orders now")

// Deposit is money that a customer has announced and the bank is going to see.
type Deposit struct {
	ID             string    `json:"id"` // dep_…
	WorkspaceID    string    `json:"workspaceId"`
	Rail           string    `json:"rail"` // ach, fednow or wire
	AmountUsdCents int64     `json:"amountUsdCents"`
	ExpectedAt     time.Time `json:"expectedAt"`
}

// Bank is where the dollars are.
type Bank interface {
	// Expect announces a deposit. When it returns nil the bank has kept the order and will report the money's arrival; the same
	// id again changes nothing.
	Expect(ctx context.Context, d Deposit) error
}
