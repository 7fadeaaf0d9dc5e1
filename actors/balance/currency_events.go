package balance

import (
	"purser/actors/decision"
	"purser/persistence/money"
)

// Record kinds of balances in currencies.
const (
	RecordPayin           = "payin"             // dep_ id → Payin
	RecordPayinText       = "payin_text"        // dep_ id → PayinText, sealed
	RecordConversionQuote = "conversion_quote"  // mcq_ id → ConversionQuote
	RecordConversion      = "conversion"        // cnv_ id → Conversion
	RecordActivity        = "currency_activity" // le_ id → Activity; listed under its currency
)

// CurrenciesOnboarded says that the workspace was set up for conversions.
type CurrenciesOnboarded struct {
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// CurrencyOpened says that a balance in a currency was ordered; it is not active yet.
type CurrencyOpened struct {
	Workspace string         `json:"workspace"`
	Currency  money.Currency `json:"currency"`
	At        decision.Stamp `json:"at"`
}

// CurrencyChanged says which status and scope a balance now has.
type CurrencyChanged struct {
	Workspace string         `json:"workspace"`
	Currency  money.Currency `json:"currency"`
	Status    string         `json:"status"`
	Scope     string         `json:"scope"`
	EventID   string         `json:"eventId,omitempty"` // the partner's, when it reported the change
	At        decision.Stamp `json:"at"`
}

// PayinAnnounced says that money is on its way into a balance.
type PayinAnnounced struct {
	Workspace string         `json:"workspace"`
	Payin     Payin          `json:"payin"`
	At        decision.Stamp `json:"at"`
}

// PayinArrived says that an announced pay-in was credited.
type PayinArrived struct {
	Workspace string         `json:"workspace"`
	Payin     string         `json:"payin"`
	Amount    Amount         `json:"amount"`
	Postings  []Posting      `json:"postings"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (CurrenciesOnboarded) EventType() string { return "balance.currencies_onboarded.v1" }

// EventType is the name the event is stored under.
func (CurrencyOpened) EventType() string { return "balance.currency_opened.v1" }

// EventType is the name the event is stored under.
func (CurrencyChanged) EventType() string { return "balance.currency_changed.v1" }

// EventType is the name the event is stored under.
func (PayinAnnounced) EventType() string { return "balance.payin_announced.v1" }

// EventType is the name the event is stored under.
func (PayinArrived) EventType() string { return "balance.payin_arrived.v1" }

// ConversionQuoted says that a firm rate between two currencies was given.
type ConversionQuoted struct {
	Workspace string          `json:"workspace"`
	Quote     ConversionQuote `json:"quote"`
}

// ConversionCreated says that a quote was used and the sold amount is held.
type ConversionCreated struct {
	Workspace  string     `json:"workspace"`
	Conversion Conversion `json:"conversion"`
	Postings   []Posting  `json:"postings"`
}

// ConversionMoved says that a conversion changed its status. Its postings are the amounts sold and
// bought, or freed.
type ConversionMoved struct {
	Workspace  string         `json:"workspace"`
	Conversion string         `json:"conversion"`
	From       string         `json:"from"`
	To         string         `json:"to"`
	Sell       Amount         `json:"sell"`
	Buy        Amount         `json:"buy"`
	EventID    string         `json:"eventId,omitempty"` // the desk's, when it reported the move
	Postings   []Posting      `json:"postings"`
	At         decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (ConversionQuoted) EventType() string { return "balance.conversion_quoted.v1" }

// EventType is the name the event is stored under.
func (ConversionCreated) EventType() string { return "balance.conversion_created.v1" }

// EventType is the name the event is stored under.
func (ConversionMoved) EventType() string { return "balance.conversion_moved.v1" }
