package hold

// Reason is the reason of a decision. The reasons before ReasonDuplicateMismatch are in the order
// of precedence: the first that applies is the answer. refusalReason defines the place of the
// others that Decide checks.
type Reason uint8

// Reasons.
const (
	ReasonApproved Reason = iota
	ReasonInvalidRequest
	ReasonCardNotFound
	ReasonCardTerminated
	ReasonCardFrozen
	ReasonCurrencyNotSupported
	ReasonMCCNotAllowed
	ReasonMerchantNotAllowed
	ReasonPerTransactionLimitExceeded
	ReasonMonthlyLimitExceeded
	ReasonInsufficientFunds
	ReasonDuplicateMismatch
	ReasonAuthorizationNotFound
	ReasonReversedBeforeArrival
	ReasonTimeout
	ReasonBacklogFull
	ReasonSystemUnavailable
	ReasonForcedPost // a clearing without an authorization created this one
	reasons
)

// The index of both tables is the reason.
var (
	// reasonNames are the names in the interface, the journal and the logs.
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
// It panics for a reason that does not exist.
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

func (r Reason) String() string { return nameOf(reasonNames, "reason", r) }

// MarshalText returns the name; a value without one is an error.
func (r Reason) MarshalText() ([]byte, error) { return marshalName(reasonNames, "reason", r) }

// UnmarshalText parses a name.
func (r *Reason) UnmarshalText(b []byte) error { return unmarshalName(reasonNames, "reason", b, r) }
