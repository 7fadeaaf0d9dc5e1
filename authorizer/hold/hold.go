// Package hold is the life of a card authorization as pure functions. Decide makes the one Entry of
// a Message from a View, which is the card, the funds and the authorization at that moment. Apply
// folds the entry into them. The package has no clock, lock or store; the authorizer brings those.
//
// An Entry is a row of the decision log. It carries the changes of each balance and the
// authorization's state after it. A reader of the log (the balance actor, the audit, a rebuild)
// therefore needs no other source.
//
// # Files
//
//	hold.go                             the types of messages, authorizations and entries
//	decide.go, judge.go, apply.go       the decision of a message, and its effect
//	rule.go                             the authorizer's copy of a card: its codec, and Stricter
//	reason.go                           the reasons of decisions, their names and ISO 8583 codes
//	merchant.go                         the entries of an allowlist of merchants
//	answer.go, fingerprint.go           the answer to a message, and the mark of a repeat
//	codec.go                            the binary forms of the store
//	journal.go, appendjson.go, text.go  the JSON of the journal, and the names in it
package hold

import (
	"time"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// Kind is the type of a network message, or of an event of time.
type Kind uint8

// Kinds of messages and entries.
const (
	Authorization Kind = 1 + iota
	Incremental
	Reversal
	Clearing
	Refund
	Expiry        // the hold expired
	TimeoutReturn // an approval is undone that was answered "timeout" because its sync was late
)

// Decision is the outcome of a message.
type Decision uint8

// Decisions. Approved and Declined answer authorizations, Posted and Unmatched answer clearings and
// refunds, and Applied answers the rest.
const (
	Approved Decision = 1 + iota
	Declined
	Posted
	Unmatched
	Applied
)

// Status is the state of an authorization.
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

// CardState is the state of a card for the network.
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
)

// Merchant is the merchant of a message.
type Merchant struct {
	ID, Name, Country string
	MCC               uint16
}

// Message is one message of the card network, parsed and checked for form. Its strings may alias
// the request.
type Message struct {
	Kind      Kind
	ID        string // the network's id, 1 to 64 characters
	Token     ident.Token
	Amount    money.Cents
	WholeHold bool // a reversal without an amount
	Currency  [3]byte
	Merchant  Merchant
	// AuthorizationID or OriginalID (the network id of the first message) names the message's
	// authorization.
	AuthorizationID ident.UUID
	OriginalID      string
	PartialApproval bool
	Final           bool
	HoldExpiresAt   int64 // Unix milliseconds, 0 for the default
	Fingerprint     [16]byte
	// Waited is the time between the message's arrival in its socket and its reading. Decide
	// ignores it.
	Waited time.Duration
	// Invalid is the refusal of an authorization with a bad field, which it names.
	Invalid string
}

// Checked holds the compared amounts of a decision.
type Checked struct {
	LimitCents money.Cents `json:"limitCents"`
	SpentCents money.Cents `json:"spentCents"`
	AskedCents money.Cents `json:"askedCents"`
}

// Hold is the current state of an authorization. MonthCents is the part of HeldCents that counts in
// Month's spend.
type Hold struct {
	ID         ident.UUID // auth_
	Card       ident.UUID
	Workspace  ident.UUID
	NetworkID  string
	At         int64 // Unix milliseconds
	ExpiresAt  int64 // 0 when nothing is held
	Asked      money.Cents
	Approved   money.Cents // total approved; less than Asked is a partial approval
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

// Spend is a card's counter: the cents authorized and cleared in Month.
type Spend struct {
	Month money.Month
	Cents money.Cents
}

// View is the input of Decide beside the message. Rule is nil for an unknown card, Hold for an
// unknown authorization.
type View struct {
	Now        int64 // Unix milliseconds
	MonthStays bool  // Now is suspect: a counter stays in its month
	Rule       *Rule
	Spend      Spend
	Spendable  money.Cents // ledgerCents + cardCents − reservedCents
	Hold       *Hold
	Tombstoned bool // a reversal arrived before this authorization
	// OfIncrement says that the message names an increment of Hold. Left is its approved amount
	// that no reversal has undone.
	OfIncrement bool
	Left        money.Cents
	NewID       ident.UUID
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
	Amount      money.Cents // requested
	Approved    money.Cents // the approved part of this message's Amount
	Currency    [3]byte
	Merchant    Merchant
	Final       bool
	Tombstone   bool // this reversal waits for an authorization with network id OriginalID

	// Changes of each balance.
	CardDelta  money.Cents // the workspace's cardCents
	HoldDelta  money.Cents // the hold
	SpendDelta money.Cents // the card's spend of Spend.Month
	Posted     money.Cents // amount to book: positive of a clearing, negative of a refund
	Spend      Spend       // after this entry
	After      Hold        // after this entry; a zero ID: the entry concerns no authorization
	HasChecked bool
	Checked    Checked
}
