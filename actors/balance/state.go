// Package balance is the money of one workspace: its dollars, what authorizations hold of them,
// what the bank still owes it, its stablecoins and its balances in currencies. It is pure; an actor
// of the workspace's id is the only one that folds its events. One file per movement: deposits.go
// (bank transfers), stablecoin.go (stablecoins), payouts.go and payout.go (payouts, and their
// states), quotes.go (firm exchange rates), physical.go (fees of physical cards),
// currencies.go (payments into a balance in a currency), conversions.go and conversion.go
// (between them), ramps.go (between dollars and USDC, and to wallets), relay.go (what the card
// authorizer decided), unmatched.go (reports that match nothing), orders.go (the records of
// orders). Each movement has a small type around State (payouts, deposits, currencies, conversions,
// ramps, physicalCards) with its decisions and folds; State itself has the money that they share.
//
// Every movement is a transfer of postings that sum to zero, checked before it is returned. Facts
// of the outside world may take the balance below zero; nothing this package decides by itself
// does. It approves no swipe: the authorizer does, on terms of its own, and its decisions arrive
// here as entries in order.
package balance

import (
	"errors"
	"math"
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Limits of a balance.
const (
	MaxOpenDeposits  = 10_000
	MaxRelay         = 512 // entries in one Relay
	MaxReference     = 140 // characters of a bank's reference
	MaxUnmatchedBody = 1 << 20
	MaxEventID       = 200 // bytes of a partner's event id
	MaxOpenPayouts   = 10_000
	MaxOpenQuotes    = 1_000
	MaxPayoutKeys    = 2_000 // API keys that order payouts on one day
	MaxDescription   = 140   // characters of a payout's description
	MaxSameDayCents  = 100_000_000
)

// Accounts that postings move. AccountUSD is the workspace's own; the others are Purser's counterparts.
const (
	AccountUSD      = "usd"
	AccountBank     = "bank"
	AccountNetwork  = "network"
	AccountSuspense = "suspense"
	AccountFees     = "fees" // what Purser has earned
)

// Errors of the relay. They are no faults: no caller is told, the relay stops and an operator is.
var (
	// ErrGap: an entry is missing before the first one given.
	ErrGap = errors.New("balance: gap in the relayed entries")
	// ErrUnbalanced: an entry's amounts do not add up.
	ErrUnbalanced = errors.New("balance: entry does not balance")
	// ErrForeign: an entry is of another workspace, or there are more than MaxRelay.
	ErrForeign = errors.New("balance: entries are not one run of this workspace")
)

// State is the balance of a workspace. The zero State is one that nothing has moved yet. UsdCents
// is always LedgerCents + CardCents + HoldCents + ReservedCents. Of orders it has sums and counts:
// each order is a record of its own (orders.go).
type State struct {
	Workspace     string `json:"workspace"`
	UsdCents      int64  `json:"usdCents"`      // the workspace's dollars, held ones included
	HoldCents     int64  `json:"holdCents"`     // held by open authorizations
	CardCents     int64  `json:"cardCents"`     // running sum of the entries' CardDelta
	LedgerCents   int64  `json:"ledgerCents"`   // what the journal originated: deposits, less payouts from their reservation
	ReservedCents int64  `json:"reservedCents"` // of open payouts
	WsSeq         uint64 `json:"wsSeq"`         // of the last entry relayed
	// StablecoinCents are dollars' worth of stablecoins. None of the terms above has them.
	StablecoinCents int64 `json:"stablecoinCents,omitempty"`
	// of the system workspace: what unknown cards cleared (negative) or got back
	SuspenseCents int64       `json:"suspenseCents"`
	Month         money.Month `json:"month"`
	MonthSpend    int64       `json:"monthSpend"` // authorized and cleared on all cards in Month

	OpenDeposits  int        `json:"openDeposits,omitempty"`  // pending ones
	IncomingCents int64      `json:"incomingCents,omitempty"` // of pending deposits
	OpenPayouts   int        `json:"openPayouts,omitempty"`
	PaidOut       DayTotal   `json:"paidOut"`
	QuoteLocks    QuoteLocks `json:"quoteLocks,omitempty"`

	Onboarded  bool              `json:"onboarded,omitempty"`  // may have balances in currencies converted
	Currencies []CurrencyAccount `json:"currencies,omitempty"` // open, in the order of their opening
	OpenPayins int               `json:"openPayins,omitempty"` // under way
	// PendingMinor is the sum of the pay-ins under way, BuyingMinor that of what open conversions
	// buy, by currency.
	PendingMinor map[money.Currency]money.Minor `json:"pendingMinor,omitempty"`
	BuyingMinor  map[money.Currency]money.Minor `json:"buyingMinor,omitempty"`
	// PaidIn is all that was ever announced, by currency: what the counterparts of the balance have in the book.
	PaidIn map[money.Currency]money.Minor `json:"paidIn,omitempty"`

	ConversionQuoteLocks QuoteLocks `json:"conversionQuoteLocks,omitempty"`
	OpenConversions      int        `json:"openConversions,omitempty"`

	RampQuoteLocks QuoteLocks `json:"rampQuoteLocks,omitempty"`
	OpenRampOrders int        `json:"openRampOrders,omitempty"`
	RampCents      int64      `json:"rampCents,omitempty"` // that the ramp has of open orders

	orders orders
}

// View is a balance as the interface shows it.
type View struct {
	Balances []Account `json:"balances"`
	Snapshot Snapshot  `json:"snapshot"`
}

// Account is one entry of the balances, in cents.
type Account struct {
	Account        string         `json:"account"` // usd or stablecoin
	AvailableCents int64          `json:"availableCents"`
	IncomingCents  int64          `json:"incomingCents"`
	HeldCents      int64          `json:"heldCents"`
	AsOf           decision.Stamp `json:"asOf"`
}

// Snapshot is the older summary, in cents.
type Snapshot struct {
	FiatUsdCents       int64 `json:"fiatUsdCents"`
	StablecoinUsdCents int64 `json:"stablecoinUsdCents"`
	TotalUsdCents      int64 `json:"totalUsdCents"`
	MonthSpendUsdCents int64 `json:"monthSpendUsdCents"`
}

// View is the balance at now. Held is what authorizations hold and open payouts reserve.
func (s *State) View(now time.Time) View {
	asOf := decision.StampOf(now)
	spend := s.MonthSpend
	if s.Month < money.MonthOf(now.UnixMilli()) {
		spend = 0
	}
	return View{
		Balances: []Account{
			{
				Account: "usd", AvailableCents: money.MustAdd(s.LedgerCents, s.CardCents),
				IncomingCents: s.IncomingCents,
				HeldCents:     money.MustAdd(s.HoldCents, s.ReservedCents), AsOf: asOf,
			},
			{Account: AccountStablecoin, AvailableCents: s.StablecoinCents, AsOf: asOf},
		},
		Snapshot: Snapshot{FiatUsdCents: s.UsdCents, StablecoinUsdCents: s.StablecoinCents, TotalUsdCents: s.totalCents(),
			MonthSpendUsdCents: spend},
	}
}

// totalCents is all that is shown as money, at most what an int64 holds.
func (s *State) totalCents() int64 {
	total, err := money.Add(s.UsdCents, s.StablecoinCents)
	if err != nil {
		return math.MaxInt64
	}
	return total
}

// credit adds dollars that the journal originated, or says that they do not fit.
func (s *State) credit(cents int64) error {
	ledger, err := money.Add(s.LedgerCents, cents)
	if err != nil {
		return err
	}
	s.LedgerCents = ledger
	return s.total()
}

// total makes UsdCents what its terms add up to. Spendable dollars must fit in an int64 by themselves, with and without holds.
func (s *State) total() error {
	available, err := money.Add(s.LedgerCents, s.CardCents)
	if err != nil {
		return err
	}
	s.UsdCents, err = money.Add(available, s.HoldCents, s.ReservedCents)
	return err
}
