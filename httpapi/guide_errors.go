package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purser/actors/fault"
)

// meanings says of each code of statuses what happened and what a caller can do. A test holds the
// two tables against each other.
var meanings = map[fault.Code]string{
	fault.InvalidBody:            "The body is not as described; `message` names the field. Correct the request.",
	fault.InvalidQuery:           "A query parameter is not as described; `message` names it. Correct the request.",
	fault.WorkspaceRequired:      "The session belongs to several workspaces. Name one in `X-Workspace-Id`.",
	fault.IdempotencyKeyRequired: "The route takes effect once for each key. Send an `Idempotency-Key`.",
	fault.InvalidIdempotencyKey:  "The `Idempotency-Key` is not a UUID. Send one of 36 characters.",
	invalidRequest:               "The request is not valid HTTP; `message` says why. Correct the client.",
	fault.Unauthorized:           "The key or session is missing, revoked, expired or not valid. Send a valid one.",
	fault.InvalidCredentials:     "The email or the password is wrong; on a change, the current one; on a reset, the token.",
	fault.SignatureInvalid:       "The signature is not valid, or that of a report is over 5 minutes old. Sign again.",
	fault.IntentExpired:          "The intent's `exp` has passed. Sign a new one.",
	fault.IntentIatFuture:        "The intent's `iat` is over 60 seconds in the future. Check the agent's clock.",
	fault.SandboxOnly:            "The route exists in the sandbox only, and the workspace is live.",
	fault.KYBRequired:            "The live workspace is not verified; `kybStatus` says how far the verification is.",
	fault.SessionRequired:        "The route takes a dashboard session, not a key.",
	fault.RoleRequired:           "The person's role in the workspace does not allow this.",
	fault.OriginRefused:          "A browser sent the session from a page of another origin.",
	fault.SignupClosed:           "The operator has closed sign-up.",
	fault.InvalidCurrency:        "The currency is not one that the route takes.",
	fault.InvalidAmount:          "The amount is not a number, has too many decimals, or is out of bounds.",
	fault.SameCurrency:           "Both sides have the same currency.",
	fault.CurrencyRequired:       "Name the currency.",
	fault.NotFound:               "The workspace has no such record, or the path does not exist.",
	fault.CurrencyNotHeld:        "The workspace has no balance in this currency. Open one first.",
	fault.QuoteNotFound:          "The workspace has no such quote.",
	fault.MethodNotAllowed:       "The path has other methods; the header `Allow` lists them.",
	notAcceptable:                "The answer of `/api/mcp` is JSON only; `Accept` excludes it.",
	requestTimedOut:              "The request did not arrive in time. Send it again.",
	fault.CardTerminated:         "The card has ended for good and cannot change.",
	fault.PairNotSupported:       "The link cannot be paid with this asset on this network.",
	fault.LinkExpired:            "The link has expired, or its payment has failed. Make a new one.",
	fault.PaymentSeen:            "A payment of the link was seen, so it can no longer change.",
	fault.LinkEnded:              "The link has expired or was cancelled. A payment needs a new link.",
	fault.Gone:                   "The route is retired; `use` names the one to call.",
	fault.AssetChainNotSelected:  "Pick an asset and a network for the link first.",
	fault.PayoutNotHeld:          "The payout is not held, so it can be neither released nor cancelled.",
	fault.CurrencyAccountExists:  "The workspace has a balance in this currency.",
	fault.AccountNotReady:        "The balance is still opening. Try again later.",
	fault.OnboardingRequired:     "Set the workspace up first: `POST /api/mca/onboarding`.",
	fault.AgentFrozen:            "The agent is frozen.",
	fault.AgentTerminated:        "The agent has ended for good.",
	fault.SecondFactorEnabled:    "The account has a second factor. Disable it before another.",
	fault.EmailTaken:             "A user has this email. Sign in.",
	fault.LastOwner:              "A workspace keeps at least one owner.",
	fault.AlreadyMember:          "A member of the workspace has this email. Change a role by the member's user id.",
	fault.DuplicateMismatch:      "The network `id` was used for another message. Send a new `id`.",
	cardholderRequired:           "The card needs a cardholder that is active with the issuer. Save one first.",
	commandRunning:               "On the admin port: another such command runs. Try again later.",
	fault.BodyTooLarge:           "The body is longer than the route takes; see [limits](/docs/limits).",
	fault.UnsupportedMediaType:   "Send `application/json` without a content encoding.",
	hostRefused:                  "On the admin port: the `Host` is none of its names.",
	fault.CapabilityUnavailable:  "The deployment or the workspace's ramp does not offer this; `message` says which.",
	fault.CurrencyUnavailable:    "The partner opens no balance in this currency, or does not convert it.",
	fault.CurrencyRestricted:     "The partner restricts this currency.",
	fault.CurrencyNotEligible:    "The workspace is not eligible for this currency.",
	fault.AccountSuspended:       "The partner has suspended the balance.",
	fault.BalancePaused:          "The partner checks the balance or has paused its conversions. Try again later.",
	fault.RateUnavailable:        "There is no rate for this pair now. Try again later.",
	fault.TravelRule:             "The withdrawal is of 3,000 dollars or more, which needs data that is not offered.",
	fault.InsufficientFunds:      "The balance does not cover the amount, or is below the minimum of the order.",
	fault.LimitExceeded:          "A limit is reached, which `message` names; see [limits](/docs/limits).",
	fault.QuoteExpired:           "The quote's rate is no longer firm. Ask for a new quote.",
	fault.QuoteUsed:              "A quote is for one order. Ask for a new quote.",
	fault.QuoteMismatch:          "The order differs from the quote; `message` names the field. Ask for a new one.",
	fault.ProtocolNotRegistered:  "The agent was not registered with the intent's protocol.",
	fault.IntentReplay:           "An intent with this id was accepted before. Sign one with a new `intent_id`.",
	fault.IdempotencyKeyMismatch: "The `Idempotency-Key` was used with another request. Send a new key.",
	fault.RateLimited:            "Too many requests or bytes; `Retry-After` has the seconds to wait.",
	fault.HeaderTooLarge:         "The request line and the headers are over 16 KiB.",
	fault.OutcomeUnknown:         "The outcome is not known. Send the same request with the same `Idempotency-Key`.",
	fault.Internal:               "A fault of the server. Send it again with the same key, or quote `X-Request-Id`.",
	fault.Unavailable:            "Nothing changed. Send the request again after `Retry-After`.",
	fault.RateLimitUnavailable:   "The limiter cannot count another caller now. Try again later.",
	fault.QuoteTooShort:          "The partner's rate ends too soon to be used. Ask again.",
}

// errorTable returns the table of codes as Markdown, sorted by status and code.
func errorTable() string {
	var table strings.Builder
	table.WriteString("\n| Status | `error` | What it means, and what to do |\n|---|---|---|\n")
	codes := slices.SortedFunc(maps.Keys(statuses), func(a, b fault.Code) int {
		return cmp.Or(cmp.Compare(statuses[a], statuses[b]), cmp.Compare(a, b))
	})
	for _, code := range codes {
		fmt.Fprintf(&table, "| %d | `%s` | %s |\n", statuses[code], code, meanings[code])
	}
	return table.String()
}
