package card

import (
	"fmt"

	"purser/actors/decision"
	"purser/persistence/ident"
)

// Terms is the whole rule of a card after an event: what a swipe is judged by. Every event of a card carries it, so that a
// follower needs no event but the newest. Limits are in cents; a null allowlist allows everything, an empty one nothing.
type Terms struct {
	Token                string    `json:"token"`
	Card                 string    `json:"card"`
	Workspace            string    `json:"workspace"`
	State                string    `json:"state"`
	MonthlyLimitUsdCents int64     `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  int64     `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string `json:"allowedMccs"`
	AllowedMerchants     *[]string `json:"allowedMerchants"`
}

// Minted says that a card was issued.
type Minted struct {
	Terms
	Last4        string         `json:"last4"`
	HolderKind   string         `json:"holderKind"`
	CardholderID string         `json:"cardholderId,omitempty"`
	Physical     bool           `json:"physical"`
	Fixture      bool           `json:"fixture"`
	At           decision.Stamp `json:"at"`
}

// Frozen says that the card approves nothing until it is unfrozen.
type Frozen struct {
	Terms
	At decision.Stamp `json:"at"`
}

// Unfrozen says that the card is active again.
type Unfrozen struct {
	Terms
	At decision.Stamp `json:"at"`
}

// Terminated says that the card has ended, for ever.
type Terminated struct {
	Terms
	At decision.Stamp `json:"at"`
}

// LimitsChanged says that the monthly or the per-transaction limit is another.
type LimitsChanged struct {
	Terms
	At decision.Stamp `json:"at"`
}

// ScopesChanged says that an allowlist is another.
type ScopesChanged struct {
	Terms
	At decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Minted) EventType() string { return "card.minted.v1" }

// EventType is the name the event is stored under.
func (Frozen) EventType() string { return "card.frozen.v1" }

// EventType is the name the event is stored under.
func (Unfrozen) EventType() string { return "card.unfrozen.v1" }

// EventType is the name the event is stored under.
func (Terminated) EventType() string { return "card.terminated.v1" }

// EventType is the name the event is stored under.
func (LimitsChanged) EventType() string { return "card.limits_changed.v1" }

// EventType is the name the event is stored under.
func (ScopesChanged) EventType() string { return "card.scopes_changed.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("card", Minted{}, Frozen{}, Unfrozen{}, Terminated{}, LimitsChanged{}, ScopesChanged{})

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	e, err := catalog.Decode(eventType, payload)
	if err != nil {
		return nil, err
	}
	terms, _ := termsOf(e)
	if err := terms.check(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", eventType, err)
	}
	return e, nil
}

func termsOf(e decision.Event) (Terms, bool) {
	switch e := e.(type) {
	case Minted:
		return e.Terms, true
	case Frozen:
		return e.Terms, true
	case Unfrozen:
		return e.Terms, true
	case Terminated:
		return e.Terms, true
	case LimitsChanged:
		return e.Terms, true
	case ScopesChanged:
		return e.Terms, true
	}
	return Terms{}, false
}

// check refuses terms that no rule can be made of: the authorizer must never follow a damaged event.
func (t Terms) check() error {
	if _, err := ident.ParseToken([]byte(t.Token)); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if _, err := ident.Parse(ident.Card, t.Card); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	if _, err := ident.Parse(ident.Workspace, t.Workspace); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if _, known := networkState(t.State); !known {
		return fmt.Errorf("state %q", t.State)
	}
	if err := checkLimits(&t.MonthlyLimitUsdCents, &t.PerTxnLimitUsdCents); err != nil {
		return err
	}
	return checkAllowlists(t.AllowedMccs, t.AllowedMerchants)
}
