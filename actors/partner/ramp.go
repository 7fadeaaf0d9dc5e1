package partner

import (
	"context"

	"purser/persistence/money"
)

// Ramp converts between dollars and USDC, and sends USDC to wallets. Every method is idempotent by
// the id that it gets. The partner reports the outcome of an order later, signed.
type Ramp interface {
	// Fee is the highest fee, in cents, that an order of this amount can cost. ErrRefused says that
	// the partner does not take such an order.
	Fee(ctx context.Context, direction string, cents money.Cents) (money.Cents, error)
	// Link registers a workspace under the id of its account. ErrRefused says that the partner
	// refuses the workspace.
	Link(ctx context.Context, account, workspaceID string) error
	// Approve asks the partner to check a wallet whose ownership was proven. ErrRefused says that
	// the partner does not pay to it.
	Approve(ctx context.Context, w RampWallet) error
	// Order sends an order. After nil the partner has it and reports its outcome later. After
	// ErrRefused it does not have the order and never will. After any other error the same order
	// may be sent again.
	Order(ctx context.Context, o RampOrder) error
}

// RampWallet is the destination of a withdrawal of USDC.
type RampWallet struct {
	ID, Chain, Address string
}

// RampOrder is an order to the ramp. AmountCents is the workspace's amount, MaxFeeCents the highest
// fee that may be kept from it.
type RampOrder struct {
	ID          string      `json:"id"`
	WorkspaceID string      `json:"workspaceId"`
	Direction   string      `json:"direction"` // onramp, offramp or withdraw
	AmountCents money.Cents `json:"amountCents"`
	MaxFeeCents money.Cents `json:"maxFeeCents"`
	Wallet      *RampWallet `json:"wallet,omitempty"`
}
