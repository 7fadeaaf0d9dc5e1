package checkout

import (
	"time"
)

// Create makes a link. Pairs have their addresses, and Prices every coin of them that is priced. It answers View.
type Create struct {
	ID, Workspace    string
	AmountUsdCents   int64
	Text             Text
	Accepted         Accepted
	Indexes          map[string]uint32 // of the addresses, by family
	Prices           map[string]string
	Expires          time.Duration
	SettlementOption string
	Sandbox          bool
	Tolerance        Tolerance
}

// Select is the customer's pick. It answers Picked. It is refused with pair_not_supported, payment_seen or link_ended.
type Select struct{ Asset, Chain string }

// Picked answers Select.
type Picked struct {
	Pair  Pair
	Units string // smallest units that are due
	Coins string // the same in whole coins
	View  View
}

// Cancel ends a link that nobody has paid. It answers View, again and without effect when it was cancelled before.
type Cancel struct{}

// Simulate completes a link without a payment. It answers View.
type Simulate struct{}

// Observed is what a chain is seen to say of a transfer to an address. It is partner.Observation, field by field, so that one
// converts into the other. It answers Noted, and a repeat of the newest word changes nothing.
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

// Noted answers Observed.
type Noted string

// What became of an observation.
const (
	NotedNew        Noted = "new"
	NotedKnown      Noted = "known"       // nothing new
	NotedNotWatched Noted = "not_watched" // the session has never been picked, or is through; or it is not its address
	NotedFull       Noted = "full"        // MaxPayments or MaxStrays are kept already
)

// Credit notes that the workspace's balance has the money of a completed link. It answers nothing.
type Credit struct{}
