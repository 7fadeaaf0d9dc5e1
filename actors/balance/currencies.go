package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Limits of the balances in currencies. All amounts are smallest units of their currency.
const (
	MaxOpenPayins = 1_000 // that are under way, of a workspace
	// MaxHolding bounds what a decision of ours may bring a balance to: with what is held, under way and bought. It leaves room
	// in an int64 for facts that come late.
	MaxHolding = 4 * money.MaxMinor
	// MaxPaidIn bounds what is ever paid into a balance, converted since or not: the bank's account in the book is the sum of it,
	// and the desk's is that less what is left.
	MaxPaidIn = 4 * money.MaxMinor
	// MaxFact bounds what a fact that comes late may bring a balance to; below zero it is MaxHolding, for the desk's account.
	MaxFact = 8 * money.MaxMinor
)

// Accounts of a currency that postings move, beside the counterparts of other files. A balance in dollars is one of these, and
// is not AccountUSD.
const (
	AccountCurrency     = "currency"      // what is available
	AccountCurrencyHeld = "currency_held" // what conversions have set aside
	AccountFX           = "fx"            // the desk
)

// Statuses of a currency account.
const (
	CurrencyOpening   = "opening" // until the partner has given out its details
	CurrencyActive    = "active"
	CurrencySuspended = "suspended" // by the partner: nothing is quoted or converted
)

// Scopes of a currency account. While it is not ok nothing is converted from it.
const (
	ScopeOK       = "ok"
	ScopeChecking = "checking"
	ScopePaused   = "paused"
)

// Kinds of an activity line.
const (
	ActivityPayin      = "pay_in"
	ActivityConversion = "conversion"
	ActivityHold       = "hold"
)

// Statuses of a pay-in.
const (
	PayinPending = "pending"
	PayinDone    = "arrived"
)

// Keys of the timers, before what they are about.
const (
	timerOpen  = "currency-open/"
	timerPayin = "payin/"
)

// CurrencyAccount is the workspace's balance in one currency.
type CurrencyAccount struct {
	Currency       money.Currency `json:"currency"`
	Status         string         `json:"status"`
	Scope          string         `json:"scope"`
	AvailableMinor money.Minor    `json:"availableMinor"`
	HeldMinor      money.Minor    `json:"heldMinor"`
	OpenedAt       decision.Stamp `json:"openedAt"`
}

// Payin is money on its way into a balance. What the sender wrote is in a record of its own, PayinText.
type Payin struct {
	ID         string         `json:"id"` // dep_ id
	Status     string         `json:"status"`
	Amount     Amount         `json:"amount"`
	ExpectedAt decision.Stamp `json:"expectedAt"`
}

// PayinText is what the sender of a pay-in wrote. It may name people.
type PayinText struct {
	Reference string `json:"reference"`
}

// Activity is a line of a currency account. AmountMinor is positive; Direction says which way it went. The lines of an account
// add up to what is available.
type Activity struct {
	ID           string         `json:"id"`
	Currency     money.Currency `json:"currency"`
	Kind         string         `json:"kind"`
	Direction    string         `json:"direction"` // debit or credit
	AmountMinor  money.Minor    `json:"amountMinor"`
	Transfer     string         `json:"transfer"`     // tg_ id
	PayinID      string         `json:"payinId"`      // of a pay-in, else ""
	ConversionID string         `json:"conversionId"` // of a hold or a conversion, else ""
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// CurrenciesView is what a workspace has in currencies. Pending, by currency, is on its way in.
type CurrenciesView struct {
	Onboarded bool
	Accounts  []CurrencyAccount
	Pending   map[money.Currency]money.Minor
}

// currencies decides and applies commands and events of balances in currencies and of their
// pay-ins.
type currencies struct{ *State }

// notHeld is the code with which the partner refuses to open a balance in a currency, "" for one that it opens.
func notHeld(c money.Currency) fault.Code {
	switch c {
	case "BRL":
		return fault.CurrencyRestricted
	case "HKD":
		return fault.CurrencyNotEligible
	case "INR":
		return fault.CurrencyUnavailable
	}
	return ""
}

// Covered says whether a balance in a currency can be opened (refusal "" when it can) and converted.
func Covered(c money.Currency) (refusal fault.Code, converts bool) {
	refusal = notHeld(c)
	return refusal, refusal == "" && c != "MXN"
}

// Onboard sets a workspace up for balances in currencies. It answers CurrenciesView, again and without effect when that is done.
type Onboard struct{ Workspace string }

// ReadCurrencies answers CurrenciesView.
type ReadCurrencies struct{}

// OpenCurrency opens a balance, which is active after Delay. It answers CurrencyAccount. It is refused with
// currency_account_exists, currency_unavailable, currency_restricted or currency_not_eligible.
type OpenCurrency struct {
	Workspace string
	Currency  money.Currency
	Delay     time.Duration
}

// AnnouncePayin lets test money arrive at a time. It answers Payin. It is refused with currency_account_not_found,
// account_not_ready, account_suspended or limit_exceeded.
type AnnouncePayin struct {
	Workspace, ID string
	Amount        Amount
	Reference     string
	ArrivesAt     time.Time
}

// ReportCurrency is the partner's report of what a balance may do: a new Status (active or suspended) or Scope; "" leaves it. It
// answers CurrencyAccount; of a currency that is not held, or is still opening, not_found.
type ReportCurrency struct {
	EventID, Workspace string
	Currency           money.Currency
	Status, Scope      string
}

func (s *State) currenciesView() CurrenciesView {
	v := CurrenciesView{Onboarded: s.Onboarded, Accounts: slices.Clone(s.Currencies), Pending: map[money.Currency]money.Minor{}}
	maps.Copy(v.Pending, s.PendingMinor)
	return v
}

// currency is the place of a currency's account, or -1.
func (s *State) currency(c money.Currency) int {
	return slices.IndexFunc(s.Currencies, func(a CurrencyAccount) bool { return a.Currency == c })
}

// decideCurrency answers the commands of this file; known is false for any other.
func (b currencies) decideCurrency(m decision.Meta, command any) (d decision.Decision, known bool, err error) {
	switch c := command.(type) {
	case Onboard:
		b.mustOwn(c.Workspace)
		d, err = b.onboard(m, c)
	case OpenCurrency:
		b.mustOwn(c.Workspace)
		d, err = b.openCurrency(m, c)
	case AnnouncePayin:
		b.mustOwn(c.Workspace)
		d, err = b.announcePayin(m, c)
	case ReportCurrency:
		b.mustOwn(c.Workspace)
		d, err = b.reportCurrency(m, c)
	case ReadCurrencies:
		d.Reply = b.currenciesView()
	default:
		return d, false, nil
	}
	return d, true, err
}

func (b currencies) onboard(m decision.Meta, c Onboard) (decision.Decision, error) {
	d := decision.Decision{}
	after := *b.State
	if !b.Onboarded {
		d.Events = []decision.Event{CurrenciesOnboarded{Workspace: c.Workspace, At: decision.StampOf(m.At)}}
		after.Onboarded = true
	}
	d.Reply = after.currenciesView()
	return d, nil
}

func (b currencies) openCurrency(m decision.Meta, c OpenCurrency) (decision.Decision, error) {
	if _, served := c.Currency.Exponent(); !served {
		return decision.Decision{}, fault.New(fault.InvalidCurrency, "currency: is not one that is served")
	}
	if b.currency(c.Currency) >= 0 {
		return decision.Decision{}, fault.New(fault.CurrencyAccountExists, "the workspace has a balance in the currency")
	}
	if refusal := notHeld(c.Currency); refusal != "" {
		return decision.Decision{}, fault.New(refusal, "the partner opens no balance in the currency")
	}
	a := CurrencyAccount{Currency: c.Currency, Status: CurrencyOpening, Scope: ScopeOK, OpenedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events: []decision.Event{CurrencyOpened{Workspace: c.Workspace, Currency: a.Currency, At: a.OpenedAt}},
		Reply:  a,
		Timers: []decision.Timer{{Key: timerOpen + string(a.Currency), Due: m.At.Add(c.Delay)}},
	}, nil
}

// ready refuses an account that is not open, not ready or suspended, in this order.
func (s *State) ready(currency money.Currency) error {
	i := s.currency(currency)
	switch {
	case i < 0:
		return fault.New(fault.CurrencyNotHeld, "the workspace has no balance in "+string(currency))
	case s.Currencies[i].Status == CurrencyOpening:
		return fault.New(fault.AccountNotReady, "the balance in "+string(currency)+" is still being opened")
	case s.Currencies[i].Status == CurrencySuspended:
		return fault.New(fault.AccountSuspended, "the balance in "+string(currency)+" is suspended")
	}
	return nil
}

func (b currencies) announcePayin(m decision.Meta, c AnnouncePayin) (decision.Decision, error) {
	switch _, served := c.Amount.Currency.Exponent(); {
	case !served:
		return decision.Decision{}, fault.New(fault.InvalidCurrency, "currency: is not one that is served")
	case c.Amount.AmountMinor < 1 || c.Amount.AmountMinor > money.MaxMinor:
		return decision.Decision{}, fault.New(fault.InvalidAmount, "amountMinor: "+money.ErrMinor.Error())
	case utf8.RuneCountInString(c.Reference) > MaxReference:
		return decision.Decision{}, fault.New(fault.InvalidBody, fmt.Sprintf("reference: at most %d characters", MaxReference))
	}
	if err := b.ready(c.Amount.Currency); err != nil {
		return decision.Decision{}, err
	}
	if b.OpenPayins >= MaxOpenPayins {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("at most %d pay-ins may be under way", MaxOpenPayins))
	}
	if paid := b.PaidIn[c.Amount.Currency]; !b.holds(c.Amount) || paid > MaxPaidIn-c.Amount.AmountMinor {
		return decision.Decision{}, overflow()
	}
	p := Payin{ID: c.ID, Status: PayinPending, Amount: c.Amount, ExpectedAt: decision.StampOf(c.ArrivesAt)}
	return decision.Decision{
		Events: []decision.Event{PayinAnnounced{Workspace: c.Workspace, Payin: p, At: decision.StampOf(m.At)}},
		Reply:  p,
		Records: []decision.Record{
			{Kind: RecordPayin, ID: p.ID, Document: p},
			{Kind: RecordPayinText, ID: p.ID, Document: PayinText{Reference: c.Reference}, Personal: true},
		},
		Timers: []decision.Timer{{Key: timerPayin + p.ID, Due: c.ArrivesAt}},
	}, nil
}

// holds says whether a balance can take more: with what it has and what is on its way to it.
func (s *State) holds(more Amount) bool { return s.holdsUpTo(more, MaxHolding) }

// holdsFact says the same of a conversion that completes after it was given up, and whether what it sold can be debited again.
func (s *State) holdsFact(c Conversion) bool {
	i := s.currency(c.Sell.Currency)
	return i >= 0 && s.Currencies[i].AvailableMinor >= c.Sell.AmountMinor-MaxHolding && s.holdsUpTo(c.Buy, MaxFact)
}

func (s *State) holdsUpTo(more Amount, most money.Minor) bool {
	i := s.currency(more.Currency)
	if i < 0 {
		return false
	}
	sum, err := money.Add(s.Currencies[i].AvailableMinor, s.Currencies[i].HeldMinor, more.AmountMinor,
		s.PendingMinor[more.Currency], s.BuyingMinor[more.Currency])
	return err == nil && sum <= most
}

func (b currencies) reportCurrency(m decision.Meta, c ReportCurrency) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	switch {
	case !slices.Contains([]string{"", CurrencyActive, CurrencySuspended}, c.Status):
		return decision.Decision{}, fault.New(fault.InvalidBody, "status: active or suspended")
	case !slices.Contains([]string{"", ScopeOK, ScopeChecking, ScopePaused}, c.Scope):
		return decision.Decision{}, fault.New(fault.InvalidBody, "scopeStatus: ok, checking or paused")
	}
	i := b.currency(c.Currency)
	if i < 0 || b.Currencies[i].Status == CurrencyOpening {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	a := b.Currencies[i]
	if c.Status != "" {
		a.Status = c.Status
	}
	if c.Scope != "" {
		a.Scope = c.Scope
	}
	return decision.Decision{
		Events: []decision.Event{CurrencyChanged{Workspace: b.Workspace, Currency: a.Currency, Status: a.Status, Scope: a.Scope,
			EventID: c.EventID, At: decision.StampOf(m.At)}},
		Reply: a,
		Onces: []decision.Once{{Scope: ScopeBank, Key: c.EventID, Expires: m.At.Add(BankRetention)}},
	}, nil
}

// currencyTimer answers the timers of this file; known is false for any other key.
func (b currencies) currencyTimer(m decision.Meta, key string) (d decision.Decision, known bool) {
	if c, isOpen := strings.CutPrefix(key, timerOpen); isOpen {
		if i := b.currency(money.Currency(c)); i >= 0 && b.Currencies[i].Status == CurrencyOpening {
			d.Events = []decision.Event{CurrencyChanged{Workspace: b.Workspace, Currency: b.Currencies[i].Currency,
				Status: CurrencyActive, Scope: b.Currencies[i].Scope, At: decision.StampOf(m.At)}}
		}
		return d, true
	}
	id, isPayin := strings.CutPrefix(key, timerPayin)
	if !isPayin {
		return d, false
	}
	if p, known := b.orders.payins.find(id); known && p.Status == PayinPending {
		return b.arrive(m, p), true
	}
	return d, true
}

// arrive credits a pay-in. Its announcement has found room for it.
func (b currencies) arrive(m decision.Meta, p Payin) decision.Decision {
	p.Status = PayinDone
	t := b.movement("payin/"+p.ID, m.At)
	t.move(AccountBank, AccountCurrency, p.Amount)
	line := t.line(ActivityPayin, p.Amount.Currency, p.Amount.AmountMinor)
	line.PayinID = p.ID
	return decision.Decision{
		Events: []decision.Event{PayinArrived{Workspace: b.Workspace, Payin: p.ID, Amount: p.Amount, Postings: t.postings(),
			At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordPayin, ID: p.ID, Document: p}, line.record()},
	}
}

func (b currencies) applyCurrencyOpened(e CurrencyOpened) {
	b.Workspace = e.Workspace
	b.Currencies = append(b.Currencies, CurrencyAccount{Currency: e.Currency, Status: CurrencyOpening, Scope: ScopeOK,
		OpenedAt: e.At})
}

func (b currencies) applyCurrencyChanged(e CurrencyChanged) {
	a := &b.Currencies[b.mustCurrency(e.Currency)]
	a.Status, a.Scope = e.Status, e.Scope
}

func (s *State) mustCurrency(c money.Currency) int {
	i := s.currency(c)
	if i < 0 {
		panic("BUG: no balance in " + string(c))
	}
	return i
}

func (b currencies) applyPayinAnnounced(e PayinAnnounced) {
	b.orders.payins.store(e.Payin.ID, e.Payin)
	b.OpenPayins++
	addOpen(&b.PendingMinor, e.Payin.Amount, 1)
	if b.PaidIn == nil {
		b.PaidIn = map[money.Currency]money.Minor{}
	}
	b.PaidIn[e.Payin.Amount.Currency] = money.MustAdd(b.PaidIn[e.Payin.Amount.Currency], e.Payin.Amount.AmountMinor)
}

func (b currencies) applyPayinArrived(e PayinArrived) {
	p, known := b.orders.payins.find(e.Payin)
	if !known || p.Status != PayinPending {
		panic("BUG: a pay-in that is not under way has arrived")
	}
	p.Status = PayinDone
	b.orders.payins.store(p.ID, p)
	b.OpenPayins--
	addOpen(&b.PendingMinor, p.Amount, -1)
	b.post(e.Postings)
}

// post adds postings to the balances in currencies. A check has found that they fit.
func (s *State) post(postings []Posting) {
	for _, p := range postings {
		switch p.Account {
		case AccountCurrency:
			a := &s.Currencies[s.mustCurrency(p.currency())]
			a.AvailableMinor = money.MustAdd(a.AvailableMinor, p.Cents)
		case AccountCurrencyHeld:
			a := &s.Currencies[s.mustCurrency(p.currency())]
			a.HeldMinor = money.MustAdd(a.HeldMinor, p.Cents)
		}
	}
}

// movement gathers the legs of one transfer between accounts of currencies. It sums to zero in each currency.
type movement struct {
	workspace, cause string
	at               time.Time
	legs             []Posting
}

func (s *State) movement(cause string, at time.Time) *movement {
	return &movement{workspace: s.Workspace, cause: cause, at: at}
}

func (t *movement) group() string {
	return ident.Derive(slotOf(t.workspace), t.at, "transfer/"+t.cause).Format(ident.TransferGroup)
}

// move takes an amount out of one account and into another.
func (t *movement) move(from, to string, a Amount) {
	t.legs = append(t.legs, Posting{Transfer: t.group(), Account: from, Currency: a.Currency, Cents: -a.AmountMinor},
		Posting{Transfer: t.group(), Account: to, Currency: a.Currency, Cents: a.AmountMinor})
}

func (t *movement) postings() []Posting {
	mustSumToZero(t.legs)
	return t.legs
}

// line is the activity that shows what the transfer does to the balance in a currency; below zero for what goes out.
func (t *movement) line(kind string, c money.Currency, minor money.Minor) Activity {
	id := ident.Derive(slotOf(t.workspace), t.at, "activity/"+kind+"/"+string(c)+"/"+t.cause).Format(ident.LedgerEntry)
	a := Activity{ID: id, Currency: c, Kind: kind, Direction: "credit", AmountMinor: minor, Transfer: t.group(),
		CreatedAt: decision.StampOf(t.at)}
	if minor < 0 {
		a.Direction, a.AmountMinor = "debit", -minor
	}
	return a
}

// record lists the line under its currency.
func (a Activity) record() decision.Record {
	return decision.Record{Kind: RecordActivity, Parent: string(a.Currency), ID: a.ID, Document: a}
}
