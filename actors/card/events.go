package card

import (
	"fmt"

	"purser/actors/decision"
)

// Minted records a new card.
type Minted struct {
	Terms
	Last4        string         `json:"last4"`
	HolderKind   string         `json:"holderKind"`
	CardholderID string         `json:"cardholderId,omitempty"`
	Physical     bool           `json:"physical"`
	Fixture      bool           `json:"fixture"`
	At           decision.Stamp `json:"at"`
}

// Frozen records that the card approves nothing until it is unfrozen.
type Frozen struct {
	Terms
	At decision.Stamp `json:"at"`
}

// Unfrozen records that the card is active again.
type Unfrozen struct {
	Terms
	At decision.Stamp `json:"at"`
}

// Terminated records the final end of the card.
type Terminated struct {
	Terms
	At decision.Stamp `json:"at"`
}

// LimitsChanged records a new monthly or per-transaction limit.
type LimitsChanged struct {
	Terms
	At decision.Stamp `json:"at"`
}

// ScopesChanged records a new allowlist.
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
var catalog = decision.NewCatalog("card", Minted{}, Frozen{}, Unfrozen{}, Terminated{}, LimitsChanged{},
	ScopesChanged{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type, for a payload that does not decode, and for terms that make no rule.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	e, err := catalog.Decode(eventType, payload)
	if err != nil {
		return nil, err
	}
	terms, _ := termsOf(e)
	if err := terms.validate(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", eventType, err)
	}
	return e, nil
}
