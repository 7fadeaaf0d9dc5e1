package balance

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// transfer is one movement of dollars between an account of the workspace and a counterpart. Cents goes into the account;
// negative goes out of it.
type transfer struct {
	workspace   string
	account     string
	counterpart string
	cents       int64
	source      string
	reference   string
	card        *string
	cause       string // what ids are derived from: the same cause makes the same entry
	at          time.Time
}

func (t transfer) group() string {
	return ident.Derive(slotOf(t.workspace), t.at, "transfer/"+t.cause).Format(ident.TransferGroup)
}

// postings are the two legs of the transfer.
func (t transfer) postings() []Posting {
	group := t.group()
	legs := []Posting{{Transfer: group, Account: t.account, Cents: t.cents},
		{Transfer: group, Account: t.counterpart, Cents: -t.cents}}
	mustSumToZero(legs)
	return legs
}

// record is the line of the ledger that shows the transfer.
func (t transfer) record() decision.Record {
	id := ident.Derive(slotOf(t.workspace), t.at, "entry/"+t.cause).Format(ident.LedgerEntry)
	entry := LedgerEntry{
		ID: id, Source: t.source, Direction: "credit", AmountCents: t.cents, Reference: t.reference, TransferGroup: t.group(),
		CardID: t.card, CreatedAt: decision.StampOf(t.at),
	}
	if t.cents < 0 {
		entry.Direction, entry.AmountCents = "debit", -t.cents
	}
	if t.account == AccountUSD {
		entry.BalanceCents = new(int64) // see bookLines
	}
	return decision.Record{Kind: RecordLedgerEntry, ID: id, Document: entry}
}

// bookLines notes on the ledger lines of a decision when they are booked, and on those of the dollars what these are after each.
func (s *State) bookLines(m decision.Meta, records []decision.Record) {
	at, dollars := decision.StampOf(m.At), s.UsdCents
	for i := range records {
		line, ok := records[i].Document.(LedgerEntry)
		if !ok {
			continue
		}
		line.BookedAt = &at
		if line.BalanceCents != nil {
			dollars = money.MustAdd(dollars, line.Signed())
			after := dollars
			line.BalanceCents = &after
		}
		records[i].Document = line
	}
}

// mustSumToZero is the last look at postings before they are returned.
func mustSumToZero(postings []Posting) {
	type part struct {
		transfer string
		currency money.Currency
	}
	sums := map[part]int64{}
	for _, p := range postings {
		key := part{p.Transfer, p.currency()}
		sums[key] = money.MustAdd(sums[key], p.Cents)
	}
	for key, sum := range sums {
		if sum != 0 {
			panic(fmt.Sprintf("BUG: transfer %s is off by %d %s", key.transfer, sum, key.currency))
		}
	}
}

func slotOf(workspace string) ident.Slot {
	u, err := ident.Parse(ident.Workspace, workspace)
	if err != nil {
		panic("BUG: workspace id " + workspace)
	}
	return u.Slot()
}
