package balance

import (
	"fmt"

	"purser/actors/decision"
	"purser/authorizer/hold"
)

// Posting moves cents into (or, negative, out of) an account. The postings of one transfer sum to zero.
type Posting struct {
	Transfer string `json:"transfer"` // tg_ id
	Account  string `json:"account"`
	Cents    int64  `json:"cents"`
}

// DepositCreated says that a bank transfer is on its way.
type DepositCreated struct {
	Workspace string `json:"workspace"`
	Deposit   `json:"deposit"`
	At        decision.Stamp `json:"at"`
}

// DepositSettled says that the bank reported an expected transfer settled.
type DepositSettled struct {
	Workspace      string         `json:"workspace"`
	Deposit        string         `json:"deposit"`
	EventID        string         `json:"eventId"` // the bank's
	AmountUsdCents int64          `json:"amountUsdCents"`
	Postings       []Posting      `json:"postings"`
	At             decision.Stamp `json:"at"`
}

// DepositReceived says that the bank reported a transfer nobody announced. The sender's reference is in the record of the
// ledger entry only.
type DepositReceived struct {
	Workspace string `json:"workspace"`
	Deposit   `json:"deposit"`
	EventID   string         `json:"eventId"` // the bank's
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// Relayed says what the card authorizer decided, whole and in the workspace's order, with the postings of what was cleared
// and refunded.
type Relayed struct {
	Workspace string         `json:"workspace"`
	Entries   []hold.Entry   `json:"entries"`
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// UnmatchedKept says that a partner's report matched nothing; what it said is in the record only.
type UnmatchedKept struct {
	ID      string         `json:"id"`
	Partner string         `json:"partner"`
	EventID string         `json:"eventId"`
	Type    string         `json:"type"`
	At      decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (DepositCreated) EventType() string { return "balance.deposit_created.v1" }

// EventType is the name the event is stored under.
func (DepositSettled) EventType() string { return "balance.deposit_settled.v1" }

// EventType is the name the event is stored under.
func (DepositReceived) EventType() string { return "balance.deposit_received.v1" }

// EventType is the name the event is stored under.
func (Relayed) EventType() string { return "balance.relayed.v1" }

// EventType is the name the event is stored under.
func (UnmatchedKept) EventType() string { return "balance.unmatched_kept.v1" }

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	switch eventType {
	case DepositCreated{}.EventType():
		return decision.Decode[DepositCreated](payload)
	case DepositSettled{}.EventType():
		return decision.Decode[DepositSettled](payload)
	case DepositReceived{}.EventType():
		return decision.Decode[DepositReceived](payload)
	case Relayed{}.EventType():
		return decision.Decode[Relayed](payload)
	case UnmatchedKept{}.EventType():
		return decision.Decode[UnmatchedKept](payload)
	}
	return nil, fmt.Errorf("balance: %w %q", decision.ErrUnknownEvent, eventType)
}
