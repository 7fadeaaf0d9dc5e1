package audit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"purser/persistence"
	"purser/persistence/money"
)

// currencyTotals are the events of balances in currencies, in minor units.
type currencyTotals struct {
	*shardTotals
	holdings map[currencyHolding]*holdingAmounts
	payins   map[string]payin
	// conversions and quotes are by id; users name the conversion that used each quote.
	conversions map[string]conversion
	quotes      map[string]conversionQuote
	users       map[string]string
	// lines are the changes of available balances by transfer, which activity lines must show.
	lines map[transferCurrency]activityTotal
	open  map[string]openCounts // by workspace
	// incoming are the sums of pending pay-ins and of open purchases, by balance.
	incoming map[currencyHolding]incomingAmounts
}

// incomingAmounts are the amounts that pending pay-ins and open conversions bring to a balance.
type incomingAmounts struct{ pending, buying money.Minor }

// addIncoming adds a to a balance's pending pay-ins, or to its purchases. An overflow is a finding.
func (cb *currencyTotals) addIncoming(workspace string, a amount, payin bool) {
	key := currencyHolding{workspace, a.Currency}
	sums := cb.incoming[key]
	if payin {
		addChecked(cb.shardTotals, "currency", key.String(), "pay-ins under way", &sums.pending, a.AmountMinor)
	} else {
		addChecked(cb.shardTotals, "currency", key.String(), "bought by open conversions", &sums.buying, a.AmountMinor)
	}
	cb.incoming[key] = sums
}

// activityTotal is the sum and the number of activity lines: one line per posting.
type activityTotal struct {
	minor money.Minor
	lines int64
}

// openCounts are the numbers of a workspace's pending pay-ins and open conversions.
type openCounts struct{ payins, conversions int }

func (cb *currencyTotals) addOpen(workspace string, payins, conversions int) {
	o := cb.open[workspace]
	cb.open[workspace] = openCounts{o.payins + payins, o.conversions + conversions}
}

// currencyHolding identifies a workspace's balance in a currency.
type currencyHolding struct{ workspace, currency string }

func (h currencyHolding) String() string { return h.workspace + " " + h.currency }

// transferCurrency is the part of a transfer in one currency.
type transferCurrency struct{ workspace, transfer, currency string }

// holdingAmounts are the available and held amounts of a balance, in minor units.
type holdingAmounts struct{ available, held money.Minor }

// amount is money of any currency.
type amount struct {
	Currency    string      `json:"currency"`
	AmountMinor money.Minor `json:"amountMinor"`
}

func (a amount) negated() amount { return amount{a.Currency, -a.AmountMinor} }

// payin is the state of a pay-in by its events; its record must equal it.
type payin struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Amount amount `json:"amount"`
}

func newCurrencyTotals(b *shardTotals) *currencyTotals {
	return &currencyTotals{shardTotals: b, holdings: map[currencyHolding]*holdingAmounts{}, payins: map[string]payin{},
		conversions: map[string]conversion{}, quotes: map[string]conversionQuote{}, users: map[string]string{},
		lines: map[transferCurrency]activityTotal{},
		open:  map[string]openCounts{}, incoming: map[currencyHolding]incomingAmounts{}}
}

func (cb *currencyTotals) amountsOf(workspace, currency string) *holdingAmounts {
	key := currencyHolding{workspace, currency}
	if cb.holdings[key] == nil {
		cb.holdings[key] = &holdingAmounts{}
	}
	return cb.holdings[key]
}

// currencyOpened folds the opening of a balance in a currency. It fails when the payload does not
// decode.
func (cb *currencyTotals) currencyOpened(e *persistence.Event) error {
	var p struct{ Currency string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	_, again := cb.holdings[currencyHolding{e.Workspace, p.Currency}]
	cb.expectEqual("currency", e.Workspace+" "+p.Currency, "opened before", false, again)
	cb.amountsOf(e.Workspace, p.Currency)
	return nil
}

// payinAnnounced folds a pending pay-in. It fails when the payload does not decode.
func (cb *currencyTotals) payinAnnounced(e *persistence.Event) error {
	var p struct{ Payin payin }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.expectEqual("payin", p.Payin.ID, "announced before", payin{}, cb.payins[p.Payin.ID])
	cb.payins[p.Payin.ID] = p.Payin
	cb.addOpen(e.Workspace, 1, 0)
	cb.addIncoming(e.Workspace, p.Payin.Amount, true)
	return nil
}

// payinArrived folds an arrived pay-in and checks its postings. It fails when the payload does not
// decode.
func (cb *currencyTotals) payinArrived(e *persistence.Event) error {
	var p struct {
		Payin    string
		Amount   amount
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.expectEqual("payin", p.Payin, "arrived from", payin{p.Payin, "pending", p.Amount}, cb.payins[p.Payin])
	cb.payins[p.Payin] = payin{p.Payin, "arrived", p.Amount}
	cb.addOpen(e.Workspace, -1, 0)
	cb.addIncoming(e.Workspace, p.Amount.negated(), true)
	cb.expectCurrencyPostings(e, p.Postings, map[bookAccount]money.Minor{
		{"", "bank", p.Amount.Currency}: -p.Amount.AmountMinor, {"", "currency",
			p.Amount.Currency}: p.Amount.AmountMinor,
	})
	return nil
}

// expectCurrencyPostings adds postings of currencies and compares the sums by account with the
// expected ones. Each transfer must sum to zero in each currency. Differences are findings.
func (cb *currencyTotals) expectCurrencyPostings(e *persistence.Event, postings []posting,
	want map[bookAccount]money.Minor) {
	sums, got := map[transferCurrency]money.Minor{}, map[bookAccount]money.Minor{}
	for _, p := range postings {
		if p.Currency == "" {
			p.Currency = string(money.USD)
		}
		part, account := transferCurrency{e.Workspace, p.Transfer, p.Currency}, bookAccount{"", p.Account, p.Currency}
		sum, moved := sums[part], got[account]
		addChecked(cb.shardTotals, "transfer", p.Transfer, "sum in "+p.Currency, &sum, p.Amount)
		addChecked(cb.shardTotals, "event", e.ID, "postings to "+p.Account, &moved, p.Amount)
		sums[part], got[account] = sum, moved
		switch h := cb.amountsOf(e.Workspace, p.Currency); p.Account {
		case "currency":
			addChecked(cb.shardTotals, "currency", e.Workspace+" "+p.Currency, "available", &h.available, p.Amount)
			line := cb.lines[part]
			addChecked(cb.shardTotals, "transfer", p.Transfer, "available in "+p.Currency, &line.minor, p.Amount)
			line.lines++
			cb.lines[part] = line
		case "currency_held":
			addChecked(cb.shardTotals, "currency", e.Workspace+" "+p.Currency, "held", &h.held, p.Amount)
		}
	}
	for part, sum := range sums {
		cb.expectEqual("transfer", part.transfer, "sum of postings in "+part.currency, 0, sum)
	}
	for account, minor := range got {
		cb.expectEqual("event", e.ID, "postings to "+account.account+" in "+account.currency, want[account], minor)
	}
	for account, minor := range want {
		cb.expectEqual("event", e.ID, "postings to "+account.account+" in "+account.currency, minor, got[account])
	}
}

// compareHoldings compares the currency balances of a workspace's record with the events;
// differences are findings. It fails when the document does not decode.
func (cb *currencyTotals) compareHoldings(r *persistence.Record) error {
	var d struct {
		Currencies []struct {
			Currency                  string
			AvailableMinor, HeldMinor money.Minor
		}
		OpenPayins, OpenConversions int
		PendingMinor, BuyingMinor   map[string]money.Minor
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	shown := map[currencyHolding]holdingAmounts{}
	for _, c := range d.Currencies {
		shown[currencyHolding{r.ID, c.Currency}] = holdingAmounts{c.AvailableMinor, c.HeldMinor}
	}
	for key, want := range cb.holdings {
		if key.workspace == r.ID {
			got, there := shown[key]
			cb.expectEqual("currency", key.String(), "opened", true, there)
			cb.expectEqual("currency", key.String(), "available and held", *want, got)
			cb.expectEqual("currency", key.String(), "under way", cb.incoming[key],
				incomingAmounts{d.PendingMinor[key.currency], d.BuyingMinor[key.currency]})
			delete(shown, key)
		}
	}
	for key := range shown {
		cb.expectEqual("currency", key.String(), "opened", true, false)
	}
	cb.expectEqual("balance", r.ID, "pay-ins and conversions under way", cb.open[r.ID],
		openCounts{d.OpenPayins, d.OpenConversions})
	return nil
}

// compareCurrencies compares the records of balances in currencies with the events. The activity
// lines must show every change of an available balance, and nothing else. Differences are findings.
// It fails when the journal cannot be read.
func (cb *currencyTotals) compareCurrencies(ctx context.Context, journal persistence.Snapshot) error {
	left := maps.Clone(cb.lines)
	err := cb.eachRecord(ctx, journal, "currency_activity", func(r *persistence.Record) error {
		var line struct {
			Currency, Direction, Transfer string
			AmountMinor                   money.Minor
		}
		if err := json.Unmarshal(r.Document, &line); err != nil {
			return err
		}
		if line.Direction == "debit" {
			line.AmountMinor = -line.AmountMinor
		}
		cb.checkDirection("currency_activity", r.ID, line.Direction)
		part := transferCurrency{r.Workspace, line.Transfer, line.Currency}
		was, known := left[part]
		cb.expectEqual("currency_activity", r.ID, "transfer of the events", true, known)
		left[part] = activityTotal{was.minor - line.AmountMinor, was.lines - 1}
		return nil
	})
	if err != nil {
		return err
	}
	byTransfer := func(x, y transferCurrency) int {
		return slices.Compare([]string{x.transfer, x.currency}, []string{y.transfer, y.currency})
	}
	for _, part := range slices.SortedFunc(maps.Keys(left), byTransfer) {
		cb.expectEqual("currency_activity", part.transfer, "remainder of the lines in "+part.currency, activityTotal{},
			left[part])
	}
	if err := matchAll(ctx, cb.shardTotals, journal, "conversion", maps.Clone(cb.conversions)); err != nil {
		return err
	}
	if err := matchAll(ctx, cb.shardTotals, journal, "conversion_quote", maps.Clone(cb.quotes)); err != nil {
		return err
	}
	return matchAll(ctx, cb.shardTotals, journal, "payin", maps.Clone(cb.payins))
}
