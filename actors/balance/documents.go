package balance

import (
	"encoding/json"

	"purser/actors/decision"
	"purser/authorizer/hold"
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
	AmountUsdCents int64          `json:"amountUsdCents"`
	ExpectedAt     decision.Stamp `json:"expectedAt"`
}

// LedgerEntry is a line of the workspace's ledger. AmountCents is positive; Direction says which way it went.
type LedgerEntry struct {
	ID string `json:"id"`
	// bank_deposit, stablecoin_deposit, checkout, card_settlement, card_refund, payout, payout_return, physical_card_fee,
	// ramp_onramp, ramp_offramp, ramp_reversal
	Source        string         `json:"source"`
	Direction     string         `json:"direction"` // debit or credit
	AmountCents   int64          `json:"amountCents"`
	Reference     string         `json:"reference"`
	TransferGroup string         `json:"transferGroup"`
	CardID        *string        `json:"cardId"`
	CreatedAt     decision.Stamp `json:"createdAt"`
	// BookedAt is when the line reached the ledger: a card's clearing comes later than it was made. BalanceCents are the
	// workspace's dollars after it. Lines of other accounts have no balance; those of an older version have neither.
	BookedAt     *decision.Stamp `json:"bookedAt,omitempty"`
	BalanceCents *int64          `json:"balanceCents,omitempty"`
}

// Signed is what the line adds to its account, in cents.
func (l LedgerEntry) Signed() int64 {
	if l.Direction == "debit" {
		return -l.AmountCents
	}
	return l.AmountCents
}

// Authorization is an entry of a card's authorization log as it stands.
type Authorization struct {
	ID            string         `json:"id"`
	NetworkID     string         `json:"networkId"`
	Decision      string         `json:"decision"`
	Reason        string         `json:"reason"`
	ResponseCode  string         `json:"responseCode"`
	AmountCents   int64          `json:"amountCents"`
	HeldCents     int64          `json:"heldCents"`
	ClearedCents  int64          `json:"clearedCents"`
	RefundedCents int64          `json:"refundedCents"`
	Status        string         `json:"status"`
	Checked       *hold.Checked  `json:"checked"`
	Merchant      Merchant       `json:"merchant"`
	At            decision.Stamp `json:"at"`
}

// Merchant is who asked. MCC is four digits.
type Merchant struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	MCC     string `json:"mcc"`
	Country string `json:"country,omitempty"`
}

// AuthorizationIndex lists a workspace's authorizations over all cards: those that one relayed run made, 1 to MaxRelay of them,
// in the order in which they were decided. An earlier version wrote one record for each, with its id as AuthorizationID.
type AuthorizationIndex struct {
	AuthorizationID  string   `json:"authorizationId,omitempty"`
	AuthorizationIDs []string `json:"authorizationIds"`
}

// All are the ids, in the order in which they were decided, whichever version wrote them.
func (x AuthorizationIndex) All() []string {
	if x.AuthorizationID != "" {
		return []string{x.AuthorizationID}
	}
	return x.AuthorizationIDs
}

// CardSpend is what a card has authorized and cleared in a month (year × 100 + month).
type CardSpend struct {
	Month uint32 `json:"month"`
	Cents int64  `json:"cents"`
}

// Unmatched is a report that matched nothing. Body is the partner's, as it came.
type Unmatched struct {
	ID      string          `json:"id"`
	Partner string          `json:"partner"`
	EventID string          `json:"eventId"`
	Type    string          `json:"type"`
	Body    json.RawMessage `json:"body"`
	At      decision.Stamp  `json:"at"`
}
