// Package fault is the error type that callers of the interface see. Domain packages return it; the
// HTTP layer maps its code to a status through one table. Any other error is an internal fault: it
// is logged with an id and answered without its text.
package fault

import "errors"

// Code is the machine-readable code in an error answer.
type Code string

// Codes that more than one layer uses.
const (
	InvalidBody           Code = "invalid_body"
	InvalidQuery          Code = "invalid_query"
	Unauthorized          Code = "unauthorized"
	InvalidCredentials    Code = "invalid_credentials"
	SignatureInvalid      Code = "signature_invalid"
	SandboxOnly           Code = "sandbox_only"
	KYBRequired           Code = "kyb_required"
	SessionRequired       Code = "session_required"
	RoleRequired          Code = "role_required"
	OriginRefused         Code = "origin_refused"
	SignupClosed          Code = "signup_closed"
	WorkspaceRequired     Code = "workspace_required"
	NotFound              Code = "not_found"
	MethodNotAllowed      Code = "method_not_allowed"
	BodyTooLarge          Code = "body_too_large"
	HeaderTooLarge        Code = "header_too_large"
	UnsupportedMediaType  Code = "unsupported_media_type"
	CardTerminated        Code = "card_terminated"
	AgentFrozen           Code = "agent_frozen"
	AgentTerminated       Code = "agent_terminated"
	IntentExpired         Code = "intent_expired"
	IntentIatFuture       Code = "intent_iat_future"
	IntentReplay          Code = "intent_replay"
	EmailTaken            Code = "email_taken"
	SecondFactorEnabled   Code = "second_factor_enabled"
	LastOwner             Code = "last_owner"
	AlreadyMember         Code = "already_member"
	CapabilityUnavailable Code = "capability_unavailable"
	InsufficientFunds     Code = "insufficient_funds"
	LimitExceeded         Code = "limit_exceeded"
	PayoutNotHeld         Code = "payout_not_held"
	// a report that the payout's status does not allow; no caller of a route sees it
	PayoutConflict        Code = "payout_conflict"
	QuoteNotFound         Code = "quote_not_found"
	QuoteExpired          Code = "quote_expired"
	QuoteUsed             Code = "quote_used"
	QuoteMismatch         Code = "quote_mismatch"
	InvalidCurrency       Code = "invalid_currency"
	SameCurrency          Code = "same_currency"
	CurrencyRequired      Code = "currency_required"
	CurrencyAccountExists Code = "currency_account_exists"
	CurrencyNotHeld       Code = "currency_account_not_found"
	CurrencyUnavailable   Code = "currency_unavailable"
	CurrencyRestricted    Code = "currency_restricted"
	CurrencyNotEligible   Code = "currency_not_eligible"
	AccountNotReady       Code = "account_not_ready"
	AccountSuspended      Code = "account_suspended"
	BalancePaused         Code = "balance_paused"
	OnboardingRequired    Code = "onboarding_required"
	QuoteTooShort         Code = "quote_lifetime_too_short"
	RateUnavailable       Code = "rate_unavailable"
	// Stale refuses a command whose record is older than the actor's state: read the record again.
	// No caller of a route sees it.
	Stale                 Code = "stale"
	ProtocolNotRegistered Code = "protocol_not_registered"
	// a report that the conversion's status does not allow; no caller of a route sees it
	ConversionConflict Code = "conversion_conflict"
	InvalidAmount      Code = "invalid_amount"
	TravelRule         Code = "travel_rule_unsupported"
	// a report that a ramp order's status does not allow; no caller of a route sees it
	RampConflict           Code = "ramp_conflict"
	Gone                   Code = "gone"
	IdempotencyKeyRequired Code = "idempotency_key_required"
	InvalidIdempotencyKey  Code = "invalid_idempotency_key"
	IdempotencyKeyMismatch Code = "idempotency_key_mismatch"
	RateLimited            Code = "rate_limited"
	RateLimitUnavailable   Code = "rate_limit_unavailable"
	PairNotSupported       Code = "pair_not_supported"
	AssetChainNotSelected  Code = "asset_chain_not_selected"
	LinkExpired            Code = "link_expired"
	LinkEnded              Code = "link_ended"
	PaymentSeen            Code = "payment_seen"
	// a step that a link's status does not allow; no caller of a route sees it
	CheckoutConflict   Code = "checkout_conflict"
	DuplicateMismatch  Code = "duplicate_mismatch"
	OutcomeUnknown     Code = "outcome_unknown"
	Unavailable        Code = "unavailable"
	Internal           Code = "internal"
	missingScopePrefix Code = "missing_scope:"
)

// MissingScope returns the code for a key that lacks a scope.
func MissingScope(scope string) Code { return missingScopePrefix + Code(scope) }

// Error is the error that the caller sees. Message is for a person and names the field at fault; it
// never repeats an id or a secret.
type Error struct {
	Code    Code
	Message string
	// KYBStatus is set with kyb_required only.
	KYBStatus string
	// Reason is the cause within a code: why a signed intent was refused.
	Reason string
	// Use is set with gone only: the path to call instead.
	Use string
}

// Error returns the code and, if there is one, the message. Logs show it; the HTTP server writes
// the fields instead.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// New returns an error with a code. Message is for a person; "" leaves it to the HTTP server. All
// refusals of the domain packages and of the HTTP server are made with it.
func New(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Is reports whether err is a fault of the code, also when it is wrapped.
func Is(err error, code Code) bool {
	var f *Error
	return errors.As(err, &f) && f.Code == code
}
