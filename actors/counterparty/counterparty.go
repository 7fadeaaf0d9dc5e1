// Package counterparty is a recipient of payouts: an account with a bank in the US, or one abroad. It is pure; an actor of the
// recipient's id is the only one that folds its events.
//
// Who the recipient is stands in records that are sealed where they are stored; the state and the events hold none of it. Of the
// account number the last four characters are kept. The whole number is in RecordAccount only until the bank that will pay has
// taken it and answered with a token of its own, or has refused it, or the recipient has been removed for a while. The package
// does not speak to the bank.
package counterparty

import (
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Kinds of a recipient.
const (
	US            = "us"
	International = "international"
)

// Limits of a recipient's fields, in characters, and of a workspace. Removed recipients count: the number bounds what is stored.
const (
	MaxName         = 140
	MaxAddressLine  = 100
	MaxCity         = 60
	MaxRegion       = 60
	MaxPostalCode   = 16
	MaxLocalAccount = 34
	MaxUSAccount    = 17
	MinAccount      = 4
	MaxPerWorkspace = 100_000
)

// KeptRemoved is how long the number of a removed recipient is kept whose account the bank has not taken: payouts that were
// ordered before wait for that.
const KeptRemoved = 5 * time.Minute

// timerForget is the key of the timer at its end.
const timerForget = "forget"

// Record kinds that this package writes, both sealed.
const (
	RecordView    = "counterparty_view"    // rcp_ id → View; listed
	RecordAccount = "counterparty_account" // rcp_ id → Account, until the bank has it
)

// Tally is the name of the count of a workspace's recipients: the kind of their records.
const Tally = "counterparty"

// State is a recipient. The zero State is one that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	Currency  money.Currency `json:"currency"`
	Country   string         `json:"country"`
	Token     string         `json:"token,omitempty"` // the bank's name for the account
	Refused   bool           `json:"refused"`         // the bank will not pay to the account
	Removed   bool           `json:"removed"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Account is all that the bank must know of a recipient. Of IBAN and AccountNumber one is given. Type, of an account in the US,
// is checking or savings.
type Account struct {
	Kind          string         `json:"kind"`
	Name          string         `json:"name"`
	RoutingNumber string         `json:"routingNumber,omitempty"`
	AccountNumber string         `json:"accountNumber,omitempty"`
	AccountType   string         `json:"accountType,omitempty"`
	BIC           string         `json:"bic,omitempty"`
	IBAN          string         `json:"iban,omitempty"`
	Currency      money.Currency `json:"currency,omitempty"`
	Address       *Address       `json:"address,omitempty"`
}

// Address is where a recipient abroad lives. Country has two letters.
type Address struct {
	Line1      string `json:"line1"`
	City       string `json:"city"`
	Region     string `json:"region,omitempty"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// View is a recipient as the interface shows it. One of RoutingNumber and BIC is null. Country is the bank's.
type View struct {
	ID            string         `json:"id"`
	Kind          string         `json:"kind"`
	Name          string         `json:"name"`
	AccountLast4  string         `json:"accountLast4"`
	RoutingNumber *string        `json:"routingNumber"`
	BIC           *string        `json:"bic"`
	Currency      money.Currency `json:"currency"`
	Country       string         `json:"country"`
	CreatedAt     decision.Stamp `json:"createdAt"`
}

// Save keeps a recipient. It answers View.
type Save struct {
	ID, Workspace string
	Account       Account
}

// Tokenize notes the bank's token for the account and forgets the account's number. It answers State.
type Tokenize struct{ Token string }

// Refuse notes that the bank will not pay to the account, and forgets the account's number. It answers State.
type Refuse struct{}

// Remove takes a recipient off the list. Payouts that were ordered before are paid. It answers nothing, again when that was done
// before.
type Remove struct{}

// last4 is what is kept of the account's number.
func (a *Account) last4() string {
	number := a.AccountNumber
	if a.IBAN != "" {
		number = a.IBAN
	}
	return number[len(number)-MinAccount:]
}

// country is that of the bank.
func (a *Account) country() string {
	if a.Kind == US {
		return "US"
	}
	return bicCountry(a.BIC)
}

func (a *Account) currency() money.Currency {
	if a.Kind == US {
		return money.USD
	}
	return a.Currency
}

func (a *Account) view(id string, at decision.Stamp) View {
	v := View{ID: id, Kind: a.Kind, Name: a.Name, AccountLast4: a.last4(), Currency: a.currency(), Country: a.country(),
		CreatedAt: at}
	if a.Kind == US {
		v.RoutingNumber = &a.RoutingNumber
	} else {
		v.BIC = &a.BIC
	}
	return v
}
