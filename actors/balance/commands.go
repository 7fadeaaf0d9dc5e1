package balance

import (
	"encoding/json"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// CreateDeposit announces a bank transfer of AmountUsdCents. Its reply is a Deposit.
type CreateDeposit struct {
	Workspace, ID  string
	Rail           string // ach, fednow or wire
	AmountUsdCents money.Cents
	ExpectedAt     time.Time
}

// SettleDeposit is the bank's report that an announced transfer arrived. Its reply is the Deposit.
// A settled deposit is replied again without effect. An unknown deposit is not_found, and the
// caller stores the report with KeepUnmatched.
type SettleDeposit struct {
	EventID   string // the bank's, claimed once for 90 days
	DepositID string
}

// ReceiveDeposit is the bank's report of an unannounced transfer. Its reply is a Deposit.
type ReceiveDeposit struct {
	Workspace, EventID string
	AmountUsdCents     money.Cents
	Rail               string
	Reference          string // text of the sender
}

// Relay carries log entries of one workspace in the order of their WsSeq, at most MaxRelay of them.
// Its reply is Through. Its errors are plain errors, not faults.
type Relay struct{ Entries []hold.Entry }

// Through answers Relay: the balance includes every entry up to this WsSeq.
type Through struct{ WsSeq uint64 }

// ClaimReport binds a partner's event id to the Target that the report is about. Only the system
// workspace takes it, before the target applies the report, because workspaces do not see each
// other's claims. It has no reply; a repeat is answered with the Target of the first claim.
type ClaimReport struct{ EventID, Partner, Target string }

// KeepUnmatched stores a partner's report that matched nothing; only the system workspace takes it.
// The partner's event id is claimed in the scope unmatchedScope(Partner). Its reply is Unmatched.
type KeepUnmatched struct {
	EventID, Partner, Type string
	Body                   json.RawMessage
}

// CreditCheckout credits the amount of a checkout session, once for ever. It has no reply, and a
// repeat gets the answer of the first.
type CreditCheckout struct {
	Workspace, Session string
	Cents              money.Cents
}

// ReceiveStablecoin is the stablecoin partner's report of a deposit. It has no reply. It is refused
// with duplicate_mismatch when another event id has reported the same amount of the asset by the
// same transaction.
type ReceiveStablecoin struct {
	Workspace, EventID   string // the partner's, claimed once for 90 days
	Asset, Chain, TxHash string
	AmountUsdCents       money.Cents
}

// Recipient is the payee of a payout, from the recipient's own record.
type Recipient struct {
	ID            string
	International bool
	Currency      money.Currency
}

// PayoutLimits bound the payouts ordered in one UTC day, in cents.
type PayoutLimits struct{ KeyCents, WorkspaceCents money.Cents }

// CreatePayout orders a payout. Its reply is a Payout. It is refused with limit_exceeded,
// quote_used, quote_expired or quote_mismatch, and by the runtime with insufficient_funds.
type CreatePayout struct {
	Workspace, ID, Key string // Key is the key_ id of the API key that orders
	Recipient          Recipient
	Rail               string
	SameDay            bool
	AmountCents        money.Cents
	Description        string
	Quote              *Quote // as its record has it; nil without a quote
	UETR               string // of a wire abroad
	ExpectedOn         string // the bank day on which it should arrive
	Limits             PayoutLimits
}

// DirectPayout releases or cancels a held wire. Its reply is the Payout, without effect when the
// step was already made. It is refused with not_found or payout_not_held.
type DirectPayout struct {
	ID      string
	Release bool
}

// SubmitPayout asks for permission to send the order to the bank. Its reply is a Submission.
type SubmitPayout struct{ ID string }

// Submission answers SubmitPayout. Send is true exactly once in the life of a payout: that caller
// sends the order to the bank, once.
type Submission struct {
	Payout Payout
	Send   bool
}

// Answers of the bank or the desk to an order.
const (
	AnswerTaken   = "taken"
	AnswerRefused = "refused"
	AnswerNone    = "none" // no answer, or one that does not say whether the order was taken
)

// LapseDue answers the timer of an order without a report for LapseAfter. The caller asks the bank
// or the desk whether it has the order; an order that the ramp's partner took is not asked for.
// Kind is the kind of the order's record.
type LapseDue struct{ Kind, ID string }

// LapsePayout says that the bank, asked by our reference after LapseAfter, does not have the
// payout. It has no reply. A payout that the bank acknowledged before is not released.
type LapsePayout struct{ ID string }

// LapseConversion says that the desk, asked by our reference after LapseAfter, does not have the
// conversion. It has no reply.
type LapseConversion struct{ ID string }

// AnswerPayout records the bank's answer to an order. It has no reply.
type AnswerPayout struct{ ID, Answer string }

// ReportPayout is the bank's report of a payout's outcome: settled, failed or returned. Its reply
// is ReportedPayout, again and without effect for a repeat. A report that the payout's status does
// not allow is payout_conflict. A return before its settlement is unavailable, so that the bank
// reports it again.
type ReportPayout struct {
	EventID     string // the bank's, claimed once for 90 days
	ID, Outcome string
}

// ReportedPayout answers ReportPayout. Late says that the payout had been released, so that its
// dollars are debited again.
type ReportedPayout struct {
	Payout Payout
	Late   bool
}

// LockQuote locks a rate for an exact amount that a recipient gets. Rate is the desk's rate, in
// units bought for one dollar. Its reply is a Quote.
type LockQuote struct {
	Workspace, ID string
	Recipient     Recipient
	Buy           Amount
	Rate          money.Rate
}

// OrderPhysicalCard orders a physical card. The caller fills all of Order except its status, fee
// and time. Its reply is a PhysicalOrder. It is refused with insufficient_funds; for a fee the
// runtime refuses it.
type OrderPhysicalCard struct {
	Workspace string
	Order     PhysicalOrder
	Text      PhysicalText
}

// RefusePhysicalCard undoes an order whose card cannot be minted. Order is the record of the order.
// It has no reply; a repeat changes nothing.
type RefusePhysicalCard struct{ Order PhysicalOrder }
