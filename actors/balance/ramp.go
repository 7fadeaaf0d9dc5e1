package balance

import (
	"time"

	"purser/actors/decision"
)

// Directions of a ramp quote: dollars to USDC, USDC to dollars, USDC to a wallet of the workspace's own.
const (
	RampOn       = "onramp"
	RampOff      = "offramp"
	RampWithdraw = "withdraw"
)

// RampLock is how long a ramp quote can be used.
const RampLock = 60 * time.Second

// Limits of the ramp, of a workspace.
const (
	MaxOpenRampOrders = 1_000
	MaxRampQuotes     = 1_000   // locked
	TravelRuleCents   = 300_000 // from which a withdrawal would have to name both ends of the transfer
	MaxRampCents      = 100_000_000
)

// Statuses of a ramp order. The open ones are in the state of the balance; a finished one is a record.
const (
	RampCreated    = "created"    // open: what is given is debited, the partner is to be told
	RampProcessing = "processing" // open: the partner has it
	RampCompleted  = "completed"
	RampFailed     = "failed" // what was given is back
)

// RampQuote is a firm offer for one order. Everything is in cents, of dollars or of USDC, one for one: AmountCents is what is
// given, fee included; MaxFeeCents is the most that the fee can be; ReceiveCents is the least that arrives.
type RampQuote struct {
	ID           string         `json:"id"`
	Status       string         `json:"status"` // locked or used
	Direction    string         `json:"direction"`
	AmountCents  int64          `json:"amountCents"`
	MaxFeeCents  int64          `json:"maxFeeCents"`
	ReceiveCents int64          `json:"receiveCents"`
	WalletID     string         `json:"walletId,omitempty"`
	ExpiresAt    decision.Stamp `json:"expiresAt"`
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// RampOrder is an order to the ramp's partner; with direction withdraw it is a withdrawal. FeeCents is the quote's most until the
// partner has reported what it was.
type RampOrder struct {
	ID          string         `json:"id"`
	QuoteID     string         `json:"quoteId"`
	Direction   string         `json:"direction"`
	Status      string         `json:"status"`
	AmountCents int64          `json:"amountCents"`
	MaxFeeCents int64          `json:"maxFeeCents"`
	FeeCents    int64          `json:"feeCents"`
	WalletID    string         `json:"walletId,omitempty"`
	TxHash      string         `json:"txHash,omitempty"`
	CreatedAt   decision.Stamp `json:"createdAt"`
	UpdatedAt   decision.Stamp `json:"updatedAt"`
	History     []PayoutStep   `json:"history"`
}

// RampSession is an order of the routes that are retired, brought over from the service before. Its money was booked there but
// for what its report does here: an on-ramp that completes is credited, an off-ramp that fails is given back.
type RampSession struct {
	ID          string         `json:"id"`
	Direction   string         `json:"direction"` // onramp or offramp
	Status      string         `json:"status"`    // created, processing, completed or failed
	AmountCents int64          `json:"amountCents"`
	HostedURL   string         `json:"hostedUrl,omitempty"` // in the record only
	CreatedAt   decision.Stamp `json:"createdAt"`
	UpdatedAt   decision.Stamp `json:"updatedAt"`
}

// QuoteRamp locks an offer for RampLock. FeeCents is the most that the partner asks. It answers RampQuote. It is refused with
// invalid_amount, travel_rule_unsupported (a withdrawal of TravelRuleCents or more) and limit_exceeded. That the account is
// linked and the wallet approved is the caller's to know.
type QuoteRamp struct {
	Workspace, ID, Direction string
	AmountCents, FeeCents    int64
	WalletID                 string // of a withdrawal
}

// CreateRampOrder uses a quote. Quote is its record; Withdrawal says which of the two routes was called. It answers RampOrder. It
// is refused with quote_mismatch (the other route's), quote_used, quote_expired, limit_exceeded and insufficient_funds, of an
// on-ramp by the runtime.
type CreateRampOrder struct {
	Workspace, ID string
	Quote         RampQuote
	Withdrawal    bool
}

// AcceptRampOrder notes that the partner has taken the order. It answers nothing; a repeat changes nothing.
type AcceptRampOrder struct{ ID string }

// RefuseRampOrder notes that the partner will not have the order: what was given is back. It answers nothing; a repeat changes
// nothing, and so does one that comes after the partner has the order.
type RefuseRampOrder struct{ ID string }

// ReportRamp is the partner's report of what became of an order or of an older session: completed
// or failed. Session is the record of an older session, nil for an order. It answers nothing; what
// was reported before has no effect again, and what the status does not allow is ramp_conflict.
type ReportRamp struct {
	EventID     string // the partner's, once for 90 days
	ID, Outcome string
	FeeCents    *int64 // what the fee was; nil: the most
	TxHash      string // of a withdrawal that completed
	Session     *RampSession
}

// ImportRampSession brings over a session, once for ever. It answers nothing; a repeat changes nothing.
type ImportRampSession struct {
	Workspace string
	Session   RampSession
}
