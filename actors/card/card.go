// Package card is one virtual or physical card: its state, its limits and its allowlists. It is
// pure; the actor of the card's id alone folds its events.
//
// The package decides the changes that the cardholder's side may make. The authorizer approves or
// declines a swipe, by the rule (RuleOf) that every event of a card carries whole. The balance of
// the workspace keeps the card's spending.
package card

import (
	"encoding/json"

	"purser/actors/decision"
	"purser/persistence/money"
)

// States of a card. StateTerminated is final.
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

// Label is the name that the workspace gives the card's holder. It may be a person's name, so it is
// in a sealed record of its own, and in no event and no state.
type Label struct {
	HolderLabel string `json:"holderLabel"`
}

// View is a card as the interface shows it. The caller adds the label and the month's spending.
type View struct {
	ID                   string         `json:"id"`
	WorkspaceID          string         `json:"workspaceId"`
	CardholderID         *string        `json:"cardholderId"`
	HolderKind           string         `json:"holderKind"`
	State                string         `json:"state"`
	Last4                string         `json:"last4"`
	PartnerCardToken     string         `json:"partnerCardToken"`
	MonthlyLimitUsdCents money.Cents    `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  money.Cents    `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string      `json:"allowedMccs"`
	AllowedMerchants     *[]string      `json:"allowedMerchants"`
	Physical             bool           `json:"physical"`
	Fixture              bool           `json:"fixture"`
	CreatedAt            decision.Stamp `json:"createdAt"`
	UpdatedAt            decision.Stamp `json:"updatedAt"`
}

// View returns a copy of the card as the interface shows it. The decisions reply it to the card
// routes.
func (s *State) View() View {
	v := View{
		ID: s.Card, WorkspaceID: s.Workspace, HolderKind: s.HolderKind, State: s.State, Last4: s.Last4,
		PartnerCardToken: s.Token, MonthlyLimitUsdCents: s.MonthlyLimitUsdCents,
		PerTxnLimitUsdCents: s.PerTxnLimitUsdCents,
		AllowedMccs:         cloneList(s.AllowedMccs), AllowedMerchants: cloneList(s.AllowedMerchants),
		Physical: s.Physical, Fixture: s.Fixture, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if holder := s.CardholderID; holder != "" {
		v.CardholderID = &holder
	}
	return v
}

// Mint issues a card. The caller makes ID, Workspace, Token and Last4; the request gives the rest.
// A nil allowlist allows everything.
type Mint struct {
	ID, Workspace, Token    string
	Last4                   string
	HolderKind, HolderLabel string // kind is agent or human
	CardholderID            string // "" for none
	MonthlyLimitUsdCents    money.Cents
	PerTxnLimitUsdCents     money.Cents
	AllowedMccs             *[]string
	AllowedMerchants        *[]string
	Physical, Fixture       bool
	OrderedAt               decision.Stamp // creation time of a physical card; zero takes the time of the command
}

// Update changes the fields that are not nil, or are Set. An empty Update is refused.
type Update struct {
	State                *string      `json:"state"`
	MonthlyLimitUsdCents *money.Cents `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  *money.Cents `json:"perTxnLimitUsdCents"`
	AllowedMccs          OptionalList `json:"allowedMccs"`
	AllowedMerchants     OptionalList `json:"allowedMerchants"`
}

// OptionalList is an allowlist in a request: absent is not Set, null is Set with a nil Value (allow
// all).
type OptionalList struct {
	Set   bool
	Value *[]string
}

// UnmarshalJSON sets Set. Package json calls it for null too, but not for an absent field. It fails
// for a value that is neither null nor a list of strings. The route PATCH /api/cards/{id} decodes
// its body with it.
func (o *OptionalList) UnmarshalJSON(b []byte) error {
	o.Set, o.Value = true, nil
	return json.Unmarshal(b, &o.Value)
}
