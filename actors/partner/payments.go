package partner

import (
	"context"
	"errors"

	"purser/persistence/money"
)

// Account is a recipient's bank account. It is personal data: senders neither log nor store it.
type Account struct {
	Reference     string   `json:"reference"` // equal references are one account
	Kind          string   `json:"kind"`      // us or international
	Name          string   `json:"name"`
	RoutingNumber string   `json:"routingNumber,omitempty"`
	AccountNumber string   `json:"accountNumber,omitempty"`
	AccountType   string   `json:"accountType,omitempty"` // checking or savings
	BIC           string   `json:"bic,omitempty"`
	IBAN          string   `json:"iban,omitempty"`
	Currency      string   `json:"currency,omitempty"`
	Address       *Address `json:"address,omitempty"`
}

// Payment is an order to pay a recipient, or a deal of the desk on RailFX.
type Payment struct {
	Reference   string      `json:"reference"` // ours; the bank's reports name it
	Account     string      `json:"account"`   // token of the recipient's account
	Rail        string      `json:"rail"`      // ach, wire, realtime or intl_wire
	SameDay     bool        `json:"sameDay,omitempty"`
	AmountMinor money.Minor `json:"amountCents"` // cents, but on RailFX minor units of SellCurrency
	Description string      `json:"description"`
	UETR        string      `json:"uetr,omitempty"` // wires abroad only
	// BuyCurrency and BuyMinor are the amount that the recipient gets by a quote; "" and 0 without
	// one.
	BuyCurrency string      `json:"buyCurrency,omitempty"`
	BuyMinor    money.Minor `json:"buyMinor,omitempty"`
	// SellCurrency is the currency of AmountMinor on RailFX, which has no account.
	SellCurrency string `json:"sellCurrency,omitempty"`
}

// RailFX is the rail of a deal with the bank's desk: it sells the held amount of a balance in a
// currency and buys another. It is ordered and reported like a payment.
const RailFX = "fx"

// Standing is the status of a payment at the bank.
type Standing string

// Standings. The bank reports a pending payment's outcome later.
const (
	Pending  Standing = "pending"
	Settled  Standing = "settled"
	Failed   Standing = "failed"
	Returned Standing = "returned"
)

// ErrUnknown says that the bank has no order with the reference.
var ErrUnknown = errors.New("the bank does not know the payment")

// ErrSilent says that a call stays without an answer, and that its caller need not wait for the end
// of its time. The sandbox's bank says so: a caller that waited would hold a place that others wait
// for.
var ErrSilent = errors.New("the bank does not answer")

// Payments is the bank's part for outgoing payments.
type Payments interface {
	// Tokenize registers an account and returns the bank's token for it. ErrRefused says that the
	// bank does not pay to it.
	Tokenize(ctx context.Context, a Account) (token string, err error)
	// Pay orders a payment. It is the only method that is not idempotent: call it once per payment.
	// After nil the bank has the order and reports its outcome later. After ErrRefused or ErrFull
	// it does not have the order. After any other error the outcome is unknown.
	Pay(ctx context.Context, p Payment) error
	// Standing asks for a payment's status by our reference. ErrUnknown says that the bank has no
	// such order, ErrFull that the bank cannot be reached now.
	Standing(ctx context.Context, reference string) (Standing, error)
}

// Desk sells foreign currencies for dollars. Its rates are decimals, in units bought for one
// dollar.
type Desk interface {
	// FirmRate is the rate, spread included, at which the desk sells a currency while a quote is
	// locked. ErrRefused says that the desk does not trade the currency.
	FirmRate(ctx context.Context, currency string) (rate string, err error)
	// MidRates are the mid rates by currency, for display only.
	MidRates(ctx context.Context) (map[string]string, error)
	Currencies
}
