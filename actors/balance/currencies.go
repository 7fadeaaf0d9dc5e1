package balance

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Limits of the balances in currencies, in minor units of each currency.
const (
	MaxOpenPayins = 1_000 // pending, per workspace
	// MaxHolding is the most that a decision of Purser may bring a balance to, with its held,
	// pending and bought amounts. It leaves room in an int64 for late facts.
	MaxHolding = 4 * money.MaxMinor
	// MaxPaidIn is the most that is ever paid into a balance, converted since or not. It bounds the
	// bank's account in the book, and with it the desk's.
	MaxPaidIn = 4 * money.MaxMinor
	// MaxFact is the most that a late fact may bring a balance to. Below zero the bound is
	// MaxHolding, for the desk's account.
	MaxFact = 8 * money.MaxMinor
)

// Accounts of a currency that postings move, beside the counterparts in other files. A balance in
// dollars is one of these, and is not AccountUSD.
const (
	AccountCurrency     = "currency"      // available
	AccountCurrencyHeld = "currency_held" // held for open conversions
	AccountFX           = "fx"            // the desk's counterpart
)

// Statuses of a currency account.
const (
	CurrencyOpening   = "opening" // until the partner has issued its receiving details
	CurrencyActive    = "active"
	CurrencySuspended = "suspended" // by the partner: no quotes and no conversions
)

// Scopes of a currency account. Only from an account with ScopeOK is money converted.
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

// Keys of the timers; a currency or a pay-in's id follows.
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

// Payin is money on its way into a balance. The sender's reference is a record of its own,
// PayinText.
type Payin struct {
	ID         string         `json:"id"` // dep_ id
	Status     string         `json:"status"`
	Amount     Amount         `json:"amount"`
	ExpectedAt decision.Stamp `json:"expectedAt"`
}

// PayinText is the sender's reference of a pay-in. It may name people.
type PayinText struct {
	Reference string `json:"reference"`
}

// Activity is a line of a currency account. AmountMinor is positive; Direction is its sign. The
// lines of an account add up to its available balance.
type Activity struct {
	ID           string         `json:"id"`
	Currency     money.Currency `json:"currency"`
	Kind         string         `json:"kind"`
	Direction    string         `json:"direction"` // debit or credit
	AmountMinor  money.Minor    `json:"amountMinor"`
	Transfer     string         `json:"transfer"`     // tg_ id
	PayinID      string         `json:"payinId"`      // of a pay-in, otherwise ""
	ConversionID string         `json:"conversionId"` // of a hold or a conversion, otherwise ""
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// CurrenciesView is a workspace's currency accounts. Pending is the sum of pending pay-ins by
// currency.
type CurrenciesView struct {
	Onboarded bool
	Accounts  []CurrencyAccount
	Pending   map[money.Currency]money.Minor
}

// currencies has the decisions and folds of balances in currencies and of their pay-ins.
type currencies struct{ *State }

// openingRefusal is the code with which the partner refuses to open a balance in a currency; ""
// when it opens one.
func openingRefusal(c money.Currency) fault.Code {
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

// Covered reports whether a balance in a currency can be opened (refusal "") and converted.
// Conversion quotes check it, and the routes under /api/mca show it.
func Covered(c money.Currency) (refusal fault.Code, converts bool) {
	refusal = openingRefusal(c)
	return refusal, refusal == "" && c != "MXN"
}

// Onboard sets a workspace up for conversions. Its reply is CurrenciesView, again and without
// effect for a repeat.
type Onboard struct{ Workspace string }

// ReadCurrencies reads CurrenciesView.
type ReadCurrencies struct{}

// OpenCurrency opens a balance, which becomes active after Delay. Its reply is a CurrencyAccount.
// It is refused with currency_account_exists, currency_unavailable, currency_restricted or
// currency_not_eligible.
type OpenCurrency struct {
	Workspace string
	Currency  money.Currency
	Delay     time.Duration
}

// AnnouncePayin announces test money that arrives at ArrivesAt. Its reply is a Payin. It is refused
// with currency_account_not_found, account_not_ready, account_suspended or limit_exceeded.
type AnnouncePayin struct {
	Workspace, ID string
	Amount        Amount
	Reference     string
	ArrivesAt     time.Time
}

// ReportCurrency is the partner's report of a new Status (active or suspended) or Scope; "" leaves
// it unchanged. Its reply is the CurrencyAccount. A currency that is missing or still opening is
// not_found.
type ReportCurrency struct {
	EventID, Workspace string
	Currency           money.Currency
	Status, Scope      string
}

func (s *State) currenciesView() CurrenciesView {
	v := CurrenciesView{Onboarded: s.Onboarded, Accounts: slices.Clone(s.Currencies),
		Pending: map[money.Currency]money.Minor{}}
	maps.Copy(v.Pending, s.PendingMinor)
	return v
}

// currencyIndex is the index of a currency's account in Currencies, or -1.
func (s *State) currencyIndex(c money.Currency) int {
	return slices.IndexFunc(s.Currencies, func(a CurrencyAccount) bool { return a.Currency == c })
}

// decideCurrency decides the commands of this file. Its errors are the faults that the type of the
// command lists. It panics for a command of another workspace.
func (b currencies) decideCurrency(m decision.Meta, command any) (d decision.Decision, err error) {
	switch c := command.(type) {
	case Onboard:
		b.mustOwn(c.Workspace)
		d = b.onboardWorkspace(m, c)
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
	}
	return d, err
}

// onboardWorkspace sets the workspace up for conversions and replies CurrenciesView. A repeat adds
// no event.
func (b currencies) onboardWorkspace(m decision.Meta, c Onboard) decision.Decision {
	d := decision.Decision{}
	after := *b.State
	if !b.Onboarded {
		d.Events = []decision.Event{CurrenciesOnboarded{Workspace: c.Workspace, At: decision.StampOf(m.At)}}
		after.Onboarded = true
	}
	d.Reply = after.currenciesView()
	return d
}

// openCurrency opens a balance and sets the timer that makes it active after c.Delay. It fails with
// invalid_currency for a currency that is not served, currency_account_exists, or the code of
// openingRefusal.
func (b currencies) openCurrency(m decision.Meta, c OpenCurrency) (decision.Decision, error) {
	if _, served := c.Currency.Exponent(); !served {
		return decision.Decision{}, fault.New(fault.InvalidCurrency, "currency: is not served")
	}
	if b.currencyIndex(c.Currency) >= 0 {
		return decision.Decision{}, fault.New(fault.CurrencyAccountExists,
			"the workspace has a balance in the currency")
	}
	if refusal := openingRefusal(c.Currency); refusal != "" {
		return decision.Decision{}, fault.New(refusal, "the partner opens no balance in the currency")
	}
	a := CurrencyAccount{Currency: c.Currency, Status: CurrencyOpening, Scope: ScopeOK,
		OpenedAt: decision.StampOf(m.At)}
	return decision.Decision{
		Events: []decision.Event{CurrencyOpened{Workspace: c.Workspace, Currency: a.Currency, At: a.OpenedAt}},
		Reply:  a,
		Timers: []decision.Timer{{Key: timerOpen + string(a.Currency), Due: m.At.Add(c.Delay)}},
	}, nil
}

// checkActive checks that the workspace has an active balance in the currency. It fails with
// currency_account_not_found, account_not_ready or account_suspended.
func (s *State) checkActive(currency money.Currency) error {
	i := s.currencyIndex(currency)
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

// announcePayin stores a pending pay-in and sets the timer that settles it at c.ArrivesAt. It fails
// with invalid_currency, invalid_amount, invalid_body (the reference is too long), checkActive's
// faults, or limit_exceeded for too many pay-ins or no room.
func (b currencies) announcePayin(m decision.Meta, c AnnouncePayin) (decision.Decision, error) {
	switch _, served := c.Amount.Currency.Exponent(); {
	case !served:
		return decision.Decision{}, fault.New(fault.InvalidCurrency, "currency: is not served")
	case c.Amount.AmountMinor < 1 || c.Amount.AmountMinor > money.MaxMinor:
		return decision.Decision{}, fault.New(fault.InvalidAmount, "amountMinor: "+money.ErrMinor.Error())
	case utf8.RuneCountInString(c.Reference) > MaxReference:
		return decision.Decision{}, fault.New(fault.InvalidBody, fmt.Sprintf("reference: at most %d characters",
			MaxReference))
	}
	if err := b.checkActive(c.Amount.Currency); err != nil {
		return decision.Decision{}, err
	}
	if b.OpenPayins >= MaxOpenPayins {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("at most %d pay-ins may be under way", MaxOpenPayins))
	}
	if paid := b.PaidIn[c.Amount.Currency]; !b.canReceive(c.Amount) || paid > MaxPaidIn-c.Amount.AmountMinor {
		return decision.Decision{}, balanceFull()
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

// canReceive reports whether a balance can receive more, with its held, pending and bought amounts.
func (s *State) canReceive(more Amount) bool { return s.canReceiveUpTo(more, MaxHolding) }

// canCompleteAbandoned reports whether both balances can take an abandoned conversion that
// completes: the sale is debited again and the bought amount arrives.
func (s *State) canCompleteAbandoned(c Conversion) bool {
	i := s.currencyIndex(c.Sell.Currency)
	return i >= 0 && s.Currencies[i].AvailableMinor >= c.Sell.AmountMinor-MaxHolding && s.canReceiveUpTo(c.Buy, MaxFact)
}

// canReceiveUpTo reports whether a balance, with its held, pending and bought amounts and more,
// stays within most. It is false without a balance in the currency.
func (s *State) canReceiveUpTo(more Amount, most money.Minor) bool {
	i := s.currencyIndex(more.Currency)
	if i < 0 {
		return false
	}
	sum, err := money.Add(s.Currencies[i].AvailableMinor, s.Currencies[i].HeldMinor, more.AmountMinor,
		s.PendingMinor[more.Currency], s.BuyingMinor[more.Currency])
	return err == nil && sum <= most
}

// reportCurrency applies the partner's report to a balance's status and scope. It fails with
// invalid_body for a wrong EventID, Status or Scope, and with not_found for a balance that is
// missing or still opening.
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
	i := b.currencyIndex(c.Currency)
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
		Events: []decision.Event{CurrencyChanged{Workspace: b.Workspace, Currency: a.Currency, Status: a.Status,
			Scope:   a.Scope,
			EventID: c.EventID, At: decision.StampOf(m.At)}},
		Reply: a,
		Onces: []decision.Once{{Scope: ScopeBank, Key: c.EventID, Expires: m.At.Add(BankRetention)}},
	}, nil
}

// currencyOpened makes a balance active that is still opening.
func currencyOpened(s *State, m decision.Meta, _, currency string) (d decision.Decision) {
	b := currencies{s}
	if i := b.currencyIndex(money.Currency(currency)); i >= 0 && b.Currencies[i].Status == CurrencyOpening {
		d.Events = []decision.Event{CurrencyChanged{Workspace: b.Workspace, Currency: b.Currencies[i].Currency,
			Status: CurrencyActive, Scope: b.Currencies[i].Scope, At: decision.StampOf(m.At)}}
	}
	return d
}

// payinDue settles a pending pay-in.
func payinDue(s *State, m decision.Meta, _, id string) decision.Decision {
	if p, known := s.orders.payins.findOrder(id); known && p.Status == PayinPending {
		return currencies{s}.settlePayin(m, p)
	}
	return decision.Decision{}
}

// settlePayin credits a pending pay-in, for which the announcement reserved the room.
func (b currencies) settlePayin(m decision.Meta, p Payin) decision.Decision {
	p.Status = PayinDone
	t := b.newCurrencyTransfer("payin/"+p.ID, m.At)
	t.moveAmount(AccountBank, AccountCurrency, p.Amount)
	line := t.activityLine(ActivityPayin, p.Amount.Currency, p.Amount.AmountMinor)
	line.PayinID = p.ID
	return decision.Decision{
		Events: []decision.Event{PayinArrived{Workspace: b.Workspace, Payin: p.ID, Amount: p.Amount,
			Postings: t.balancedPostings(),
			At:       decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordPayin, ID: p.ID, Document: p}, line.activityRecord()},
	}
}

func (b currencies) applyCurrencyOpened(e CurrencyOpened) {
	b.Workspace = e.Workspace
	b.Currencies = append(b.Currencies, CurrencyAccount{Currency: e.Currency, Status: CurrencyOpening, Scope: ScopeOK,
		OpenedAt: e.At})
}

func (b currencies) applyCurrencyChanged(e CurrencyChanged) {
	a := &b.Currencies[b.mustCurrencyIndex(e.Currency)]
	a.Status, a.Scope = e.Status, e.Scope
}

// mustCurrencyIndex is the index of a currency's account in Currencies. It panics without one.
func (s *State) mustCurrencyIndex(c money.Currency) int {
	i := s.currencyIndex(c)
	if i < 0 {
		panic("BUG: no balance in " + string(c))
	}
	return i
}

// applyPayinAnnounced folds the event: it counts the pay-in and reserves its room. An overflow
// panics.
func (b currencies) applyPayinAnnounced(e PayinAnnounced) {
	b.orders.payins.storeOrder(e.Payin.ID, e.Payin)
	b.OpenPayins++
	addToSum(&b.PendingMinor, e.Payin.Amount)
	if b.PaidIn == nil {
		b.PaidIn = map[money.Currency]money.Minor{}
	}
	b.PaidIn[e.Payin.Amount.Currency] = money.MustAdd(b.PaidIn[e.Payin.Amount.Currency], e.Payin.Amount.AmountMinor)
}

// applyPayinArrived folds the event: it settles the pay-in and books its postings. It panics when
// the pay-in is not loaded or not pending.
func (b currencies) applyPayinArrived(e PayinArrived) {
	p, known := b.orders.payins.findOrder(e.Payin)
	if !known || p.Status != PayinPending {
		panic("BUG: a pay-in that is not under way has arrived")
	}
	p.Status = PayinDone
	b.orders.payins.storeOrder(p.ID, p)
	b.OpenPayins--
	addToSum(&b.PendingMinor, p.Amount.negated())
	b.postCurrencies(e.Postings)
}

// postCurrencies adds the postings of AccountCurrency and AccountCurrencyHeld to the balances in
// currencies, and ignores those of other accounts. It panics for an overflow, which the decision
// has excluded, and for a currency without a balance.
func (s *State) postCurrencies(postings []Posting) {
	for _, p := range postings {
		switch p.Account {
		case AccountCurrency:
			a := &s.Currencies[s.mustCurrencyIndex(p.currencyOrUSD())]
			a.AvailableMinor = money.MustAdd(a.AvailableMinor, p.Amount)
		case AccountCurrencyHeld:
			a := &s.Currencies[s.mustCurrencyIndex(p.currencyOrUSD())]
			a.HeldMinor = money.MustAdd(a.HeldMinor, p.Amount)
		}
	}
}

// currencyTransfer collects the legs of one transfer between currency accounts. The legs sum to
// zero in each currency.
type currencyTransfer struct {
	workspace, cause string
	at               time.Time
	legs             []Posting
}

func (s *State) newCurrencyTransfer(cause string, at time.Time) *currencyTransfer {
	return &currencyTransfer{workspace: s.Workspace, cause: cause, at: at}
}

func (t *currencyTransfer) transferGroup() string {
	return ident.Derive(slotOf(t.workspace), t.at, "transfer/"+t.cause).Format(ident.TransferGroup)
}

// moveAmount debits an amount from one account and credits it to another.
func (t *currencyTransfer) moveAmount(from, to string, a Amount) {
	t.legs = append(t.legs, Posting{Transfer: t.transferGroup(), Account: from, Currency: a.Currency,
		Amount: -a.AmountMinor},
		Posting{Transfer: t.transferGroup(), Account: to, Currency: a.Currency, Amount: a.AmountMinor})
}

func (t *currencyTransfer) balancedPostings() []Posting {
	mustSumToZero(t.legs)
	return t.legs
}

// activityLine is the activity line of the transfer on the balance in a currency; minor is negative
// for a debit. The decisions on pay-ins and conversions store it.
func (t *currencyTransfer) activityLine(kind string, c money.Currency, minor money.Minor) Activity {
	id := ident.Derive(slotOf(t.workspace), t.at, "activity/"+kind+"/"+string(c)+"/"+t.cause).Format(ident.LedgerEntry)
	a := Activity{ID: id, Currency: c, Kind: kind, Direction: "credit", AmountMinor: minor, Transfer: t.transferGroup(),
		CreatedAt: decision.StampOf(t.at)}
	if minor < 0 {
		a.Direction, a.AmountMinor = "debit", -minor
	}
	return a
}

// activityRecord is the record of the line, listed under its currency.
func (a Activity) activityRecord() decision.Record {
	return decision.Record{Kind: RecordActivity, Parent: string(a.Currency), ID: a.ID, Document: a}
}
