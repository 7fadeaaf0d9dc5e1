// Package checkout is one link with which a customer pays a merchant in crypto: what is asked, where it can be paid, what the
// chains are seen to say of that, and what follows. It is pure; an actor of the session's id is the only one that folds its
// events. See moves.go for its life, pairs.go for coins and networks, payments.go for what was received.
//
// The amount received, the amount due and the status are three facts. A late payment is received and
// does not complete a link. An overpayment makes the amount due negative, and the merchant gives it
// back. A payment that a chain withdraws after the completion makes its amount due again, and the
// completion stays. The credit is the
// amount, once, less a shortfall within the link's tolerance (tolerance.go).
//
// The chains are watched by others: they tell every observation of a watched address, in any number, the newest word on a
// transfer last, and this package finds out what is new. Texts of the merchant (addresses to return to, reference, description,
// metadata) may name people: they stand in the sealed record RecordText only.
package checkout

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/decision"
)

// Limits of a session.
const (
	MaxAmountCents   = 10_000_000
	MinExpires       = 300 * time.Second
	MaxExpires       = 86_400 * time.Second
	DefaultExpires   = 1_800 * time.Second
	MaxReference     = 120 // characters
	MaxDescription   = 500 // characters
	MaxURL           = 2_048
	MaxMetadata      = 8 << 10 // bytes of JSON
	MaxListed        = 16      // assets or chains in a request
	MaxPicks         = 100     // that are kept; a later one is answered, and not noted
	MaxPayments      = 200     // transfers of at least a cent that are kept; what comes after is not
	MaxStrays        = 16      // transfers of other tokens, or of less than a cent, that are kept
	MaxSightings     = 4       // blocks in which one transfer is remembered
	maxObservedBytes = 256     // of an address or a hash
)

// Times of a session.
const (
	// LastLook is how long after its end a link that somebody picked a way to pay for still counts as awaiting: the watcher's
	// last look.
	LastLook = time.Minute
	// Grace is how long after the end a payment that was sent before it may be found.
	Grace = time.Hour
	// StaleAfter is how long past the time to live a payment that was seen may wait to be confirmed.
	StaleAfter = 24 * time.Hour
)

// ShownConfirmations is the count to which confirmations are scaled, whatever the chain's own threshold.
const ShownConfirmations = 3

// Kinds of records.
const (
	RecordText  = "checkout_text"  // cs_ id → Text, sealed
	RecordWatch = "checkout_watch" // cs_ id → Watch; there as long as the addresses of the session are to be watched
)

// Settlement options.
const (
	HoldStablecoin = "hold_stablecoin"
	ConvertToFiat  = "convert_to_fiat" // accepted; it does nothing
)

// State is a session. The zero State is one that does not exist.
type State struct {
	ID             string   `json:"id"`
	Workspace      string   `json:"workspace"`
	Status         string   `json:"status"`
	AmountUsdCents int64    `json:"amountUsdCents"`
	Assets         []string `json:"assets"`
	Chains         []string `json:"chains"`
	Pairs          []Pair   `json:"pairs"` // that can be paid
	// dollars for a coin, of those that are no dollars; fixed for the life of the link
	Prices           map[string]string `json:"prices"`
	SettlementOption string            `json:"settlementOption"`
	Sandbox          bool              `json:"sandbox"` // the addresses are of a sandbox's accounts
	CreatedAt        decision.Stamp    `json:"createdAt"`
	ExpiresAt        decision.Stamp    `json:"expiresAt"` // by the time to live
	CancelledAt      *decision.Stamp   `json:"cancelledAt,omitempty"`
	Chosen           *Pair             `json:"chosen,omitempty"` // what the customer picked last
	Picks            int               `json:"picks,omitempty"`  // so many have been noted
	Watching         bool              `json:"watching"`         // from the first pick until nothing more can come of a payment
	Payments         []Payment         `json:"payments"`         // in the order in which they were seen
	CompletedAt      *decision.Stamp   `json:"completedAt,omitempty"`
	TxHash           string            `json:"txHash,omitempty"` // of the payment that completed the link
	PayerAddress     string            `json:"payerAddress,omitempty"`
	Simulated        bool              `json:"simulated,omitempty"`
	ToleranceCents   int64             `json:"toleranceCents,omitempty"` // shortfall that completes the link all the same
	ShortfallCents   int64             `json:"shortfallCents,omitempty"` // shortfall with which the link was completed
	CreditedAt       *decision.Stamp   `json:"creditedAt,omitempty"`
}

// Pair is a coin on a network, and where it is received.
type Pair struct {
	Asset   string `json:"asset"`
	Chain   string `json:"chain"`
	Address string `json:"address"`
}

// Text is what the merchant wrote.
type Text struct {
	SuccessURL        string                     `json:"successUrl"`
	CancelURL         string                     `json:"cancelUrl,omitempty"`
	MerchantReference string                     `json:"merchantReference,omitempty"`
	Description       string                     `json:"description,omitempty"`
	Metadata          map[string]json.RawMessage `json:"metadata"`
}

// Watch is what a watcher must know of a session.
type Watch struct {
	Session   string `json:"session"`
	Workspace string `json:"workspace"`
	Pairs     []Pair `json:"pairs"`
}

// End is when the link ends, or has ended: it cannot be picked or paid after it.
func (s *State) End() time.Time {
	if s.CancelledAt != nil {
		return s.CancelledAt.Time
	}
	return s.ExpiresAt.Time
}

// Ended says whether the link is past its end.
func (s *State) Ended(now time.Time) bool { return !now.Before(s.End()) }

// StatusAt is the status as it is shown: a link that nobody has paid is expired at its end, whatever is still looked for.
func (s *State) StatusAt(now time.Time) string {
	if (s.Status == Pending || s.Status == Awaiting) && s.Ended(now) {
		return Expired
	}
	return s.Status
}

// clone is a copy that shares nothing that Apply changes.
func (s *State) clone() *State {
	c := *s
	c.Payments = slices.Clone(s.Payments)
	for i := range c.Payments {
		c.Payments[i].Sightings = slices.Clone(c.Payments[i].Sightings)
	}
	return &c
}

// pair finds what was accepted.
func (s *State) pair(asset, chain string) (Pair, bool) {
	i := slices.IndexFunc(s.Pairs, func(p Pair) bool { return p.Asset == asset && p.Chain == chain })
	if i < 0 {
		return Pair{}, false
	}
	return s.Pairs[i], true
}
