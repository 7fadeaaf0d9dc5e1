package balance

import (
	"fmt"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/money"
)

// Statuses of a quote. A locked one that is not used in time is expired; that is told from the clock, and is no event.
const (
	QuoteLocked  = "locked"
	QuoteUsed    = "used"
	QuoteExpired = "expired"
)

// QuoteLock is how long a quote's rate is firm.
const QuoteLock = 120 * time.Second

// Amount is money in a currency's smallest units.
type Amount struct {
	Currency    money.Currency `json:"currency"`
	AmountMinor money.Minor    `json:"amountMinor"`
}

// Quote is a firm rate for one wire abroad: Sell dollars out of the balance buy exactly Buy. Rate is units bought for a dollar.
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

// StatusAt is the quote's status as the clock has it.
func (q Quote) StatusAt(now time.Time) string {
	return statusAt(q.Status, q.LockExpiresAt, now)
}

func statusAt(status string, ends decision.Stamp, now time.Time) string {
	if status == QuoteLocked && !now.Before(ends.Time) {
		return QuoteExpired
	}
	return status
}

// CheckBody refuses what nobody can be quoted a rate for.
func (c *LockQuote) CheckBody() error {
	if _, served := c.Buy.Currency.Exponent(); !served || c.Buy.Currency == money.USD {
		return otherCurrency()
	}
	if c.Buy.AmountMinor <= 0 || c.Buy.AmountMinor > money.MaxAmount {
		return fault.New(fault.InvalidAmount, fmt.Sprintf("amountMinor: 1 to %d", money.MaxAmount))
	}
	return nil
}

func otherCurrency() error {
	return fault.New(fault.InvalidCurrency, "currency: the recipient's, and not USD")
}

// lockQuote keeps a rate. The amount sold is rounded half-even to the cent here, once.
func (s *State) lockQuote(m decision.Meta, c LockQuote) (decision.Decision, error) {
	if err := c.CheckBody(); err != nil {
		return decision.Decision{}, err
	}
	if !c.Recipient.International {
		return decision.Decision{}, fault.New(fault.InvalidBody, "counterpartyId: a recipient abroad")
	}
	if c.Buy.Currency != c.Recipient.Currency {
		return decision.Decision{}, otherCurrency()
	}
	cents, err := c.Rate.Cost(money.USD, c.Buy.Currency, c.Buy.AmountMinor)
	if err != nil || cents < 1 || cents > money.MaxAmount {
		return decision.Decision{}, fault.New(fault.InvalidAmount,
			fmt.Sprintf("amountMinor: worth 1 to %d cents", money.MaxAmount))
	}
	now := decision.StampOf(m.At)
	if len(unexpired(s.Quotes, now.Time)) >= MaxOpenQuotes {
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("at most %d quotes may be locked", MaxOpenQuotes))
	}
	q := Quote{
		ID: c.ID, Status: QuoteLocked, CounterpartyID: c.Recipient.ID, Sell: Amount{money.USD, cents}, Buy: c.Buy,
		Rate: c.Rate.String(), LockExpiresAt: decision.StampOf(m.At.Add(QuoteLock)), CreatedAt: now,
	}
	return decision.Decision{
		Events:  []decision.Event{FXQuoteLocked{Workspace: c.Workspace, Quote: q}},
		Reply:   q,
		Records: []decision.Record{{Kind: RecordQuote, ID: q.ID, Document: q}},
	}, nil
}

// checkQuote says whether a payout may use the quote it names. What is no longer in the state is used, or has expired.
func (s *State) checkQuote(m decision.Meta, c CreatePayout) error {
	if c.Quote == nil {
		return nil
	}
	locked := slices.ContainsFunc(s.Quotes, func(q Quote) bool { return q.ID == c.Quote.ID })
	switch {
	case c.Quote.Status == QuoteUsed:
		return fault.New(fault.QuoteUsed, "a quote is for one payout")
	case c.Quote.StatusAt(m.At) == QuoteExpired:
		return fault.New(fault.QuoteExpired, "the quote's rate is no longer firm")
	case !locked:
		return fault.New(fault.QuoteUsed, "a quote is for one payout")
	case c.Quote.CounterpartyID != c.Recipient.ID:
		return fault.New(fault.QuoteMismatch, "counterpartyId: the one that the quote is for")
	case c.Quote.Sell.AmountMinor != c.AmountCents:
		return fault.New(fault.QuoteMismatch, "amountCents: what the quote sells")
	}
	return nil
}

// unexpired are the quotes of any kind that can still be used.
func unexpired[Q interface{ StatusAt(time.Time) string }](quotes []Q, at time.Time) []Q {
	return slices.DeleteFunc(slices.Clone(quotes), func(q Q) bool { return q.StatusAt(at) == QuoteExpired })
}

func (s *State) applyQuoteLocked(e FXQuoteLocked) {
	s.Workspace = e.Workspace
	s.Quotes = append(unexpired(s.Quotes, e.Quote.CreatedAt.Time), e.Quote)
}

func (s *State) useQuote(id string) {
	i := slices.IndexFunc(s.Quotes, func(q Quote) bool { return q.ID == id })
	if i < 0 {
		panic("BUG: used a quote that is not locked")
	}
	s.Quotes = slices.Delete(s.Quotes, i, i+1)
}
