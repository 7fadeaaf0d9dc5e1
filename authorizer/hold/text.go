package hold

import (
	"fmt"
	"slices"
	"strconv"
)

// Names of the enumerations, as the interface, the journal and the logs write them. Index is the value; "" is no value.
var (
	kindNames = []string{
		Authorization: "authorization", Incremental: "incremental", Reversal: "reversal", Clearing: "clearing",
		Refund: "refund", Expiry: "expiry", TimeoutReturn: "timeout_return",
	}
	decisionNames = []string{
		Approved: "approved", Declined: "declined", Posted: "posted", Unmatched: "unmatched", Applied: "applied",
	}
	reasonNames = []string{
		ReasonApproved: "approved", ReasonInvalidRequest: "invalid_request", ReasonCardNotFound: "card_not_found",
		ReasonCardTerminated: "card_terminated", ReasonCardFrozen: "card_frozen",
		ReasonCurrencyNotSupported: "currency_not_supported", ReasonMCCNotAllowed: "mcc_not_allowed",
		ReasonMerchantNotAllowed: "merchant_not_allowed", ReasonPerTransactionLimitExceeded: "per_transaction_limit_exceeded",
		ReasonMonthlyLimitExceeded: "monthly_limit_exceeded", ReasonInsufficientFunds: "insufficient_funds",
		ReasonDuplicateMismatch: "duplicate_mismatch", ReasonAuthorizationNotFound: "authorization_not_found",
		ReasonReversedBeforeArrival: "reversed_before_arrival", ReasonTimeout: "timeout", ReasonBacklogFull: "backlog_full",
		ReasonSystemUnavailable: "system_unavailable", ReasonForcedPost: "forced_post",
	}
	statusNames = []string{
		StatusNone: "none", StatusHeld: "held", StatusPartiallyCleared: "partially_cleared", StatusCleared: "cleared",
		StatusReversed: "reversed", StatusExpired: "expired", StatusDeclined: "declined",
	}
	cardStateNames = []string{CardActive: "active", CardFrozen: "frozen", CardTerminated: "terminated"}

	// responseCodes are those of ISO 8583, field 39.
	responseCodes = [reasons]string{
		ReasonApproved: "00", ReasonInvalidRequest: "30", ReasonCardNotFound: "14", ReasonCardTerminated: "46",
		ReasonCardFrozen: "62", ReasonCurrencyNotSupported: "12", ReasonMCCNotAllowed: "57", ReasonMerchantNotAllowed: "57",
		ReasonPerTransactionLimitExceeded: "61", ReasonMonthlyLimitExceeded: "61", ReasonInsufficientFunds: "51",
		ReasonDuplicateMismatch: "94", ReasonAuthorizationNotFound: "25", ReasonReversedBeforeArrival: "12",
		ReasonTimeout: "91", ReasonBacklogFull: "96", ReasonSystemUnavailable: "96", ReasonForcedPost: "00",
	}
)

const partialApprovalCode = "10"

// ResponseCode returns the ISO 8583 response code of a reason. An approval of less than was asked has its own.
func (r Reason) ResponseCode(partial bool) string {
	if r == ReasonApproved && partial {
		return partialApprovalCode
	}
	if r >= reasons {
		panic("BUG: " + r.String())
	}
	return responseCodes[r]
}

// ResponseCode returns the ISO 8583 response code the authorization was answered with.
func (h *Hold) ResponseCode() string { return h.Reason.ResponseCode(h.Approved < h.Asked) }

func (k Kind) String() string      { return nameOf(kindNames, "kind", k) }
func (d Decision) String() string  { return nameOf(decisionNames, "decision", d) }
func (r Reason) String() string    { return nameOf(reasonNames, "reason", r) }
func (s Status) String() string    { return nameOf(statusNames, "status", s) }
func (s CardState) String() string { return nameOf(cardStateNames, "card state", s) }

// MarshalText writes the name; a value without one is an error.
func (k Kind) MarshalText() ([]byte, error) { return marshal(kindNames, "kind", k) }

// MarshalText writes the name; a value without one is an error.
func (d Decision) MarshalText() ([]byte, error) { return marshal(decisionNames, "decision", d) }

// MarshalText writes the name; a value without one is an error.
func (r Reason) MarshalText() ([]byte, error) { return marshal(reasonNames, "reason", r) }

// MarshalText writes the name; a value without one is an error.
func (s Status) MarshalText() ([]byte, error) { return marshal(statusNames, "status", s) }

// MarshalText writes the name; a value without one is an error.
func (s CardState) MarshalText() ([]byte, error) { return marshal(cardStateNames, "card state", s) }

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(b []byte) error { return unmarshal(kindNames, "kind", b, k) }

// UnmarshalText reads a name.
func (d *Decision) UnmarshalText(b []byte) error { return unmarshal(decisionNames, "decision", b, d) }

// UnmarshalText reads a name.
func (r *Reason) UnmarshalText(b []byte) error { return unmarshal(reasonNames, "reason", b, r) }

// UnmarshalText reads a name.
func (s *Status) UnmarshalText(b []byte) error { return unmarshal(statusNames, "status", b, s) }

// UnmarshalText reads a name.
func (s *CardState) UnmarshalText(b []byte) error {
	return unmarshal(cardStateNames, "card state", b, s)
}

// ParseKind reads the name of a kind.
func ParseKind(s string) (Kind, error) { return parse[Kind](kindNames, "kind", s) }

// ParseDecision reads the name of a decision.
func ParseDecision(s string) (Decision, error) { return parse[Decision](decisionNames, "decision", s) }

// ParseReason reads the name of a reason.
func ParseReason(s string) (Reason, error) { return parse[Reason](reasonNames, "reason", s) }

// ParseStatus reads the name of a status.
func ParseStatus(s string) (Status, error) { return parse[Status](statusNames, "status", s) }

// ParseCardState reads the name of a card state.
func ParseCardState(s string) (CardState, error) {
	return parse[CardState](cardStateNames, "card state", s)
}

type enum interface{ ~uint8 }

func named[E enum](names []string, v E) bool { return int(v) < len(names) && names[v] != "" }

func nameOf[E enum](names []string, what string, v E) string {
	if !named(names, v) {
		return what + " " + strconv.Itoa(int(v))
	}
	return names[v]
}

func marshal[E enum](names []string, what string, v E) ([]byte, error) {
	if !named(names, v) {
		return nil, fmt.Errorf("no such %s: %d", what, v)
	}
	return []byte(names[v]), nil
}

func unmarshal[E enum](names []string, what string, b []byte, v *E) (err error) {
	*v, err = parse[E](names, what, string(b))
	return err
}

func parse[E enum](names []string, what, s string) (E, error) {
	i := slices.Index(names, s)
	if i < 0 || s == "" {
		return 0, fmt.Errorf("no such %s: %q", what, s)
	}
	return E(i), nil
}
