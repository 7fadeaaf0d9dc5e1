package partner

import "context"

// Ramp changes dollars and USDC, and sends USDC to wallets. Every method is idempotent by the id it is given. What becomes of an
// order comes later, as a signed report.
type Ramp interface {
	// Fee is the most that an order of so many cents costs, in cents; ErrRefused when the partner does not do it.
	Fee(ctx context.Context, direction string, cents int64) (int64, error)
	// Link makes a workspace known under the id of its account. ErrRefused when the partner will not have it.
	Link(ctx context.Context, account, workspaceID string) error
	// Approve looks at a wallet that its owner has proven. ErrRefused when the partner will not pay to it.
	Approve(ctx context.Context, w RampWallet) error
	// Order gives an order. When it returns nil the partner has it and reports later what becomes of it; after ErrRefused it has
	// not, and never will. After any other error the same order may be given again.
	Order(ctx context.Context, o RampOrder) error
}

// RampWallet is where USDC is withdrawn to.
type RampWallet struct {
	ID, Chain, Address string
}

// RampOrder is an order to the ramp. AmountCents is what the workspace gives, MaxFeeCents the most that may be kept of it.
type RampOrder struct {
	ID          string      `json:"id"`
	WorkspaceID string      `json:"workspaceId"`
	Direction   string      `json:"direction"` // onramp, offramp or withdraw
	AmountCents int64       `json:"amountCents"`
	MaxFeeCents int64       `json:"maxFeeCents"`
	Wallet      *RampWallet `json:"wallet,omitempty"`
}
