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
	MaxPayoutKeys    = 2_000 // API keys that may order payouts on one UTC day
	MaxDescription   = 140   // characters of a payout's description
	MaxSameDayCents  = 100_000_000
)

// Accounts that postings move. AccountUSD belongs to the workspace; the others are Purser's
// counterpart accounts.
const (
	AccountUSD      = "usd"
	AccountBank     = "bank"
	AccountNetwork  = "network"
	AccountSuspense = "suspense"
	AccountFees     = "fees" // fees that Purser earned
)

// Errors of Relay. They are not faults and reach no API caller: the relay stops and logs them for
// the operator.
var (
	// ErrGap reports that an entry is missing before the first entry of the run, or inside the run.
	ErrGap = errors.New("balance: gap in the relayed entries")
	// ErrUnbalanced reports an entry whose amounts do not sum to zero.
	ErrUnbalanced = errors.New("balance: entry does not balance")
	// ErrForeign reports an entry of another workspace, or a run of more than MaxRelay entries.
	ErrForeign = errors.New("balance: entries are not one run of this workspace")
)

// State is the balance of a workspace; the zero State is a balance without any movement. UsdCents
// always equals LedgerCents + CardCents + HoldCents + ReservedCents. Of orders State has sums and
// counts only: each order is a record of its own (orders.go).
type State struct {
	Workspace     string      `json:"workspace"`
	UsdCents      money.Cents `json:"usdCents"`      // the workspace's dollars, held and reserved ones included
	HoldCents     money.Cents `json:"holdCents"`     // held by open authorizations
	CardCents     money.Cents `json:"cardCents"`     // running sum of the relayed entries' CardDelta
	LedgerCents   money.Cents `json:"ledgerCents"`   // from journal events; an open payout is already debited
	ReservedCents money.Cents `json:"reservedCents"` // reserved by open payouts
	WsSeq         uint64      `json:"wsSeq"`         // of the last relayed entry
	// StablecoinCents are stablecoins in cents, one for one. UsdCents does not include them.
	StablecoinCents money.Cents `json:"stablecoinCents,omitempty"`
	// SuspenseCents are what clearings (negative) and refunds (positive) for unknown cards add up
	// to. Only the system workspace has them.
	SuspenseCents money.Cents `json:"suspenseCents"`
	Month         money.Month `json:"month"`
	MonthSpend    money.Cents `json:"monthSpend"` // authorized and cleared on all cards in Month

	OpenDeposits  int         `json:"openDeposits,omitempty"`  // pending deposits
	IncomingCents money.Cents `json:"incomingCents,omitempty"` // sum of pending deposits
	OpenPayouts   int         `json:"openPayouts,omitempty"`
	PaidOut       DayTotal    `json:"paidOut"`
	QuoteLocks    QuoteLocks  `json:"quoteLocks,omitempty"`

	Onboarded  bool              `json:"onboarded,omitempty"`  // set up for conversions
	Currencies []CurrencyAccount `json:"currencies,omitempty"` // in the order of their opening
	OpenPayins int               `json:"openPayins,omitempty"` // pending pay-ins
	// PendingMinor is the sum of pending pay-ins by currency. BuyingMinor is the sum that open
	// conversions will buy, by currency.
	PendingMinor map[money.Currency]money.Minor `json:"pendingMinor,omitempty"`
	BuyingMinor  map[money.Currency]money.Minor `json:"buyingMinor,omitempty"`
	// PaidIn is the sum of all pay-ins ever announced, by currency. It bounds the counterpart
	// accounts of the book.
	PaidIn map[money.Currency]money.Minor `json:"paidIn,omitempty"`

	ConversionQuoteLocks QuoteLocks `json:"conversionQuoteLocks,omitempty"`
	OpenConversions      int        `json:"openConversions,omitempty"`

	RampQuoteLocks QuoteLocks  `json:"rampQuoteLocks,omitempty"`
	OpenRampOrders int         `json:"openRampOrders,omitempty"`
	RampCents      money.Cents `json:"rampCents,omitempty"` // funded by open ramp orders

	orders orders
}

// View is a balance as the interface shows it.
type View struct {
	Balances []Account `json:"balances"`
	Snapshot Snapshot  `json:"snapshot"`
}

// Account is one account of a View, in cents.
type Account struct {
	Account        string         `json:"account"` // usd or stablecoin
	AvailableCents money.Cents    `json:"availableCents"`
	IncomingCents  money.Cents    `json:"incomingCents"`
	HeldCents      money.Cents    `json:"heldCents"`
	AsOf           decision.Stamp `json:"asOf"`
}

// Snapshot is the older summary of a balance, in cents.
type Snapshot struct {
	FiatUsdCents       money.Cents `json:"fiatUsdCents"`
	StablecoinUsdCents money.Cents `json:"stablecoinUsdCents"`
	TotalUsdCents      money.Cents `json:"totalUsdCents"`
	MonthSpendUsdCents money.Cents `json:"monthSpendUsdCents"`
}

// View shows the balance at now. Held is the sum of open authorization holds and payout
// reservations. decision.Read replies it, for the treasury routes. It panics only when a sum
// overflows.
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
		Snapshot: Snapshot{FiatUsdCents: s.UsdCents, StablecoinUsdCents: s.StablecoinCents,
			TotalUsdCents:      s.totalCents(),
			MonthSpendUsdCents: spend},
	}
}

// totalCents is dollars and stablecoins together, capped at math.MaxInt64.
func (s *State) totalCents() money.Cents {
	total, err := money.Add(s.UsdCents, s.StablecoinCents)
	if err != nil {
		return math.MaxInt64
	}
	return total
}

// addLedgerCents adds dollars to LedgerCents. It fails when a sum overflows an int64; the state is
// then invalid.
func (s *State) addLedgerCents(cents money.Cents) error {
	ledger, err := money.Add(s.LedgerCents, cents)
	if err != nil {
		return err
	}
	s.LedgerCents = ledger
	return s.recomputeUSD()
}

// recomputeUSD sets UsdCents to the sum of its terms. It fails when spendable dollars overflow an
// int64, with or without holds.
func (s *State) recomputeUSD() error {
	available, err := money.Add(s.LedgerCents, s.CardCents)
	if err != nil {
		return err
	}
	s.UsdCents, err = money.Add(available, s.HoldCents, s.ReservedCents)
	return err
}
