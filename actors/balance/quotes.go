package balance

import (
	"fmt"
	"maps"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/money"
)

// Statuses of a quote. A locked quote expires by the clock, without an event.
const (
	QuoteLocked  = "locked"
	QuoteUsed    = "used"
	QuoteExpired = "expired"
)

// QuoteLock is the time for which a quote's rate is firm.
const QuoteLock = 120 * time.Second

// MaxQuoteMinor is the most that one quote buys, in minor units of the currency bought.
const MaxQuoteMinor money.Minor = 1_000_000_000_000

// Amount is money in minor units of its currency.
type Amount struct {
	Currency    money.Currency `json:"currency"`
	AmountMinor money.Minor    `json:"amountMinor"`
}

func (a Amount) negated() Amount { return Amount{a.Currency, -a.AmountMinor} }

// Quote is a firm rate for one wire abroad: Sell, in dollars, buys exactly Buy. Rate is units
// bought for one dollar.
type Quote struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"` // locked or used
	CounterpartyID string         `json:"counterpartyId"`
	Sell           Amount         `json:"sell"`
	Buy            Amount         `json:"buy"`
	Rate           string         `json:"rate"`
	LockExpiresAt  decision.Stamp `json:"lockExpiresAt"`
	CreatedAt      decision.Stamp `json:"createdAt"`
}

// StatusAt is the quote's status at a time: locked, expired or used.
func (q Quote) StatusAt(now time.Time) string {
	return quoteStatusAt(q.Status, q.LockExpiresAt, now)
}

// quoteStatusAt is the status at a time of a quote that is stored with a status: a locked quote is
// expired from lockEnds on.
func quoteStatusAt(stored string, lockEnds decision.Stamp, now time.Time) string {
	if stored == QuoteLocked && !now.Before(lockEnds.Time) {
		return QuoteExpired
	}
	return stored
}

// CheckBody fails with invalid_currency for dollars or a currency that is not served, and with
// invalid_amount for an amount out of range.
func (c *LockQuote) CheckBody() error {
	if _, served := c.Buy.Currency.Exponent(); !served || c.Buy.Currency == money.USD {
		return otherCurrency()
	}
	if c.Buy.AmountMinor <= 0 || c.Buy.AmountMinor > MaxQuoteMinor {
		return fault.New(fault.InvalidAmount, fmt.Sprintf("amountMinor: 1 to %d", MaxQuoteMinor))
	}
	return nil
}

func otherCurrency() error {
	return fault.New(fault.InvalidCurrency, "currency: the recipient's, and not USD")
}

// lockQuote stores a firm rate. The amount sold is rounded up to the cent here, once. It fails with
// CheckBody's faults, invalid_body for a recipient in the US, invalid_currency, invalid_amount for
// a worth out of range, or limit_exceeded for too many quotes.
func (b payouts) lockQuote(m decision.Meta, c LockQuote) (decision.Decision, error) {
	if err := c.CheckBody(); err != nil {
		return decision.Decision{}, err
	}
	if !c.Recipient.International {
		return decision.Decision{}, fault.New(fault.InvalidBody, "counterpartyId: a recipient abroad")
	}
	if c.Buy.Currency != c.Recipient.Currency {
		return decision.Decision{}, otherCurrency()
	}
	sell, err := c.Rate.Cost(money.USD, c.Buy.Currency, c.Buy.AmountMinor)
	if err != nil || sell < 1 || sell.Cents() > money.MaxAmount {
		return decision.Decision{}, fault.New(fault.InvalidAmount,
			fmt.Sprintf("amountMinor: worth 1 to %d cents", money.MaxAmount))
	}
	now := decision.StampOf(m.At)
	if b.QuoteLocks.lockedAt(now.Time) >= MaxOpenQuotes {
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d quotes may be locked",
			MaxOpenQuotes))
	}
	q := Quote{
		ID: c.ID, Status: QuoteLocked, CounterpartyID: c.Recipient.ID, Sell: Amount{money.USD, sell}, Buy: c.Buy,
		Rate: c.Rate.String(), LockExpiresAt: decision.StampOf(m.At.Add(QuoteLock)), CreatedAt: now,
	}
	return decision.Decision{
		Events:  []decision.Event{FXQuoteLocked{Workspace: c.Workspace, Quote: q}},
		Reply:   q,
		Records: []decision.Record{{Kind: RecordQuote, ID: q.ID, Document: q}},
	}, nil
}

// checkQuote checks the quote that a payout names; without one it passes. It fails with quote_used
// (also for an unknown quote), quote_expired or quote_mismatch.
func (b payouts) checkQuote(m decision.Meta, c CreatePayout) error {
	if c.Quote == nil {
		return nil
	}
	q, known := b.orders.quotes.findOrder(c.Quote.ID)
	switch {
	case !known || q.Status == QuoteUsed:
		return fault.New(fault.QuoteUsed, "a quote is for one payout")
	case q.StatusAt(m.At) == QuoteExpired:
		return fault.New(fault.QuoteExpired, "the quote's rate is no longer firm")
	case c.Quote.CounterpartyID != c.Recipient.ID:
		return fault.New(fault.QuoteMismatch, "counterpartyId: not the recipient of the quote")
	case c.Quote.Sell.AmountMinor.Cents() != c.AmountCents:
		return fault.New(fault.QuoteMismatch, "amountCents: not the amount that the quote sells")
	}
	return nil
}

// QuoteLocks counts locked quotes by the millisecond of Unix time at which their locks end.
type QuoteLocks map[int64]int

// lockedAt is the number of quotes locked at a time.
func (l QuoteLocks) lockedAt(at time.Time) (locked int) {
	for end, n := range l {
		if at.Before(time.UnixMilli(end)) {
			locked += n
		}
	}
	return locked
}

func (l *QuoteLocks) addLock(ends decision.Stamp) {
	if *l == nil {
		*l = make(QuoteLocks)
	}
	(*l)[ends.UnixMilli()]++
}

// lockQuote adds a quote made at a time, and drops the quotes that have expired by then.
func (l *QuoteLocks) lockQuote(made, ends decision.Stamp) {
	maps.DeleteFunc(*l, func(end int64, _ int) bool { return made.UnixMilli() >= end })
	l.addLock(ends)
}

// removeLock removes one quote whose lock ends at ends. Without one it changes nothing.
func (l QuoteLocks) removeLock(ends decision.Stamp) {
	end := ends.UnixMilli()
	if l[end] > 1 {
		l[end]--
		return
	}
	delete(l, end)
}

func (b payouts) applyQuoteLocked(e FXQuoteLocked) {
	b.Workspace = e.Workspace
	b.orders.quotes.storeOrder(e.Quote.ID, e.Quote)
	b.QuoteLocks.lockQuote(e.Quote.CreatedAt, e.Quote.LockExpiresAt)
}

// useQuote marks a payout quote as used. It panics when the quote is not loaded or not locked.
func (s *State) useQuote(id string) {
	q, known := s.orders.quotes.findOrder(id)
	if !known || q.Status != QuoteLocked {
		panic("BUG: used a quote that is not locked")
	}
	q.Status = QuoteUsed
	s.orders.quotes.storeOrder(id, q)
	s.QuoteLocks.removeLock(q.LockExpiresAt)
}
