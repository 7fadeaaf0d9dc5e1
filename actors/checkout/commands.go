package checkout

import (
	"time"

	"purser/persistence/money"
)

// Create creates a link. Every pair has its address, and Prices has each of its priced coins. The
// reply is a View.
type Create struct {
	ID, Workspace    string
	AmountUsdCents   money.Cents
	Text             Text
	Accepted         Accepted
	Indexes          map[string]uint32 // index of each family's address
	Prices           map[string]string
	Expires          time.Duration
	SettlementOption string
	Sandbox          bool
	Tolerance        Tolerance
}

// Select selects the pair to pay with. The reply is a Selection. Refusals are pair_not_supported,
// payment_seen and link_ended.
type Select struct{ Asset, Chain string }

// Selection is the reply to Select.
type Selection struct {
	Pair  Pair
	Units string // smallest units to pay
	Coins string // the same in whole coins
	View  View
}

// Cancel ends a link without payments. The reply is a View; cancelling again changes nothing.
type Cancel struct{}

// Simulate completes a link without a payment. The reply is a View.
type Simulate struct{}

// Observed is an observation of a transfer to an address. It has the fields of partner.Observation,
// so that one converts into the other. The reply is a Noted. A repeat of the newest observation
// changes nothing.
type Observed struct {
	Chain         string
	Asset         string
	Address       string
	TxHash        string
	Index         int
	Amount        string
	Block         uint64
	BlockHash     string
	Confirmations int
	Threshold     int
	At            time.Time
	From          string
	Removed       bool
}

// Noted is the reply to Observed.
type Noted string

// Outcomes of an observation.
const (
	NotedNew   Noted = "new"
	NotedKnown Noted = "known" // no change
	// no pair was ever selected, the watch has ended, or the address is not the session's
	NotedNotWatched Noted = "not_watched"
	NotedFull       Noted = "full" // MaxPayments or MaxStrays transfers are stored
)

// Credit records that the workspace's balance has the money of a completed link. There is no reply.
type Credit struct{}
