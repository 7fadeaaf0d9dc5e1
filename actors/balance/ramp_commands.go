package balance

import (
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Directions of a ramp quote: dollars to USDC, USDC to dollars, and USDC to a wallet that the
// workspace owns.
const (
	RampOn       = "onramp"
	RampOff      = "offramp"
	RampWithdraw = "withdraw"
)

// RampLock is the time for which a ramp quote can be used.
const RampLock = 60 * time.Second

// Limits of the ramp, per workspace.
const (
	MaxOpenRampOrders = 1_000
	MaxRampQuotes     = 1_000   // locked at a time
	TravelRuleCents   = 300_000 // a withdrawal of this or more would have to name both ends of the transfer
	MaxRampCents      = 100_000_000
)

// Statuses of a ramp order. A created or processing order is open.
const (
	RampCreated    = "created"    // open: its amount is debited, the partner has not answered
	RampProcessing = "processing" // open: the partner took it
	RampCompleted  = "completed"
	RampFailed     = "failed" // its amount is credited back
)

// RampQuote is a firm offer for one order, in cents of dollars or USDC, one for one. AmountCents is
// debited, fee included; MaxFeeCents is the highest fee; ReceiveCents is the least that arrives.
type RampQuote struct {
	ID           string         `json:"id"`
	Status       string         `json:"status"` // locked or used
	Direction    string         `json:"direction"`
	AmountCents  money.Cents    `json:"amountCents"`
	MaxFeeCents  money.Cents    `json:"maxFeeCents"`
	ReceiveCents money.Cents    `json:"receiveCents"`
	WalletID     string         `json:"walletId,omitempty"`
	ExpiresAt    decision.Stamp `json:"expiresAt"`
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// RampOrder is an order to the ramp's partner; direction withdraw is a withdrawal. FeeCents is the
// quote's MaxFeeCents until the partner reports the fee.
type RampOrder struct {
	ID          string         `json:"id"`
	QuoteID     string         `json:"quoteId"`
	Direction   string         `json:"direction"`
	Status      string         `json:"status"`
	AmountCents money.Cents    `json:"amountCents"`
	MaxFeeCents money.Cents    `json:"maxFeeCents"`
	FeeCents    money.Cents    `json:"feeCents"`
	WalletID    string         `json:"walletId,omitempty"`
	TxHash      string         `json:"txHash,omitempty"`
	CreatedAt   decision.Stamp `json:"createdAt"`
	UpdatedAt   decision.Stamp `json:"updatedAt"`
	History     []PayoutStep   `json:"history"`
}

// RampSession is an order of the retired routes, imported from the service before Purser. Its money
// was booked there. Here a completed on-ramp is credited and a failed off-ramp is given back.
type RampSession struct {
	ID          string         `json:"id"`
	Direction   string         `json:"direction"` // onramp or offramp
	Status      string         `json:"status"`    // created, processing, completed or failed
	AmountCents money.Cents    `json:"amountCents"`
	HostedURL   string         `json:"hostedUrl,omitempty"` // in the record only
	CreatedAt   decision.Stamp `json:"createdAt"`
	UpdatedAt   decision.Stamp `json:"updatedAt"`
}

// QuoteRamp locks an offer for RampLock. FeeCents is the partner's highest fee. Its reply is a
// RampQuote. It is refused with invalid_amount, travel_rule_unsupported (a withdrawal of
// TravelRuleCents or more) and limit_exceeded. The caller has checked the linked account and the
// wallet.
type QuoteRamp struct {
	Workspace, ID, Direction string
	AmountCents, FeeCents    money.Cents
	WalletID                 string // withdrawals only
}

// CreateRampOrder uses a quote. Quote is its record; Withdrawal says that the withdrawal route was
// called. Its reply is a RampOrder. It is refused with quote_mismatch (a quote of the other route),
// quote_used, quote_expired, limit_exceeded and insufficient_funds, which the runtime decides for
// an on-ramp.
type CreateRampOrder struct {
	Workspace, ID string
	Quote         RampQuote
	Withdrawal    bool
}

// AcceptRampOrder records that the partner took the order. It has no reply; a repeat changes
// nothing.
type AcceptRampOrder struct{ ID string }

// RefuseRampOrder records that the partner refused the order, and credits its amount back. It has
// no reply. A repeat, or a refusal after the partner took the order, changes nothing.
type RefuseRampOrder struct{ ID string }

// ReportRamp is the partner's report of an outcome, completed or failed, of an order or an imported
// session. Session is the record of a session, nil for an order. It has no reply. A repeat has no
// effect, and a report that the status does not allow is ramp_conflict.
type ReportRamp struct {
	EventID     string // the partner's, claimed once for 90 days
	ID, Outcome string
	FeeCents    *money.Cents // the fee charged; nil for the quote's MaxFeeCents
	TxHash      string       // of a completed withdrawal
	Session     *RampSession
}

// ImportRampSession imports a session, once for ever. It has no reply; a repeat changes nothing.
type ImportRampSession struct {
	Workspace string
	Session   RampSession
}
