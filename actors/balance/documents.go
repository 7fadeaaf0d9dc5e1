package balance

import (
	"encoding/json"

	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/money"
)

// Record kinds that this package writes.
const (
	RecordDeposit            = "deposit"             // dep_ id → Deposit
	RecordLedgerEntry        = "ledger_entry"        // le_ id → LedgerEntry; listed
	RecordAuthorization      = "authorization"       // auth_ id → Authorization; listed under its card
	RecordAuthorizationIndex = "authorization_index" // first auth_ id → AuthorizationIndex; listed for the workspace
	RecordCardSpend          = "card_spend"          // card_ id → CardSpend
	RecordUnmatched          = "unmatched"           // evt_ id → Unmatched; listed
	RecordPayout             = "payout"              // po_ id → Payout; listed
	RecordPayoutText         = "payout_text"         // po_ id → PayoutText, sealed
	RecordQuote              = "fx_quote"            // fxq_ id → Quote
	RecordPhysicalOrder      = "physical_order"      // pco_ id → PhysicalOrder; listed
	RecordPhysicalText       = "physical_text"       // pco_ id → PhysicalText, sealed
)

// Deposit is a bank transfer to the workspace.
type Deposit struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"` // pending or settled
	Rail           string         `json:"rail"`
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	ExpectedAt     decision.Stamp `json:"expectedAt"`
}

// LedgerEntry is a line of the workspace's ledger. AmountCents is positive; Direction is its sign.
type LedgerEntry struct {
	ID            string         `json:"id"`
	Source        string         `json:"source"`    // one of LedgerSources
	Direction     string         `json:"direction"` // debit or credit
	AmountCents   money.Cents    `json:"amountCents"`
	Reference     string         `json:"reference"`
	TransferGroup string         `json:"transferGroup"`
	CardID        *string        `json:"cardId"`
	CreatedAt     decision.Stamp `json:"createdAt"`
	// BookedAt is the time at which the line reached the ledger; a card's clearing is booked after
	// CreatedAt. BalanceCents are the workspace's dollars after the line; lines of other accounts
	// have none.
	BookedAt     decision.Stamp `json:"bookedAt"`
	BalanceCents *money.Cents   `json:"balanceCents,omitempty"`
}

// LedgerSources are what a line of the ledger can come from. The ledger's filter takes them.
var LedgerSources = []string{sourceDeposit, sourceStablecoin, sourceCheckout, sourceSettlement, sourceRefund,
	sourcePayout, sourcePayoutReturn, sourcePhysicalFee, sourceOnramp, sourceOfframp, sourceRampReversal}

// Spent is what the line adds to the dollars that the workspace spends, in cents: cleared swipes,
// payouts and fees, less refunds and payouts that came back. Deposits and exchanges for USDC spend
// nothing.
func (l LedgerEntry) Spent() money.Cents {
	switch l.Source {
	case sourceSettlement, sourceRefund, sourcePayout, sourcePayoutReturn, sourcePhysicalFee:
		return -l.Signed()
	}
	return 0
}

// Signed is the amount that the line adds to its account, in cents, negative for a debit. bookLines
// and the statements of httpapi add it up.
func (l LedgerEntry) Signed() money.Cents {
	if l.Direction == "debit" {
		return -l.AmountCents
	}
	return l.AmountCents
}

// Authorization is the current state of an entry of a card's authorization log.
type Authorization struct {
	ID            string         `json:"id"`
	NetworkID     string         `json:"networkId"`
	Decision      string         `json:"decision"`
	Reason        string         `json:"reason"`
	ResponseCode  string         `json:"responseCode"`
	AmountCents   money.Cents    `json:"amountCents"`
	HeldCents     money.Cents    `json:"heldCents"`
	ClearedCents  money.Cents    `json:"clearedCents"`
	RefundedCents money.Cents    `json:"refundedCents"`
	Status        string         `json:"status"`
	Checked       *hold.Checked  `json:"checked"`
	Merchant      Merchant       `json:"merchant"`
	At            decision.Stamp `json:"at"`
}

// Merchant is the acceptor of a card message. MCC has four digits.
type Merchant struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	MCC     string `json:"mcc"`
	Country string `json:"country,omitempty"`
}

// AuthorizationIndex lists the authorizations that one relayed run created over all cards: 1 to
// MaxRelay of them, in the order of their decisions.
type AuthorizationIndex struct {
	AuthorizationIDs []string `json:"authorizationIds"`
}

// CardSpend is the sum that a card authorized and cleared in a month (year × 100 + month).
type CardSpend struct {
	Month uint32      `json:"month"`
	Cents money.Cents `json:"cents"`
}

// Unmatched is a report that matched nothing. Body is the partner's text as received.
type Unmatched struct {
	ID      string          `json:"id"`
	Partner string          `json:"partner"`
	EventID string          `json:"eventId"`
	Type    string          `json:"type"`
	Body    json.RawMessage `json:"body"`
	At      decision.Stamp  `json:"at"`
}
