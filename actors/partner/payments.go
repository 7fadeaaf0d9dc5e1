package partner

import (
	"context"
	"errors"
)

// Account is where a recipient is paid. It is personal data: it is sent, and never logged or kept on the way.
type Account struct {
	Reference     string   `json:"reference"` // the same reference is the same account
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

// Payment is an order to pay.
type Payment struct {
	Reference   string `json:"reference"` // ours; what the bank reports names it
	Account     string `json:"account"`   // the token of the recipient's account
	Rail        string `json:"rail"`      // ach, wire, realtime or intl_wire
	SameDay     bool   `json:"sameDay,omitempty"`
	AmountCents int64  `json:"amountCents"`
	Description string `json:"description"`
	UETR        string `json:"uetr,omitempty"` // of a wire abroad
	// BuyCurrency and BuyMinor are what the recipient gets by a quote of the desk; "" and 0 without one.
	BuyCurrency string `json:"buyCurrency,omitempty"`
	BuyMinor    int64  `json:"buyMinor,omitempty"`
	// SellCurrency is that of AmountCents on the rail RailFX, in its smallest units; it has no account.
	SellCurrency string `json:"sellCurrency,omitempty"`
}

// RailFX is a deal of the bank's desk: it sells what a balance in a currency has set aside, and buys. It is given and reported as
// payments are.
const RailFX = "fx"

// Standing is what has become of a payment.
type Standing string

// Standings. A pending payment is reported later.
const (
	Pending  Standing = "pending"
	Settled  Standing = "settled"
	Failed   Standing = "failed"
	Returned Standing = "returned"
)

// ErrUnknown says that the bank has no order of that reference.
var ErrUnknown = errors.New("the bank does not know the payment")

// Payments is how the bank pays.
type Payments interface {
	// Tokenize hands an account number over and returns the bank's name for the account; ErrRefused when the bank will not pay to
	// it.
	Tokenize(ctx context.Context, a Account) (token string, err error)
	// Pay orders a payment. It is called once for a payment: it alone is not idempotent. When it returns nil the bank has the
	// order and reports later what becomes of it; after ErrRefused or ErrFull it has not. After any other error nobody knows.
	Pay(ctx context.Context, p Payment) error
	// Standing asks, by our reference, what has become of a payment; ErrUnknown when the bank has no such order, ErrFull when
	// nobody can be asked now.
	Standing(ctx context.Context, reference string) (Standing, error)
}

// Desk sells foreign currencies for dollars. Its rates are decimals, in units bought for a dollar.
type Desk interface {
	// Firm is the rate, spread included, at which the desk sells a currency for as long as a quote is locked; ErrRefused for a
	// currency that it does not deal in.
	Firm(ctx context.Context, currency string) (rate string, err error)
	// Mid are the rates between buying and selling, by currency, for display only.
	Mid(ctx context.Context) (map[string]string, error)
	Currencies
}
