// Package hold is the life of a card authorization, pure: what the network asks (Message), what is known of the card, the funds
// and the authorization at that moment (View), and the one Entry that follows and says everything that changes. Decide makes the
// entry; Apply folds it. There is no clock, no lock and no store here; the authorizer brings those.
//
// An Entry is a row of the decision log. It carries the amounts by which each balance moves and the state of the authorization
// after it, so that whoever reads the log (the balance actor, the audit, a rebuild) needs no other source.
package hold

import (
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// Kind is what the network sent, or what time did.
type Kind uint8

// Kinds of messages and entries.
const (
	Authorization Kind = 1 + iota
	Incremental
	Reversal
	Clearing
	Refund
	Expiry        // the hold ran out
	TimeoutReturn // an approval that was answered "timeout" for want of a sync is taken back
)

// Decision is the outcome of a message.
type Decision uint8

// Decisions. Approved and Declined answer authorizations; Posted and Unmatched answer clearings and refunds; Applied answers
// the rest.
const (
	Approved Decision = 1 + iota
	Declined
	Posted
	Unmatched
	Applied
)

// Reason says why, in the order in which it is checked: the first that holds is the answer. Those from ReasonDuplicateMismatch
// on stand beside that order; judge says where Decide checks its own two of them.
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
	ReasonForcedPost // a clearing without an authorization made this one
	reasons
)

// Status is where an authorization stands.
type Status uint8

// Statuses of an authorization.
const (
	StatusNone Status = iota
	StatusHeld
	StatusPartiallyCleared
	StatusCleared
	StatusReversed
	StatusExpired
	StatusDeclined
)

// CardState is the state of a card as the network sees it.
type CardState uint8

// Card states.
const (
	CardActive CardState = 1 + iota
	CardFrozen
	CardTerminated
)

// Limits of the network interface and of a hold.
const (
	MaxNetworkID    = 64 // characters
	MaxMerchantName = 200
	MaxMerchantID   = 80
	DefaultHoldLife = 7 * 24 * time.Hour
	MaxHoldLife     = 31 * 24 * time.Hour
	MaxAllowlist    = 1000
)

// Rule is what the authorizer knows of a card. Version is the card stream's; an older one never replaces a newer.
type Rule struct {
	Token       ident.Token `json:"-"`
	State       CardState   `json:"-"`
	Card        ident.UUID  `json:"-"`
	Workspace   ident.UUID  `json:"-"`
	Version     uint64      `json:"-"`
	PerTxnCents money.Cents `json:"-"`
	MonthCents  money.Cents `json:"-"`
	// MCCs nil allows every category, empty none. Merchants the same; see MatchMerchant for their form.
	MCCs      []uint16 `json:"-"`
	Merchants []string `json:"-"`
}

// Merchant is who asks.
type Merchant struct {
	ID, Name, Country string
	MCC               uint16
}

// Message is one message of the card network, decoded and checked for shape. Its strings may alias the request.
type Message struct {
	Kind      Kind
	ID        string // the network's id, 1 to 64 characters
	Token     ident.Token
	Amount    money.Cents
	WholeHold bool // a reversal that names no amount
	Currency  [3]byte
	Merchant  Merchant
	// AuthorizationID or OriginalID (the network id of the first message) names the authorization it belongs to.
	AuthorizationID ident.UUID
	OriginalID      string
	PartialApproval bool
	Final           bool
	HoldExpiresAt   int64 // Unix milliseconds, 0 for the default
	Fingerprint     [16]byte
	// Waited is how long the message has lain in its socket before it was read. No decision looks
	// at it.
	Waited time.Duration
	// Invalid is the refusal of an authorization whose other fields are bad; the message names the field.
	Invalid string
}

// Checked is what a decision compared.
type Checked struct {
	LimitCents money.Cents `json:"limitCents"`
	SpentCents money.Cents `json:"spentCents"`
	AskedCents money.Cents `json:"askedCents"`
}

// Hold is an authorization as it stands. MonthCents is the part of HeldCents that is counted in Month's spend.
type Hold struct {
	ID         ident.UUID // auth_
	Card       ident.UUID
	Workspace  ident.UUID
	NetworkID  string
	At         int64 // Unix milliseconds
	ExpiresAt  int64 // 0 when nothing is held
	Asked      money.Cents
	Approved   money.Cents // what was ever approved; less than Asked is a partial approval
	Held       money.Cents
	Cleared    money.Cents
	Refunded   money.Cents
	Month      money.Month
	MonthCents money.Cents
	Decision   Decision
	Reason     Reason
	Status     Status
	HasChecked bool
	Checked    Checked
	Merchant   Merchant
}

// Spend is a card's counter: what is authorized and cleared in Month.
type Spend struct {
	Month money.Month
	Cents money.Cents
}

// View is what Decide may look at. Rule is nil for an unknown card, Hold for an unknown authorization.
type View struct {
	Now        int64 // Unix milliseconds
	MonthStays bool  // Now may be wrong: a counter stays in its month
	Rule       *Rule
	Spend      Spend
	Spendable  money.Cents // ledgerCents + cardCents − reservedCents
	Hold       *Hold
	Tombstoned bool // a reversal came before this authorization
	NewID      ident.UUID
}

// Entry is one row of the decision log.
type Entry struct {
	Seq         uint64 // gapless in the shard
	WsSeq       uint64 // gapless in the workspace
	At          int64
	Kind        Kind
	Decision    Decision
	Reason      Reason
	Shard       ident.Shard
	Workspace   ident.UUID // ident.System when the card is unknown
	Card        ident.UUID // zero when unknown
	NetworkID   string
	OriginalID  string
	Fingerprint [16]byte
	Amount      money.Cents // as asked
	Approved    money.Cents // what this message was approved for
	Currency    [3]byte
	Merchant    Merchant
	Final       bool
	Tombstone   bool // this reversal waits for an authorization with network id OriginalID

	// By how much each balance moves.
	CardDelta  money.Cents // the workspace's cardCents
	HoldDelta  money.Cents // the hold
	SpendDelta money.Cents // the card's spend of Spend.Month
	Posted     money.Cents // a clearing's (positive) or refund's (negative) amount, to be booked
	Spend      Spend       // after
	After      Hold        // after; ID zero when the entry concerns no authorization
	HasChecked bool
	Checked    Checked
}
