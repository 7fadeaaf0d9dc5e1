package audit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"purser/persistence"
	"purser/persistence/money"
)

// currencyBooks add up the events of balances in currencies, in smallest units.
type currencyBooks struct {
	*books
	holdings map[holding]*held
	payins   map[string]payin
	// conversions by id; quotes have the conversion that used each
	conversions map[string]conversion
	quotes      map[string]string
	// lines are what transfers did to what is available, to be shown by lines of activity.
	lines map[movedIn]shownBy
	open  map[string]underWay // by workspace
	// incoming has the sums of pay-ins and purchases under way, by balance.
	incoming map[holding]incoming
}

// incoming has the amounts that pay-ins under way and open conversions bring to a balance.
type incoming struct{ pending, buying int64 }

// addIncoming adds a pay-in, or a purchase, to the incoming sums of a balance.
func (cb *currencyBooks) addIncoming(workspace string, a amount, payin bool, sign int64) {
	key := holding{workspace, a.Currency}
	sums := cb.incoming[key]
	if payin {
		cb.sum("currency", key.String(), "pay-ins under way", &sums.pending, sign*a.AmountMinor)
	} else {
		cb.sum("currency", key.String(), "bought by open conversions", &sums.buying, sign*a.AmountMinor)
	}
	cb.incoming[key] = sums
}

// shownBy is what lines of activity show, and how many they are: one for each posting.
type shownBy struct{ minor, lines int64 }

// underWay is how many things a workspace has that are not finished.
type underWay struct{ payins, conversions int }

func (cb *currencyBooks) opened(workspace string, payins, conversions int) {
	o := cb.open[workspace]
	cb.open[workspace] = underWay{o.payins + payins, o.conversions + conversions}
}

// holding is a workspace's balance in a currency.
type holding struct{ workspace, currency string }

func (h holding) String() string { return h.workspace + " " + h.currency }

// movedIn is a transfer's part in one currency.
type movedIn struct{ workspace, transfer, currency string }

// held is what is in a balance.
type held struct{ available, set int64 }

// amount is money of any currency.
type amount struct {
	Currency    string `json:"currency"`
	AmountMinor int64  `json:"amountMinor"`
}

// payin is what the events say of a pay-in, and what its record must say.
type payin struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Amount amount `json:"amount"`
}

func newCurrencyBooks(b *books) *currencyBooks {
	return &currencyBooks{books: b, holdings: map[holding]*held{}, payins: map[string]payin{},
		conversions: map[string]conversion{}, quotes: map[string]string{}, lines: map[movedIn]shownBy{},
		open: map[string]underWay{}, incoming: map[holding]incoming{}}
}

func (cb *currencyBooks) holding(workspace, currency string) *held {
	key := holding{workspace, currency}
	if cb.holdings[key] == nil {
		cb.holdings[key] = &held{}
	}
	return cb.holdings[key]
}

func (cb *currencyBooks) currencyOpened(e *persistence.Event) error {
	var p struct{ Currency string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	_, again := cb.holdings[holding{e.Workspace, p.Currency}]
	cb.differs("currency", e.Workspace+" "+p.Currency, "opened before", false, again)
	cb.holding(e.Workspace, p.Currency)
	return nil
}

func (cb *currencyBooks) payinAnnounced(e *persistence.Event) error {
	var p struct{ Payin payin }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.differs("payin", p.Payin.ID, "announced before", payin{}, cb.payins[p.Payin.ID])
	cb.payins[p.Payin.ID] = p.Payin
	cb.opened(e.Workspace, 1, 0)
	cb.addIncoming(e.Workspace, p.Payin.Amount, true, 1)
	return nil
}

func (cb *currencyBooks) payinArrived(e *persistence.Event) error {
	var p struct {
		Payin    string
		Amount   amount
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.differs("payin", p.Payin, "arrived from", payin{p.Payin, "pending", p.Amount}, cb.payins[p.Payin])
	cb.payins[p.Payin] = payin{p.Payin, "arrived", p.Amount}
	cb.opened(e.Workspace, -1, 0)
	cb.addIncoming(e.Workspace, p.Amount, true, -1)
	cb.movedMinor(e, p.Postings, map[booking]int64{
		{"", "bank", p.Amount.Currency}: -p.Amount.AmountMinor, {"", "currency", p.Amount.Currency}: p.Amount.AmountMinor,
	})
	return nil
}

// movedMinor books postings of currencies, each transfer of which must sum to zero in each, and holds what they did to each
// account against what they should have done.
func (cb *currencyBooks) movedMinor(e *persistence.Event, postings []posting, want map[booking]int64) {
	sums, got := map[movedIn]int64{}, map[booking]int64{}
	for _, p := range postings {
		if p.Currency == "" {
			p.Currency = string(money.USD)
		}
		part, account := movedIn{e.Workspace, p.Transfer, p.Currency}, booking{"", p.Account, p.Currency}
		sum, moved := sums[part], got[account]
		cb.sum("transfer", p.Transfer, "sum in "+p.Currency, &sum, p.Cents)
		cb.sum("event", e.ID, "postings to "+p.Account, &moved, p.Cents)
		sums[part], got[account] = sum, moved
		switch h := cb.holding(e.Workspace, p.Currency); p.Account {
		case "currency":
			cb.sum("currency", e.Workspace+" "+p.Currency, "available", &h.available, p.Cents)
			line := cb.lines[part]
			cb.sum("transfer", p.Transfer, "available in "+p.Currency, &line.minor, p.Cents)
			line.lines++
			cb.lines[part] = line
		case "currency_held":
			cb.sum("currency", e.Workspace+" "+p.Currency, "held", &h.set, p.Cents)
		}
	}
	for part, sum := range sums {
		cb.differs("transfer", part.transfer, "sum of postings in "+part.currency, 0, sum)
	}
	for account, minor := range got {
		cb.differs("event", e.ID, "postings to "+account.account+" in "+account.currency, want[account], minor)
	}
	for account, minor := range want {
		cb.differs("event", e.ID, "postings to "+account.account+" in "+account.currency, minor, got[account])
	}
}

// compareHoldings compares the balances of a workspace's record with the events.
func (cb *currencyBooks) compareHoldings(r *persistence.Record) error {
	var d struct {
		Currencies []struct {
			Currency                  string
			AvailableMinor, HeldMinor int64
		}
		OpenPayins, OpenConversions int
		PendingMinor, BuyingMinor   map[string]int64
		// A state of an older version has the open orders themselves.
		Payins      []payin
		Conversions []conversion
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	for _, p := range d.Payins {
		d.PendingMinor = plusMinor(d.PendingMinor, p.Amount)
	}
	for _, c := range d.Conversions {
		d.BuyingMinor = plusMinor(d.BuyingMinor, c.Buy)
	}
	shown := map[holding]held{}
	for _, c := range d.Currencies {
		shown[holding{r.ID, c.Currency}] = held{c.AvailableMinor, c.HeldMinor}
	}
	for key, want := range cb.holdings {
		if key.workspace == r.ID {
			got, there := shown[key]
			cb.differs("currency", key.String(), "opened", true, there)
			cb.differs("currency", key.String(), "available and held", *want, got)
			cb.differs("currency", key.String(), "under way", cb.incoming[key],
				incoming{d.PendingMinor[key.currency], d.BuyingMinor[key.currency]})
			delete(shown, key)
		}
	}
	for key := range shown {
		cb.differs("currency", key.String(), "opened", true, false)
	}
	cb.differs("balance", r.ID, "pay-ins and conversions under way", cb.open[r.ID],
		underWay{d.OpenPayins + len(d.Payins), d.OpenConversions + len(d.Conversions)})
	for _, c := range d.Conversions {
		cb.differs("conversion", c.ID, "open", cb.conversions[c.ID], c)
	}
	for _, p := range d.Payins {
		cb.differs("payin", p.ID, "under way", cb.payins[p.ID], p)
	}
	return nil
}

func plusMinor(sums map[string]int64, a amount) map[string]int64 {
	if sums == nil {
		sums = map[string]int64{}
	}
	sums[a.Currency] += a.AmountMinor
	return sums
}

// compareCurrencies compares the records about balances in currencies with the events. The lines of activity are what moved what
// is available, no more and no less.
func (cb *currencyBooks) compareCurrencies(ctx context.Context, journal persistence.Journal) error {
	left := maps.Clone(cb.lines)
	err := cb.each(ctx, journal, "currency_activity", func(r *persistence.Record) error {
		var line struct {
			Currency, Direction, Transfer string
			AmountMinor                   int64
		}
		if err := json.Unmarshal(r.Document, &line); err != nil {
			return err
		}
		if line.Direction == "debit" {
			line.AmountMinor = -line.AmountMinor
		}
		part := movedIn{r.Workspace, line.Transfer, line.Currency}
		was, known := left[part]
		cb.differs("currency_activity", r.ID, "transfer of the events", true, known)
		left[part] = shownBy{was.minor - line.AmountMinor, was.lines - 1}
		return nil
	})
	if err != nil {
		return err
	}
	byTransfer := func(x, y movedIn) int {
		return slices.Compare([]string{x.transfer, x.currency}, []string{y.transfer, y.currency})
	}
	for _, part := range slices.SortedFunc(maps.Keys(left), byTransfer) {
		cb.differs("currency_activity", part.transfer, "what the lines leave in "+part.currency, shownBy{}, left[part])
	}
	if err := matchAll(ctx, cb.books, journal, "conversion", maps.Clone(cb.conversions)); err != nil {
		return err
	}
	return matchAll(ctx, cb.books, journal, "payin", maps.Clone(cb.payins))
}
