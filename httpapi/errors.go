package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
)

// Codes of the HTTP layer: no actor returns them.
const (
	invalidRequest     fault.Code = "invalid_request" // the bytes are not acceptable HTTP
	requestTimedOut    fault.Code = "request_timeout"
	cardholderRequired fault.Code = "cardholder_required"
	notAcceptable      fault.Code = "not_acceptable"
	hostRefused        fault.Code = "host_refused"    // of the admin port alone
	commandRunning     fault.Code = "command_running" // of the admin port alone
)

// statuses maps every code to its HTTP status. A code that is missing here is a defect and answers
// 500.
var statuses = map[fault.Code]int{
	fault.InvalidBody:            fasthttp.StatusBadRequest,
	fault.InvalidQuery:           fasthttp.StatusBadRequest,
	fault.WorkspaceRequired:      fasthttp.StatusBadRequest,
	fault.IdempotencyKeyRequired: fasthttp.StatusBadRequest,
	fault.InvalidIdempotencyKey:  fasthttp.StatusBadRequest,
	invalidRequest:               fasthttp.StatusBadRequest,
	fault.Unauthorized:           fasthttp.StatusUnauthorized,
	fault.InvalidCredentials:     fasthttp.StatusUnauthorized,
	fault.SignatureInvalid:       fasthttp.StatusUnauthorized,
	fault.IntentExpired:          fasthttp.StatusUnauthorized,
	fault.IntentIatFuture:        fasthttp.StatusUnauthorized,
	fault.SandboxOnly:            fasthttp.StatusForbidden,
	fault.KYBRequired:            fasthttp.StatusForbidden,
	fault.SessionRequired:        fasthttp.StatusForbidden,
	fault.RoleRequired:           fasthttp.StatusForbidden,
	fault.OriginRefused:          fasthttp.StatusForbidden,
	fault.SignupClosed:           fasthttp.StatusForbidden,
	fault.InvalidCurrency:        fasthttp.StatusBadRequest,
	fault.InvalidAmount:          fasthttp.StatusBadRequest,
	fault.SameCurrency:           fasthttp.StatusBadRequest,
	fault.CurrencyRequired:       fasthttp.StatusBadRequest,
	fault.NotFound:               fasthttp.StatusNotFound,
	fault.CurrencyNotHeld:        fasthttp.StatusNotFound,
	fault.QuoteNotFound:          fasthttp.StatusNotFound,
	fault.MethodNotAllowed:       fasthttp.StatusMethodNotAllowed,
	notAcceptable:                fasthttp.StatusNotAcceptable,
	requestTimedOut:              fasthttp.StatusRequestTimeout,
	fault.CardTerminated:         fasthttp.StatusConflict,
	fault.PairNotSupported:       fasthttp.StatusBadRequest,
	fault.LinkExpired:            fasthttp.StatusConflict,
	fault.PaymentSeen:            fasthttp.StatusConflict,
	fault.LinkEnded:              fasthttp.StatusGone,
	fault.Gone:                   fasthttp.StatusGone,
	fault.AssetChainNotSelected:  fasthttp.StatusUnprocessableEntity,
	fault.PayoutNotHeld:          fasthttp.StatusConflict,
	fault.CurrencyAccountExists:  fasthttp.StatusConflict,
	fault.AccountNotReady:        fasthttp.StatusConflict,
	fault.OnboardingRequired:     fasthttp.StatusConflict,
	fault.AgentFrozen:            fasthttp.StatusConflict,
	fault.AgentTerminated:        fasthttp.StatusConflict,
	fault.EmailTaken:             fasthttp.StatusConflict,
	fault.SecondFactorEnabled:    fasthttp.StatusConflict,
	fault.LastOwner:              fasthttp.StatusConflict,
	fault.AlreadyMember:          fasthttp.StatusConflict,
	fault.DuplicateMismatch:      fasthttp.StatusConflict,
	cardholderRequired:           fasthttp.StatusConflict,
	commandRunning:               fasthttp.StatusConflict,
	fault.BodyTooLarge:           fasthttp.StatusRequestEntityTooLarge,
	fault.UnsupportedMediaType:   fasthttp.StatusUnsupportedMediaType,
	hostRefused:                  fasthttp.StatusMisdirectedRequest,
	fault.CapabilityUnavailable:  fasthttp.StatusUnprocessableEntity,
	fault.CurrencyUnavailable:    fasthttp.StatusUnprocessableEntity,
	fault.CurrencyRestricted:     fasthttp.StatusUnprocessableEntity,
	fault.CurrencyNotEligible:    fasthttp.StatusUnprocessableEntity,
	fault.AccountSuspended:       fasthttp.StatusUnprocessableEntity,
	fault.BalancePaused:          fasthttp.StatusUnprocessableEntity,
	fault.RateUnavailable:        fasthttp.StatusUnprocessableEntity,
	fault.TravelRule:             fasthttp.StatusUnprocessableEntity,
	fault.InsufficientFunds:      fasthttp.StatusUnprocessableEntity,
	fault.LimitExceeded:          fasthttp.StatusUnprocessableEntity,
	fault.QuoteExpired:           fasthttp.StatusUnprocessableEntity,
	fault.QuoteUsed:              fasthttp.StatusUnprocessableEntity,
	fault.QuoteMismatch:          fasthttp.StatusUnprocessableEntity,
	fault.ProtocolNotRegistered:  fasthttp.StatusUnprocessableEntity,
	fault.IntentReplay:           fasthttp.StatusUnprocessableEntity,
	fault.IdempotencyKeyMismatch: fasthttp.StatusUnprocessableEntity,
	fault.RateLimited:            fasthttp.StatusTooManyRequests,
	fault.HeaderTooLarge:         fasthttp.StatusRequestHeaderFieldsTooLarge,
	fault.OutcomeUnknown:         fasthttp.StatusInternalServerError,
	fault.Internal:               fasthttp.StatusInternalServerError,
	fault.Unavailable:            fasthttp.StatusServiceUnavailable,
	fault.RateLimitUnavailable:   fasthttp.StatusServiceUnavailable,
	fault.QuoteTooShort:          fasthttp.StatusServiceUnavailable,
}

// statusOf returns the HTTP status of a fault's code, and false for a code that has no place in the
// interface.
func statusOf(code fault.Code) (int, bool) {
	if strings.HasPrefix(string(code), string(fault.MissingScope(""))) {
		return fasthttp.StatusForbidden, true
	}
	status, known := statuses[code]
	return status, known
}

// waitError is a fault with the time after which a retry makes sense.
type waitError struct {
	fault *fault.Error
	wait  time.Duration
}

func (e *waitError) Error() string { return e.fault.Error() }
func (e *waitError) Unwrap() error { return e.fault }

// errorBody is the body of an error response.
type errorBody struct {
	Error     fault.Code `json:"error"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	KYBStatus string     `json:"kybStatus,omitempty"`
	Use       string     `json:"use,omitempty"`
}

// refusalOf turns any error into an answer; id is the request's. A fault answers with its own code
// and status. A change whose context ended may have committed, so it answers outcome_unknown and
// never unavailable. An error without a known code is logged and answers 500 internal.
func (e *edge) refusalOf(id, method string, err error) answer {
	if own, ok := errors.AsType[*statusError](err); ok {
		return refusalAnswer(own.status, own.fault, 0)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		if status, known := statusOf(f.Code); known {
			return refusalAnswer(status, f, waitOf(err))
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		if method == fasthttp.MethodGet {
			return refusalAnswer(fasthttp.StatusServiceUnavailable, fault.New(fault.Unavailable, "no answer in time; nothing changed"),
				0)
		}
		f := fault.New(fault.OutcomeUnknown, "the outcome is not known; retry with the same Idempotency-Key")
		return refusalAnswer(fasthttp.StatusInternalServerError, f, 0)
	}
	return e.internalError(id, err)
}

// internalError logs an error under the request's id and answers with the id alone, because callers
// must not see the error.
func (e *edge) internalError(id string, err error) answer {
	e.log.Error("internal fault", slog.String("request", id), slog.Any("err", err))
	f := fault.New(fault.Internal, "quote this when asking for help: "+id)
	return refusalAnswer(fasthttp.StatusInternalServerError, f, 0)
}

// waitOf returns the wait for the Retry-After header of an error, 0 for none.
func waitOf(err error) time.Duration {
	if w, ok := errors.AsType[*waitError](err); ok {
		return w.wait
	}
	return 0
}

// recordNotFound is the message of every missing record: another workspace's record reads like one
// that never existed.
const recordNotFound = "no such record in this workspace"

// noRoute is the fault of a path outside the route table.
var noRoute = fault.New(fault.NotFound, "no such path; GET /api/v1/openapi.json lists the paths")

// refusalAnswer renders a fault as the JSON body that all errors share. Every not_found of a record
// has the same message, so it discloses nothing.
func refusalAnswer(status int, f *fault.Error, wait time.Duration) answer {
	body := errorBody{Error: f.Code, Reason: f.Reason, Message: f.Message, KYBStatus: f.KYBStatus, Use: f.Use}
	if f.Code == fault.NotFound && f != noRoute {
		body.Message = recordNotFound
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic("BUG: an error that is no JSON: " + err.Error())
	}
	return answer{status: status, body: text, code: f.Code, wait: wait}
}

// statusError is a fault with its own status, for a route that departs from the table.
type statusError struct {
	fault  *fault.Error
	status int
}

func (e *statusError) Error() string { return e.fault.Error() }
func (e *statusError) Unwrap() error { return e.fault }

func unprocessableFault(code fault.Code, message string) error {
	return &statusError{fault: fault.New(code, message), status: fasthttp.StatusUnprocessableEntity}
}
