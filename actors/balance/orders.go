package balance

import (
	"encoding/json"
	"fmt"
	"strings"

	"purser/actors/decision"
	"purser/persistence/money"
)

// orders are the orders that the state has in memory: those that were loaded from their records or
// moved since. The state's document has none of them, so that a command costs the same however many
// orders are open. Before a decision the shell loads what Missing names; after one the orders here
// are what the staged events made of them.
type orders struct {
	deposits         loaded[Deposit]
	payouts          loaded[Payout]
	quotes           loaded[Quote]
	payins           loaded[Payin]
	conversions      loaded[Conversion]
	conversionQuotes loaded[ConversionQuote]
	rampOrders       loaded[RampOrder]
	rampQuotes       loaded[RampQuote]
}

// loaded has orders of one kind by id. A nil order says that no record has the id.
type loaded[O any] map[string]*O

// find returns an order; false when there is none, or it has not been loaded.
func (l loaded[O]) find(id string) (order O, known bool) {
	if found := l[id]; found != nil {
		return *found, true
	}
	return order, false
}

func (l *loaded[O]) store(id string, order O) {
	if *l == nil {
		*l = make(loaded[O])
	}
	(*l)[id] = &order
}

func (l loaded[O]) isLoaded(id string) bool {
	_, there := l[id]
	return there
}

// loadDocument stores an order's stored document, or that there is none.
func (l *loaded[O]) loadDocument(id string, document []byte) error {
	if *l == nil {
		*l = make(loaded[O])
	}
	if document == nil {
		(*l)[id] = nil
		return nil
	}
	order := new(O)
	if err := json.Unmarshal(document, order); err != nil {
		return err
	}
	(*l)[id] = order
	return nil
}

// orderSet is a loaded[O] whatever O is.
type orderSet interface {
	isLoaded(id string) bool
	loadDocument(id string, document []byte) error
}

// ofKind has the orders of a kind of record.
func (o *orders) ofKind(kind string) orderSet {
	switch kind {
	case RecordDeposit:
		return &o.deposits
	case RecordPayout:
		return &o.payouts
	case RecordQuote:
		return &o.quotes
	case RecordPayin:
		return &o.payins
	case RecordConversion:
		return &o.conversions
	case RecordConversionQuote:
		return &o.conversionQuotes
	case RecordRampOrder:
		return &o.rampOrders
	case RecordRampQuote:
		return &o.rampQuotes
	}
	panic("BUG: no order is a " + kind)
}

// timerOrders is the kind of order that a timer is about, by what its key begins with.
var timerOrders = map[string]string{
	timerAnswer: RecordPayout, timerLapse: RecordPayout, timerPayin: RecordPayin, timerUnsent: RecordConversion,
	timerDeskAnswer: RecordConversion, timerDeskLapse: RecordConversion, timerRamp: RecordRampOrder,
}

// orderOf is the order that a command is about; false when it is about none.
func orderOf(command any) (ref decision.Ref, is bool) {
	switch c := command.(type) {
	case SettleDeposit:
		return decision.Ref{Kind: RecordDeposit, ID: c.DepositID}, true
	case CreatePayout:
		if c.Quote != nil {
			return decision.Ref{Kind: RecordQuote, ID: c.Quote.ID}, true
		}
	case DirectPayout:
		return decision.Ref{Kind: RecordPayout, ID: c.ID}, true
	case SubmitPayout:
		return decision.Ref{Kind: RecordPayout, ID: c.ID}, true
	case AnswerPayout:
		return decision.Ref{Kind: RecordPayout, ID: c.ID}, true
	case ReportPayout:
		return decision.Ref{Kind: RecordPayout, ID: c.ID}, true
	case LapsePayout:
		return decision.Ref{Kind: RecordPayout, ID: c.ID}, true
	case LapseConversion:
		return decision.Ref{Kind: RecordConversion, ID: c.ID}, true
	case CreateConversion:
		return decision.Ref{Kind: RecordConversionQuote, ID: c.Quote.ID}, true
	case SubmitConversion:
		return decision.Ref{Kind: RecordConversion, ID: c.ID}, true
	case AnswerConversion:
		return decision.Ref{Kind: RecordConversion, ID: c.ID}, true
	case ReportConversion:
		return decision.Ref{Kind: RecordConversion, ID: c.ID}, true
	case CreateRampOrder:
		return decision.Ref{Kind: RecordRampQuote, ID: c.Quote.ID}, true
	case AcceptRampOrder:
		return decision.Ref{Kind: RecordRampOrder, ID: c.ID}, true
	case RefuseRampOrder:
		return decision.Ref{Kind: RecordRampOrder, ID: c.ID}, true
	case ReportRamp:
		return decision.Ref{Kind: RecordRampOrder, ID: c.ID}, c.Session == nil
	case decision.Fire:
		for prefix, kind := range timerOrders {
			if id, about := strings.CutPrefix(c.Key, prefix); about {
				return decision.Ref{Kind: kind, ID: id}, true
			}
		}
	}
	return ref, false
}

// Missing names the record that a decision on the command needs and that the state does not have in
// memory.
func (s *State) Missing(command any) (ref decision.Ref, missing bool) {
	ref, is := orderOf(command)
	return ref, is && !s.orders.ofKind(ref.Kind).isLoaded(ref.ID)
}

// Load gives the state a record that Missing has named, as it is stored; nil when the workspace has
// none of the name.
func (s *State) Load(ref decision.Ref, document []byte) error {
	if err := s.orders.ofKind(ref.Kind).loadDocument(ref.ID, document); err != nil {
		return fmt.Errorf("record %s: %w", ref.Kind, err)
	}
	return nil
}

// Loaded is how many orders the state has in memory.
func (s *State) Loaded() int {
	o := &s.orders
	return len(o.deposits) + len(o.payouts) + len(o.quotes) + len(o.payins) + len(o.conversions) +
		len(o.conversionQuotes) +
		len(o.rampOrders) + len(o.rampQuotes)
}

// Forget drops the orders in memory. Their records must have all that was decided.
func (s *State) Forget() { s.orders = orders{} }

// addOpen adds to a sum by currency, which has no entry for a sum of nothing.
func addOpen(sums *map[money.Currency]money.Minor, a Amount, sign money.Minor) {
	if *sums == nil {
		*sums = make(map[money.Currency]money.Minor)
	}
	after := money.MustAdd((*sums)[a.Currency], sign*a.AmountMinor)
	if after < 0 {
		panic(fmt.Sprintf("BUG: %d %s of open orders", after, a.Currency))
	}
	if (*sums)[a.Currency] = after; after == 0 {
		delete(*sums, a.Currency)
	}
}

// formerLists are the orders that a state's document had in it before each had a record of its own
// beside it. The records have the same documents, so that of the lists only sums and counts are
// kept.
type formerLists struct {
	Deposits         []Deposit         `json:"deposits"`
	Payouts          []Payout          `json:"payouts"`
	Quotes           []Quote           `json:"quotes"`
	Payins           []Payin           `json:"payins"`
	ConversionQuotes []ConversionQuote `json:"conversionQuotes"`
	Conversions      []Conversion      `json:"conversions"`
	RampQuotes       []RampQuote       `json:"rampQuotes"`
	RampOrders       []RampOrder       `json:"rampOrders"`
}

// UnmarshalJSON reads a state's document of this version or of the one before.
func (s *State) UnmarshalJSON(document []byte) error {
	type plain State
	if err := json.Unmarshal(document, (*plain)(s)); err != nil {
		return err
	}
	var former formerLists
	if err := json.Unmarshal(document, &former); err != nil {
		return err
	}
	s.OpenPayouts += len(former.Payouts)
	s.OpenDeposits += len(former.Deposits)
	for _, d := range former.Deposits {
		s.IncomingCents = money.MustAdd(s.IncomingCents, d.AmountUsdCents)
	}
	s.OpenPayins += len(former.Payins)
	for _, p := range former.Payins {
		addOpen(&s.PendingMinor, p.Amount, 1)
	}
	s.OpenConversions += len(former.Conversions)
	for _, c := range former.Conversions {
		addOpen(&s.BuyingMinor, c.Buy, 1)
	}
	s.OpenRampOrders += len(former.RampOrders)
	for _, q := range former.Quotes {
		s.QuoteLocks.addLock(q.LockExpiresAt)
	}
	for _, q := range former.ConversionQuotes {
		s.ConversionQuoteLocks.addLock(q.LockExpiresAt)
	}
	for _, q := range former.RampQuotes {
		s.RampQuoteLocks.addLock(q.ExpiresAt)
	}
	return nil
}
