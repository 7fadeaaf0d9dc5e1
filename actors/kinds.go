package actors

import (
	"purser/authorizer"
	"purser/persistence"
)

// Names of the product's kinds of actors. They are stored with events, records and timers.
const (
	KindUser         = "user"
	KindAddress      = "address"
	KindWorkspace    = "workspace"
	KindCardholder   = "cardholder"
	KindCounterparty = "counterparty"
	KindAgent        = "agent"
	KindCard         = "card"
	KindBalance      = "balance"
	KindCheckout     = "checkout"
	KindRamp         = "ramp"
	KindDerivation   = "derivation"
	KindWebhook      = "webhook"
)

// Kind describes the actors of one domain package to the runtime.
type Kind struct {
	Name string
	New  func() State
	// Rules reports that the kind's answers show rules of the authorizer. They wait until the
	// authorizer has applied the rules.
	Rules bool
	// AsksAgain reports that a timer, by its key, only calls another party again and ends no
	// promise. nil: no timer does.
	AsksAgain func(key string) bool
	// Personal names the kinds of its records that are sealed. See package seal.
	Personal []string
	// Follow adds to f the rules and credits of an event that the authorizer must apply. nil: the
	// kind's events have none.
	Follow func(e *persistence.Event, f *authorizer.Follow) error
}

func kindsByName(table []Kind) map[string]*Kind {
	kinds := make(map[string]*Kind, len(table))
	for i := range table {
		kinds[table[i].Name] = &table[i]
	}
	return kinds
}
