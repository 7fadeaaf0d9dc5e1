// Package card is one virtual or physical card: its state, its limits and what it may be spent on. It is pure; an actor of the
// card's id is the only one that folds its events.
//
// The package decides what the holder's side may change. Whether a swipe is approved is not decided here but by the
// authorizer, from the rule (RuleOf) that every event of a card carries whole. What a card has spent is not here either: the
// balance of its workspace keeps that beside it.
package card

import (
	"encoding/json"

	"purser/actors/decision"
	"purser/persistence/money"
)

// States of a card. Terminated is for ever.
const (
	StateActive     = "active"
	StateFrozen     = "frozen"
	StateTerminated = "terminated"
)

// Limits of a card's fields.
const (
	MaxLabel     = 60 // characters
	MaxMerchant  = 80 // characters of one merchant
	MaxAllowlist = 1000
	MaxLimit     = money.MaxAmount // cents
	// MaxPerWorkspace counts terminated cards too.
	MaxPerWorkspace = 10_000_000
)

// RecordLabel is the kind of the record card_ id → Label.
const RecordLabel = "card_label"

// State is a card. The zero State is a card that does not exist.
type State struct {
	Terms
	Last4        string         `json:"last4"`
	HolderKind   string         `json:"holderKind"`
	CardholderID string         `json:"cardholderId,omitempty"`
	Physical     bool           `json:"physical"`
	Fixture      bool           `json:"fixture"`
	CreatedAt    decision.Stamp `json:"createdAt"`
	UpdatedAt    decision.Stamp `json:"updatedAt"`
}

// Label is what the holder's side calls the card's holder. It may be a person's name: it is in a sealed record of its own, and in
// no event and no state.
type Label struct {
	HolderLabel string `json:"holderLabel"`
}

// View is a card as the interface shows it; its label, and what it spent in the month, are added by whoever asks.
type View struct {
	ID                   string         `json:"id"`
	WorkspaceID          string         `json:"workspaceId"`
	CardholderID         *string        `json:"cardholderId"`
	HolderKind           string         `json:"holderKind"`
	State                string         `json:"state"`
	Last4                string         `json:"last4"`
	PartnerCardToken     string         `json:"partnerCardToken"`
	MonthlyLimitUsdCents int64          `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  int64          `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string      `json:"allowedMccs"`
	AllowedMerchants     *[]string      `json:"allowedMerchants"`
	Physical             bool           `json:"physical"`
	Fixture              bool           `json:"fixture"`
	CreatedAt            decision.Stamp `json:"createdAt"`
	UpdatedAt            decision.Stamp `json:"updatedAt"`
}

// Mint issues a card. ID, Workspace, Token and Last4 are made by the caller; the rest is what was asked for. A nil allowlist
// allows all.
type Mint struct {
	ID, Workspace, Token    string
	Last4                   string
	HolderKind, HolderLabel string // kind is agent or human
	CardholderID            string // "" for none
	MonthlyLimitUsdCents    int64
	PerTxnLimitUsdCents     int64
	AllowedMccs             *[]string
	AllowedMerchants        *[]string
	Physical, Fixture       bool
	OrderedAt               decision.Stamp // of a physical card, which exists from then on; zero: when it is minted
}

// Update changes what is not nil (or Set). One that changes nothing at all is refused.
type Update struct {
	State                *string  `json:"state"`
	MonthlyLimitUsdCents *int64   `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  *int64   `json:"perTxnLimitUsdCents"`
	AllowedMccs          Optional `json:"allowedMccs"`
	AllowedMerchants     Optional `json:"allowedMerchants"`
}

// Optional is an allowlist in a request: absent is not Set, null is Set with a nil Value (allow all).
type Optional struct {
	Set   bool
	Value *[]string
}

// UnmarshalJSON is called for null too, which is how it is told from absence.
func (o *Optional) UnmarshalJSON(b []byte) error {
	o.Set, o.Value = true, nil
	return json.Unmarshal(b, &o.Value)
}
