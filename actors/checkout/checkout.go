// Package checkout is one checkout session: a payment link with which a customer pays a merchant in
// crypto. It holds the amount asked, the accepted coins and networks, the payments observed on
// chains, and the status that follows. It is pure; the actor of the session's id alone folds its
// events. See transitions.go for the life of a session, pairs.go for coins and networks,
// payments.go for received money.
//
// The amount received, the amount due and the status are three facts. A late payment is received,
// does not complete a link, and leaves the amount due as it is. An overpayment makes the amount due
// negative, and the merchant returns it. A payment that a chain withdraws after the completion
// makes its amount due again, and the completion stays. The credit is the amount, once, less a
// shortfall within the link's tolerance (tolerance.go).
//
// Package watch observes the chains. It reports every observation of a watched address, any number
// of times, the newest state of a transfer last; this package finds the changes. Texts of the
// merchant (return addresses, reference, description, metadata) may name people, so they are in the
// sealed record RecordText only.
package checkout

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Limits of a session.
const (
	MaxAmountCents   = 10_000_000
	MaxOpen          = 10_000 // open links of a workspace
	MinExpires       = 300 * time.Second
	MaxExpires       = 86_400 * time.Second
	DefaultExpires   = 1_800 * time.Second
	MaxReference     = 120 // characters
	MaxDescription   = 500 // characters
	MaxURL           = 2_048
	MaxMetadata      = 8 << 10 // bytes of JSON
	MaxListed        = 16      // assets or chains in a request
	MaxSelections    = 100     // stored selections of a pair; a later selection is answered but not stored
	MaxPayments      = 200     // stored transfers of at least a cent; later ones are ignored
	MaxSmallPayments = 100     // of these, transfers of less than a smallShare-th of the link's amount
	smallShare       = 100     // so the other MaxPayments-MaxSmallPayments add up to the amount
	MaxStrays        = 16      // stored transfers of other tokens or of less than a cent
	MaxSightings     = 4       // stored blocks of one transfer
	maxObservedBytes = 256     // of an address or a hash
)

// Times of a session.
const (
	// LastLook is how long a link with a selected pair stays awaiting after its end, so that the
	// watcher reads the chains once more.
	LastLook = time.Minute
	// Grace is how long after the end a payment sent before it may still be found.
	Grace = time.Hour
	// StaleAfter is how long past the time to live an observed payment may take to confirm.
	StaleAfter = 24 * time.Hour
)

// ShownConfirmations is the number to which confirmations are scaled, for every threshold of a
// chain.
const ShownConfirmations = 3

// Kinds of records.
const (
	RecordText  = "checkout_text"  // cs_ id → Text, sealed
	RecordWatch = "checkout_watch" // cs_ id → Watch; exists while the addresses of the session are watched
)

// Tally counts a workspace's open links: those that are pending, awaiting payment or confirming.
const Tally = "checkout_open"

// Settlement options.
const (
	HoldStablecoin = "hold_stablecoin"
	ConvertToFiat  = "convert_to_fiat" // accepted without effect
)

// State is a session. The zero State is a session that does not exist.
type State struct {
	ID             string      `json:"id"`
	Workspace      string      `json:"workspace"`
	Status         string      `json:"status"`
	AmountUsdCents money.Cents `json:"amountUsdCents"`
	Assets         []string    `json:"assets"`
	Chains         []string    `json:"chains"`
	Pairs          []Pair      `json:"pairs"` // pairs that can be paid
	// dollars per coin, for coins that are not dollars; fixed for the life of the link
	Prices           map[string]string `json:"prices"`
	SettlementOption string            `json:"settlementOption"`
	Sandbox          bool              `json:"sandbox"` // the addresses belong to a sandbox's accounts
	CreatedAt        decision.Stamp    `json:"createdAt"`
	ExpiresAt        decision.Stamp    `json:"expiresAt"` // end by the time to live
	CancelledAt      *decision.Stamp   `json:"cancelledAt,omitempty"`
	Chosen           *Pair             `json:"chosen,omitempty"` // the pair that the customer selected last
	Selections       int               `json:"picks,omitempty"`  // number of stored selections
	// from the first selection until no payment can change the status
	Watching     bool            `json:"watching"`
	Payments     paymentList     `json:"payments"` // in the order of their first observation
	CompletedAt  *decision.Stamp `json:"completedAt,omitempty"`
	TxHash       string          `json:"txHash,omitempty"` // of the payment that completed the link
	PayerAddress string          `json:"payerAddress,omitempty"`
	Simulated    bool            `json:"simulated,omitempty"`
	// the largest shortfall with which the link completes
	ToleranceCents money.Cents `json:"toleranceCents,omitempty"`
	// the shortfall with which the link completed
	ShortfallCents money.Cents     `json:"shortfallCents,omitempty"`
	CreditedAt     *decision.Stamp `json:"creditedAt,omitempty"`
}

// Pair is a coin on a network, and its receiving address.
type Pair struct {
	Asset   string `json:"asset"`
	Chain   string `json:"chain"`
	Address string `json:"address"`
}

// Text is the text that the merchant wrote.
type Text struct {
	SuccessURL        string                     `json:"successUrl"`
	CancelURL         string                     `json:"cancelUrl,omitempty"`
	MerchantReference string                     `json:"merchantReference,omitempty"`
	Description       string                     `json:"description,omitempty"`
	Metadata          map[string]json.RawMessage `json:"metadata"`
}

// Watch is the record of a session that a watcher needs.
type Watch struct {
	Session   string `json:"session"`
	Workspace string `json:"workspace"`
	Pairs     []Pair `json:"pairs"`
}

// End returns the time after which no pair can be selected and a new payment is late: the expiry,
// or the cancellation.
func (s *State) End() time.Time {
	if s.CancelledAt != nil {
		return s.CancelledAt.Time
	}
	return s.ExpiresAt.Time
}

// Ended reports whether the link is past its end.
func (s *State) Ended(now time.Time) bool { return !now.Before(s.End()) }

// StatusAt returns the shown status: an unpaid link is expired from its end, even during the last
// look.
func (s *State) StatusAt(now time.Time) string {
	if (s.Status == Pending || s.Status == Awaiting) && s.Ended(now) {
		return Expired
	}
	return s.Status
}

// clone returns a copy that shares nothing that Apply changes. The decisions apply their events to
// it to build the reply.
func (s *State) clone() *State {
	c := *s
	c.Payments = slices.Clone(s.Payments)
	for i := range c.Payments {
		c.Payments[i].Sightings = slices.Clone(c.Payments[i].Sightings)
	}
	return &c
}

// pairOf returns the accepted pair of an asset and a chain; false when the link does not accept it.
func (s *State) pairOf(asset, chain string) (Pair, bool) {
	i := slices.IndexFunc(s.Pairs, func(p Pair) bool { return p.Asset == asset && p.Chain == chain })
	if i < 0 {
		return Pair{}, false
	}
	return s.Pairs[i], true
}
