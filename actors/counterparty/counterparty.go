// Package counterparty is a recipient of payouts: a bank account in the US or abroad. It is pure;
// the actor of the recipient's id alone folds its events.
//
// The recipient's identity is in records that are sealed where they are stored; state and events
// hold none of it. The view keeps the last four characters of the account number. RecordAccount
// holds the whole number until the paying bank has answered with a token or a refusal. After a
// removal it holds the number for RemovedNumberLifetime at most. The package does not call the
// bank.
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

// Limits of a recipient's fields, in characters, and of a workspace. Removed recipients count
// towards MaxPerWorkspace, which bounds the stored ones.
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

// RemovedNumberLifetime is how long the account number of a removed recipient is stored when the
// bank has not answered. Payouts ordered before the removal may need the number.
const RemovedNumberLifetime = 5 * time.Minute

// timerDeleteNumber is the key of the timer that ends RemovedNumberLifetime.
const timerDeleteNumber = "forget"

// Record kinds that this package writes, both sealed.
const (
	RecordView    = "counterparty_view"    // rcp_ id → View; listed
	RecordAccount = "counterparty_account" // rcp_ id → Account, until the bank has answered
)

// Tally names the count of a workspace's recipients, which is the kind of their records.
const Tally = "counterparty"

// State is a recipient. The zero State is a recipient that does not exist.
type State struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Kind      string         `json:"kind"`
	Currency  money.Currency `json:"currency"`
	Country   string         `json:"country"`
	Token     string         `json:"token,omitempty"` // the bank's token for the account
	Refused   bool           `json:"refused"`         // the bank refuses payouts to the account
	Removed   bool           `json:"removed"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Account is the complete bank account of a recipient. Exactly one of IBAN and AccountNumber is
// given. AccountType of a US account is checking or savings.
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

// Address is the address of a recipient abroad. Country is a two-letter code.
type Address struct {
	Line1      string `json:"line1"`
	City       string `json:"city"`
	Region     string `json:"region,omitempty"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// View is a recipient as the interface shows it. Exactly one of RoutingNumber and BIC is null.
// Country is the bank's.
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

// Save stores a recipient. The reply is a View.
type Save struct {
	ID, Workspace string
	Account       Account
}

// Tokenize records the bank's token for the account and deletes the account number. The reply is
// the State.
type Tokenize struct{ Token string }

// Refuse records that the bank refuses payouts to the account, and deletes the account number. The
// reply is the State.
type Refuse struct{}

// Remove takes a recipient off the list. Payouts ordered before are paid. There is no reply, and a
// repeat changes nothing.
type Remove struct{}

// lastFour returns the last four characters of the account number.
func (a *Account) lastFour() string {
	number := a.AccountNumber
	if a.IBAN != "" {
		number = a.IBAN
	}
	return number[len(number)-MinAccount:]
}

// bankCountry returns the country of the bank.
func (a *Account) bankCountry() string {
	if a.Kind == US {
		return "US"
	}
	return bicCountry(a.BIC)
}

func (a *Account) payoutCurrency() money.Currency {
	if a.Kind == US {
		return money.USD
	}
	return a.Currency
}

// viewOf returns the recipient as the interface shows it. saveRecipient stores and replies it.
func (a *Account) viewOf(id string, at decision.Stamp) View {
	v := View{ID: id, Kind: a.Kind, Name: a.Name, AccountLast4: a.lastFour(), Currency: a.payoutCurrency(),
		Country: a.bankCountry(), CreatedAt: at}
	if a.Kind == US {
		v.RoutingNumber = &a.RoutingNumber
	} else {
		v.BIC = &a.BIC
	}
	return v
}
