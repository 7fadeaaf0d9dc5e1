package balance

import (
	"encoding/json"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// CreateDeposit announces a bank transfer of AmountUsdCents. It answers Deposit.
type CreateDeposit struct {
	Workspace, ID  string
	Rail           string // ach, fednow or wire
	AmountUsdCents int64
	ExpectedAt     time.Time
}

// SettleDeposit is the bank's report that an announced transfer arrived. It answers Deposit, again and without effect when it had
// settled before; an unknown one is not_found and the caller keeps the report with KeepUnmatched.
type SettleDeposit struct {
	EventID   string // the bank's, once for 90 days
	DepositID string
}

// ReceiveDeposit is the bank's report of a transfer that nobody announced. It answers Deposit.
type ReceiveDeposit struct {
	Workspace, EventID string
	AmountUsdCents     int64
	Rail               string
	Reference          string // the sender's words
}

// Relay brings entries of one workspace in the order of their WsSeq, at most MaxRelay. It answers Through. Its errors are plain.
type Relay struct{ Entries []hold.Entry }

// Through answers Relay: everything up to this WsSeq is in the balance.
type Through struct{ WsSeq uint64 }

// ClaimReport says what a partner's report is about, once for each of the partner's event ids and in the system workspace only:
// the claims of the workspaces know nothing of each other. It comes before the report is applied. It answers nothing; a repeat is
// answered with the first Target.
type ClaimReport struct{ EventID, Partner, Target string }

// KeepUnmatched keeps a partner's report that matched nothing. For the system workspace only. The partner's event id is claimed
// in the scope of its name ("bank" for the bank). It answers Unmatched.
type KeepUnmatched struct {
	EventID, Partner, Type string
	Body                   json.RawMessage
}

// CreditCheckout credits what a checkout session asked for, once for ever. It answers nothing; a repeat is answered as one that
// was made.
type CreditCheckout struct {
	Workspace, Session string
	Cents              int64
}

// ReceiveStablecoin is the stablecoin partner's report of a deposit. It answers nothing.
type ReceiveStablecoin struct {
	Workspace, EventID   string // the partner's, once for 90 days
	Asset, Chain, TxHash string
	AmountUsdCents       int64
}

// Recipient is who is paid, as the recipient's own record has it.
type Recipient struct {
	ID            string
	International bool
	Currency      money.Currency
}

// PayoutLimits bound what may be ordered in a day of UTC, in cents.
type PayoutLimits struct{ KeyCents, WorkspaceCents int64 }

// CreatePayout orders a payout. It answers Payout. It is refused with limit_exceeded, quote_used, quote_expired or
// quote_mismatch, and by the runtime with insufficient_funds.
type CreatePayout struct {
	Workspace, ID, Key string // Key is the key_ id of who orders
	Recipient          Recipient
	Rail               string
	SameDay            bool
	AmountCents        int64
	Description        string
	Quote              *Quote // as its record has it; nil when none is named
	UETR               string // for a wire abroad
	ExpectedOn         string // the bank day on which it should arrive
	Limits             PayoutLimits
}

// DirectPayout releases a held wire, or cancels it. It answers Payout, without effect when that has
// been done before; not_found or payout_not_held when it cannot be.
type DirectPayout struct {
	ID      string
	Release bool
}

// SubmitPayout comes from who is about to tell the bank. It answers Submission.
type SubmitPayout struct{ ID string }

// Submission answers SubmitPayout. Send is true for one asker in the life of a payout: who got it may tell the bank, once.
type Submission struct {
	Payout Payout
	Send   bool
}

// Answers of the bank to an order.
const (
	AnswerTaken   = "taken"
	AnswerRefused = "refused"
	AnswerNone    = "none" // none came, or none that says whether the order was taken
)

// LapseDue answers the timer of an order that has had no report for LapseAfter: the bank is to be
// asked whether it has the order, unless the ramp's partner took it. Kind is that of the order's
// record.
type LapseDue struct{ Kind, ID string }

// LapsePayout says that the bank, asked by our reference after LapseAfter, does not have the
// payout. It answers nothing. A payout that the bank acknowledged before is not released.
type LapsePayout struct{ ID string }

// LapseConversion says the same of a conversion.
type LapseConversion struct{ ID string }

// AnswerPayout notes the bank's answer. It answers nothing.
type AnswerPayout struct{ ID, Answer string }

// ReportPayout is the bank's report of what became of a payout: settled, failed or returned. It
// answers ReportedPayout, again and without effect for what was reported before; what the payout's status does not allow is
// payout_conflict. A return that comes before its settlement is unavailable: it is to come again.
type ReportPayout struct {
	EventID     string // the bank's, once for 90 days
	ID, Outcome string
}

// ReportedPayout answers ReportPayout. Late says that the payout had been released: its dollars are debited again.
type ReportedPayout struct {
	Payout Payout
	Late   bool
}

// LockQuote locks a rate for an exact amount that a recipient gets. Rate is the desk's, in units bought for a dollar. It answers
// Quote.
type LockQuote struct {
	Workspace, ID string
	Recipient     Recipient
	Buy           Amount
	Rate          money.Rate
}

// OrderPhysicalCard orders a physical card. The caller fills Order but for its status, fee and time. It answers PhysicalOrder. It
// is refused with insufficient_funds, for a fee by the runtime.
type OrderPhysicalCard struct {
	Workspace string
	Order     PhysicalOrder
	Text      PhysicalText
}

// RefusePhysicalCard undoes an order whose card can never be minted. Order is its record. It answers nothing; a repeat changes
// nothing.
type RefusePhysicalCard struct{ Order PhysicalOrder }
