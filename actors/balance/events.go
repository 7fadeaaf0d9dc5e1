package balance

import (
	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence/money"
)

// Posting moves Amount into an account, or out of it when negative. The postings of one transfer sum
// to zero in each currency.
type Posting struct {
	Transfer string         `json:"transfer"` // tg_ id
	Account  string         `json:"account"`
	Currency money.Currency `json:"currency,omitempty"` // "" for dollars
	Amount   money.Minor    `json:"cents"`              // in minor units of the currency
}

// currencyOrUSD is the currency of the posting's amount.
func (p Posting) currencyOrUSD() money.Currency {
	if p.Currency == "" {
		return money.USD
	}
	return p.Currency
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
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	Postings       []Posting      `json:"postings"`
	At             decision.Stamp `json:"at"`
}

// DepositReceived says that the bank reported an unannounced transfer. Only the record of the
// ledger line has the sender's reference.
type DepositReceived struct {
	Workspace string `json:"workspace"`
	Deposit   `json:"deposit"`
	EventID   string         `json:"eventId"` // the bank's
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// CheckoutCredited says that a checkout session was credited to the stablecoin balance.
type CheckoutCredited struct {
	Workspace      string         `json:"workspace"`
	Session        string         `json:"session"`
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	Postings       []Posting      `json:"postings"`
	At             decision.Stamp `json:"at"`
}

// StablecoinReceived says that the stablecoin partner reported a deposit.
type StablecoinReceived struct {
	Workspace      string         `json:"workspace"`
	ID             string         `json:"id"`
	EventID        string         `json:"eventId"` // the partner's
	Asset          string         `json:"asset"`
	Chain          string         `json:"chain"`
	TxHash         string         `json:"txHash"`
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	Postings       []Posting      `json:"postings"`
	At             decision.Stamp `json:"at"`
}

// Relayed has a run of the card authorizer's log entries in the workspace's order, with the
// postings of its clearings and refunds.
type Relayed struct {
	Workspace string         `json:"workspace"`
	Entries   []hold.Entry   `json:"entries"`
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// UnmatchedKept says that a partner's report matched nothing. Only the record has its body.
type UnmatchedKept struct {
	ID      string         `json:"id"`
	Partner string         `json:"partner"`
	EventID string         `json:"eventId"`
	Type    string         `json:"type"`
	At      decision.Stamp `json:"at"`
}

// PayoutCreated says that a payout was ordered and its dollars were reserved.
type PayoutCreated struct {
	Workspace string `json:"workspace"`
	Payout    Payout `json:"payout"`
}

// PayoutMoved says that a payout changed its status. Its postings are the dollars that left the
// workspace or came back.
type PayoutMoved struct {
	Workspace   string         `json:"workspace"`
	Payout      string         `json:"payout"`
	From        string         `json:"from"`
	To          string         `json:"to"`
	AmountCents money.Cents    `json:"amountCents"`
	EventID     string         `json:"eventId,omitempty"` // the bank's, when it reported the move
	Postings    []Posting      `json:"postings"`
	At          decision.Stamp `json:"at"`
}

// FXQuoteLocked says that a firm exchange rate was given.
type FXQuoteLocked struct {
	Workspace string `json:"workspace"`
	Quote     Quote  `json:"quote"`
}

// PhysicalCardOrdered says that a physical card was ordered. Its postings are the fee, if any.
type PhysicalCardOrdered struct {
	Workspace string        `json:"workspace"`
	Order     PhysicalOrder `json:"order"`
	Postings  []Posting     `json:"postings"`
}

// PhysicalCardRefused says that the card of an order cannot be minted and its fee was refunded.
type PhysicalCardRefused struct {
	Workspace string         `json:"workspace"`
	Order     string         `json:"order"`
	FeeCents  money.Cents    `json:"feeCents"`
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (PhysicalCardOrdered) EventType() string { return "balance.physical_card_ordered.v1" }

// EventType is the name the event is stored under.
func (PhysicalCardRefused) EventType() string { return "balance.physical_card_refused.v1" }

// EventType is the name the event is stored under.
func (PayoutCreated) EventType() string { return "balance.payout_created.v1" }

// EventType is the name the event is stored under.
func (PayoutMoved) EventType() string { return "balance.payout_moved.v1" }

// EventType is the name the event is stored under.
func (FXQuoteLocked) EventType() string { return "balance.fx_quote_locked.v1" }

// EventType is the name the event is stored under.
func (DepositCreated) EventType() string { return "balance.deposit_created.v1" }

// EventType is the name the event is stored under.
func (DepositSettled) EventType() string { return "balance.deposit_settled.v1" }

// EventType is the name the event is stored under.
func (DepositReceived) EventType() string { return "balance.deposit_received.v1" }

// EventType is the name the event is stored under.
func (CheckoutCredited) EventType() string { return "balance.checkout_credited.v1" }

// EventType is the name the event is stored under.
func (StablecoinReceived) EventType() string { return "balance.stablecoin_received.v1" }

// EventType is the name the event is stored under.
func (Relayed) EventType() string { return "balance.relayed.v1" }

// EventType is the name the event is stored under.
func (UnmatchedKept) EventType() string { return "balance.unmatched_kept.v1" }
