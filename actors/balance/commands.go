package balance

import (
	"encoding/json"
	"time"

	"purser/authorizer/hold"
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

// ClaimReport says what a partner's report is about, once for each of the partner's event ids and in the system workspace only: the
// claims of the workspaces know nothing of each other. It comes before the report is applied. It answers nothing; a repeat is
// answered with the first Target.
type ClaimReport struct{ EventID, Partner, Target string }

// KeepUnmatched keeps a partner's report that matched nothing. For the system workspace only. The partner's event id is claimed in
// the scope of its name ("bank" for the bank). It answers Unmatched.
type KeepUnmatched struct {
	EventID, Partner, Type string
	Body                   json.RawMessage
}
