package hold

import (
	"fmt"
	"slices"
	"strconv"
)

// Names of the enumerations in the interface, the journal and the logs. The index is the value; ""
// is no value.
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
		ReasonMerchantNotAllowed:          "merchant_not_allowed",
		ReasonPerTransactionLimitExceeded: "per_transaction_limit_exceeded",
		ReasonMonthlyLimitExceeded:        "monthly_limit_exceeded", ReasonInsufficientFunds: "insufficient_funds",
		ReasonDuplicateMismatch: "duplicate_mismatch", ReasonAuthorizationNotFound: "authorization_not_found",
		ReasonReversedBeforeArrival: "reversed_before_arrival", ReasonTimeout: "timeout",
		ReasonBacklogFull:       "backlog_full",
		ReasonSystemUnavailable: "system_unavailable", ReasonForcedPost: "forced_post",
	}
	statusNames = []string{
		StatusNone: "none", StatusHeld: "held", StatusPartiallyCleared: "partially_cleared", StatusCleared: "cleared",
		StatusReversed: "reversed", StatusExpired: "expired", StatusDeclined: "declined",
	}
	cardStateNames = []string{CardActive: "active", CardFrozen: "frozen", CardTerminated: "terminated"}

	// responseCodes are the codes of ISO 8583, field 39.
	responseCodes = [reasons]string{
		ReasonApproved: "00", ReasonInvalidRequest: "30", ReasonCardNotFound: "14", ReasonCardTerminated: "46",
		ReasonCardFrozen: "62", ReasonCurrencyNotSupported: "12", ReasonMCCNotAllowed: "57",
		ReasonMerchantNotAllowed:          "57",
		ReasonPerTransactionLimitExceeded: "61", ReasonMonthlyLimitExceeded: "61", ReasonInsufficientFunds: "51",
		ReasonDuplicateMismatch: "94", ReasonAuthorizationNotFound: "25", ReasonReversedBeforeArrival: "12",
		ReasonTimeout: "91", ReasonBacklogFull: "96", ReasonSystemUnavailable: "96", ReasonForcedPost: "00",
	}
)

const partialApprovalCode = "10"

// ResponseCode returns the ISO 8583 response code of a reason. A partial approval has its own code.
func (r Reason) ResponseCode(partial bool) string {
	if r == ReasonApproved && partial {
		return partialApprovalCode
	}
	if r >= reasons {
		panic("BUG: " + r.String())
	}
	return responseCodes[r]
}

// ResponseCode returns the ISO 8583 response code of the authorization's answer.
func (h *Hold) ResponseCode() string { return h.Reason.ResponseCode(h.Approved < h.Asked) }

func (k Kind) String() string      { return nameOf(kindNames, "kind", k) }
func (d Decision) String() string  { return nameOf(decisionNames, "decision", d) }
func (r Reason) String() string    { return nameOf(reasonNames, "reason", r) }
func (s Status) String() string    { return nameOf(statusNames, "status", s) }
func (s CardState) String() string { return nameOf(cardStateNames, "card state", s) }

// MarshalText returns the name; a value without one is an error.
func (k Kind) MarshalText() ([]byte, error) { return marshalName(kindNames, "kind", k) }

// MarshalText returns the name; a value without one is an error.
func (d Decision) MarshalText() ([]byte, error) { return marshalName(decisionNames, "decision", d) }

// MarshalText returns the name; a value without one is an error.
func (r Reason) MarshalText() ([]byte, error) { return marshalName(reasonNames, "reason", r) }

// MarshalText returns the name; a value without one is an error.
func (s Status) MarshalText() ([]byte, error) { return marshalName(statusNames, "status", s) }

// MarshalText returns the name; a value without one is an error.
func (s CardState) MarshalText() ([]byte, error) { return marshalName(cardStateNames, "card state", s) }

// UnmarshalText parses a name.
func (k *Kind) UnmarshalText(b []byte) error { return unmarshalName(kindNames, "kind", b, k) }

// UnmarshalText parses a name.
func (d *Decision) UnmarshalText(b []byte) error {
	return unmarshalName(decisionNames, "decision", b, d)
}

// UnmarshalText parses a name.
func (r *Reason) UnmarshalText(b []byte) error { return unmarshalName(reasonNames, "reason", b, r) }

// UnmarshalText parses a name.
func (s *Status) UnmarshalText(b []byte) error { return unmarshalName(statusNames, "status", b, s) }

// UnmarshalText parses a name.
func (s *CardState) UnmarshalText(b []byte) error {
	return unmarshalName(cardStateNames, "card state", b, s)
}

// ParseKind parses the name of a kind.
func ParseKind(s string) (Kind, error) { return parseName[Kind](kindNames, "kind", s) }

// ParseDecision parses the name of a decision.
func ParseDecision(s string) (Decision, error) {
	return parseName[Decision](decisionNames, "decision", s)
}

// ParseReason parses the name of a reason.
func ParseReason(s string) (Reason, error) { return parseName[Reason](reasonNames, "reason", s) }

// ParseStatus parses the name of a status.
func ParseStatus(s string) (Status, error) { return parseName[Status](statusNames, "status", s) }

// ParseCardState parses the name of a card state.
func ParseCardState(s string) (CardState, error) {
	return parseName[CardState](cardStateNames, "card state", s)
}

type enum interface{ ~uint8 }

func isNamed[E enum](names []string, v E) bool { return int(v) < len(names) && names[v] != "" }

func nameOf[E enum](names []string, what string, v E) string {
	if !isNamed(names, v) {
		return what + " " + strconv.Itoa(int(v))
	}
	return names[v]
}

func marshalName[E enum](names []string, what string, v E) ([]byte, error) {
	if !isNamed(names, v) {
		return nil, fmt.Errorf("no such %s: %d", what, v)
	}
	return []byte(names[v]), nil
}

func unmarshalName[E enum](names []string, what string, b []byte, v *E) (err error) {
	*v, err = parseName[E](names, what, string(b))
	return err
}

func parseName[E enum](names []string, what, s string) (E, error) {
	i := slices.Index(names, s)
	if i < 0 || s == "" {
		return 0, fmt.Errorf("no such %s: %q", what, s)
	}
	return E(i), nil
}
