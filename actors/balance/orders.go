package balance

import (
	"encoding/json"
	"fmt"
	"strings"

	"purser/actors/decision"
	"purser/persistence/money"
)

// orders are the orders in memory: those loaded from their records or moved since. The state's
// document has none of them, so the cost of a command does not grow with the number of open orders.
// Before a decision the actor loads the record that Missing names; after it the orders here reflect
// the staged events.
type orders struct {
	deposits         loadedOrders[Deposit]
	payouts          loadedOrders[Payout]
	quotes           loadedOrders[Quote]
	payins           loadedOrders[Payin]
	conversions      loadedOrders[Conversion]
	conversionQuotes loadedOrders[ConversionQuote]
	rampOrders       loadedOrders[RampOrder]
	rampQuotes       loadedOrders[RampQuote]
}

// loadedOrders has orders of one kind by id. A nil order says that no record has the id.
type loadedOrders[O any] map[string]*O

// findOrder returns an order; false when no record has the id or it is not loaded.
func (l loadedOrders[O]) findOrder(id string) (order O, known bool) {
	if found := l[id]; found != nil {
		return *found, true
	}
	return order, false
}

func (l *loadedOrders[O]) storeOrder(id string, order O) {
	if *l == nil {
		*l = make(loadedOrders[O])
	}
	(*l)[id] = &order
}

// isLoaded reports whether an order is in memory, or known to have no record.
func (l loadedOrders[O]) isLoaded(id string) bool {
	_, there := l[id]
	return there
}

// loadDocument stores an order's document; a nil document says that no record has the id. It fails
// when the document does not decode.
func (l *loadedOrders[O]) loadDocument(id string, document []byte) error {
	if *l == nil {
		*l = make(loadedOrders[O])
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

// orderSet is loadedOrders of any kind of order.
type orderSet interface {
	isLoaded(id string) bool
	loadDocument(id string, document []byte) error
}

// ofKind returns the orders of a kind of record. An unknown kind panics.
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

// timerOrders is the record kind of the order that a timer is about, by the prefix of its key.
var timerOrders = map[string]string{
	timerAnswer: RecordPayout, timerLapse: RecordPayout, timerPayin: RecordPayin, timerUnsent: RecordConversion,
	timerDeskAnswer: RecordConversion, timerDeskLapse: RecordConversion, timerRamp: RecordRampOrder,
}

// orderCommand is a command about an order. namedOrder returns the record of the order, and false
// when this command names none.
type orderCommand interface{ namedOrder() (decision.Ref, bool) }

func orderRef(kind, id string) (decision.Ref, bool) { return decision.Ref{Kind: kind, ID: id}, true }

func (c SettleDeposit) namedOrder() (decision.Ref, bool) { return orderRef(RecordDeposit, c.DepositID) }

func (c CreatePayout) namedOrder() (decision.Ref, bool) {
	if c.Quote == nil {
		return decision.Ref{}, false
	}
	return orderRef(RecordQuote, c.Quote.ID)
}

func (c DirectPayout) namedOrder() (decision.Ref, bool) { return orderRef(RecordPayout, c.ID) }
func (c SubmitPayout) namedOrder() (decision.Ref, bool) { return orderRef(RecordPayout, c.ID) }
func (c AnswerPayout) namedOrder() (decision.Ref, bool) { return orderRef(RecordPayout, c.ID) }
func (c ReportPayout) namedOrder() (decision.Ref, bool) { return orderRef(RecordPayout, c.ID) }
func (c LapsePayout) namedOrder() (decision.Ref, bool)  { return orderRef(RecordPayout, c.ID) }

func (c CreateConversion) namedOrder() (decision.Ref, bool) {
	return orderRef(RecordConversionQuote, c.Quote.ID)
}
func (c SubmitConversion) namedOrder() (decision.Ref, bool) { return orderRef(RecordConversion, c.ID) }
func (c AnswerConversion) namedOrder() (decision.Ref, bool) { return orderRef(RecordConversion, c.ID) }
func (c ReportConversion) namedOrder() (decision.Ref, bool) { return orderRef(RecordConversion, c.ID) }
func (c LapseConversion) namedOrder() (decision.Ref, bool)  { return orderRef(RecordConversion, c.ID) }

func (c CreateRampOrder) namedOrder() (decision.Ref, bool) {
	return orderRef(RecordRampQuote, c.Quote.ID)
}
func (c AcceptRampOrder) namedOrder() (decision.Ref, bool) { return orderRef(RecordRampOrder, c.ID) }
func (c RefuseRampOrder) namedOrder() (decision.Ref, bool) { return orderRef(RecordRampOrder, c.ID) }

func (c ReportRamp) namedOrder() (decision.Ref, bool) {
	return decision.Ref{Kind: RecordRampOrder, ID: c.ID}, c.Session == nil
}

// orderReference is the order that a command or a fired timer is about; false for one without an
// order.
func orderReference(command any) (ref decision.Ref, is bool) {
	switch c := command.(type) {
	case orderCommand:
		return c.namedOrder()
	case decision.Fire:
		for prefix, kind := range timerOrders {
			if id, about := strings.CutPrefix(c.Key, prefix); about {
				return orderRef(kind, id)
			}
		}
	}
	return ref, false
}

// Missing names the record that a decision on the command needs and that is not in memory; false
// when the decision can be made.
func (s *State) Missing(command any) (ref decision.Ref, missing bool) {
	ref, is := orderReference(command)
	return ref, is && !s.orders.ofKind(ref.Kind).isLoaded(ref.ID)
}

// Load adds a record that Missing named, as stored; nil when the workspace has no such record. It
// fails when the document does not decode.
func (s *State) Load(ref decision.Ref, document []byte) error {
	if err := s.orders.ofKind(ref.Kind).loadDocument(ref.ID, document); err != nil {
		return fmt.Errorf("record %s: %w", ref.Kind, err)
	}
	return nil
}

// Loaded is the number of orders in memory. The balance actor calls Forget when it is too large.
func (s *State) Loaded() int {
	o := &s.orders
	return len(o.deposits) + len(o.payouts) + len(o.quotes) + len(o.payins) + len(o.conversions) +
		len(o.conversionQuotes) +
		len(o.rampOrders) + len(o.rampQuotes)
}

// Forget drops the orders in memory. It must be called only with every staged decision committed,
// so that the records have the newest orders.
func (s *State) Forget() { s.orders = orders{} }

// addToSum adds a to the sum of its currency, and deletes a sum that becomes zero. A negative sum
// panics.
func addToSum(sums *map[money.Currency]money.Minor, a Amount) {
	if *sums == nil {
		*sums = make(map[money.Currency]money.Minor)
	}
	after := money.MustAdd((*sums)[a.Currency], a.AmountMinor)
	if after < 0 {
		panic(fmt.Sprintf("BUG: %d %s of open orders", after, a.Currency))
	}
	if (*sums)[a.Currency] = after; after == 0 {
		delete(*sums, a.Currency)
	}
}
