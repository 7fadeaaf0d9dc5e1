package audit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"purser/persistence"
	"purser/persistence/money"
)

// currencies are what the events say of balances in currencies, in smallest units.
type currencies struct {
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
func (b *books) addIncoming(workspace string, a amount, payin bool, sign int64) {
	key := holding{workspace, a.Currency}
	sums := b.currencies.incoming[key]
	if payin {
		b.sum("currency", key.String(), "pay-ins under way", &sums.pending, sign*a.AmountMinor)
	} else {
		b.sum("currency", key.String(), "bought by open conversions", &sums.buying, sign*a.AmountMinor)
	}
	b.currencies.incoming[key] = sums
}

// shownBy is what lines of activity show, and how many they are: one for each posting.
type shownBy struct{ minor, lines int64 }

// underWay is how many things a workspace has that are not finished.
type underWay struct{ payins, conversions int }

func (b *books) opened(workspace string, payins, conversions int) {
	o := b.currencies.open[workspace]
	b.currencies.open[workspace] = underWay{o.payins + payins, o.conversions + conversions}
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

func newCurrencies() currencies {
	return currencies{holdings: map[holding]*held{}, payins: map[string]payin{},
		conversions: map[string]conversion{}, quotes: map[string]string{}, lines: map[movedIn]shownBy{},
		open: map[string]underWay{}, incoming: map[holding]incoming{}}
}

func (b *books) holding(workspace, currency string) *held {
	key := holding{workspace, currency}
	if b.currencies.holdings[key] == nil {
		b.currencies.holdings[key] = &held{}
	}
	return b.currencies.holdings[key]
}

func (b *books) currencyOpened(e *persistence.Event) error {
	var p struct{ Currency string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	_, again := b.currencies.holdings[holding{e.Workspace, p.Currency}]
	b.differs("currency", e.Workspace+" "+p.Currency, "opened before", false, again)
	b.holding(e.Workspace, p.Currency)
	return nil
}

func (b *books) payinAnnounced(e *persistence.Event) error {
	var p struct{ Payin payin }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.differs("payin", p.Payin.ID, "announced before", payin{}, b.currencies.payins[p.Payin.ID])
	b.currencies.payins[p.Payin.ID] = p.Payin
	b.opened(e.Workspace, 1, 0)
	b.addIncoming(e.Workspace, p.Payin.Amount, true, 1)
	return nil
}

func (b *books) payinArrived(e *persistence.Event) error {
	var p struct {
		Payin    string
		Amount   amount
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.differs("payin", p.Payin, "arrived from", payin{p.Payin, "pending", p.Amount}, b.currencies.payins[p.Payin])
	b.currencies.payins[p.Payin] = payin{p.Payin, "arrived", p.Amount}
	b.opened(e.Workspace, -1, 0)
	b.addIncoming(e.Workspace, p.Amount, true, -1)
	b.movedMinor(e, p.Postings, map[booking]int64{
		{"", "bank", p.Amount.Currency}: -p.Amount.AmountMinor, {"", "currency", p.Amount.Currency}: p.Amount.AmountMinor,
	})
	return nil
}

// movedMinor books postings of currencies, each transfer of which must sum to zero in each, and holds what they did to each
// account against what they should have done.
func (b *books) movedMinor(e *persistence.Event, postings []posting, want map[booking]int64) {
	sums, got := map[movedIn]int64{}, map[booking]int64{}
	for _, p := range postings {
		if p.Currency == "" {
			p.Currency = string(money.USD)
		}
		part, account := movedIn{e.Workspace, p.Transfer, p.Currency}, booking{"", p.Account, p.Currency}
		sum, moved := sums[part], got[account]
		b.sum("transfer", p.Transfer, "sum in "+p.Currency, &sum, p.Cents)
		b.sum("event", e.ID, "postings to "+p.Account, &moved, p.Cents)
		sums[part], got[account] = sum, moved
		switch h := b.holding(e.Workspace, p.Currency); p.Account {
		case "currency":
			b.sum("currency", e.Workspace+" "+p.Currency, "available", &h.available, p.Cents)
			line := b.currencies.lines[part]
			b.sum("transfer", p.Transfer, "available in "+p.Currency, &line.minor, p.Cents)
			line.lines++
			b.currencies.lines[part] = line
		case "currency_held":
			b.sum("currency", e.Workspace+" "+p.Currency, "held", &h.set, p.Cents)
		}
	}
	for part, sum := range sums {
		b.differs("transfer", part.transfer, "sum of postings in "+part.currency, 0, sum)
	}
	for account, minor := range got {
		b.differs("event", e.ID, "postings to "+account.account+" in "+account.currency, want[account], minor)
	}
	for account, minor := range want {
		b.differs("event", e.ID, "postings to "+account.account+" in "+account.currency, minor, got[account])
	}
}

// compareHoldings compares the balances of a workspace's record with the events.
func (b *books) compareHoldings(r *persistence.Record) error {
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
	for key, want := range b.currencies.holdings {
		if key.workspace == r.ID {
			got, there := shown[key]
			b.differs("currency", key.String(), "opened", true, there)
			b.differs("currency", key.String(), "available and held", *want, got)
			b.differs("currency", key.String(), "under way", b.currencies.incoming[key],
				incoming{d.PendingMinor[key.currency], d.BuyingMinor[key.currency]})
			delete(shown, key)
		}
	}
	for key := range shown {
		b.differs("currency", key.String(), "opened", true, false)
	}
	b.differs("balance", r.ID, "pay-ins and conversions under way", b.currencies.open[r.ID],
		underWay{d.OpenPayins + len(d.Payins), d.OpenConversions + len(d.Conversions)})
	for _, c := range d.Conversions {
		b.differs("conversion", c.ID, "open", b.currencies.conversions[c.ID], c)
	}
	for _, p := range d.Payins {
		b.differs("payin", p.ID, "under way", b.currencies.payins[p.ID], p)
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
func (b *books) compareCurrencies(ctx context.Context, journal persistence.Journal) error {
	left := maps.Clone(b.currencies.lines)
	err := b.each(ctx, journal, "currency_activity", func(r *persistence.Record) error {
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
		b.differs("currency_activity", r.ID, "transfer of the events", true, known)
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
		b.differs("currency_activity", part.transfer, "what the lines leave in "+part.currency, shownBy{}, left[part])
	}
	if err := matchAll(ctx, b, journal, "conversion", maps.Clone(b.currencies.conversions)); err != nil {
		return err
	}
	return matchAll(ctx, b, journal, "payin", maps.Clone(b.currencies.payins))
}
