package balance

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// transfer is one movement of dollars or stablecoins between an account of the workspace and a
// counterpart account. Positive cents go into the workspace's account, negative ones out of it.
type transfer struct {
	workspace   string
	account     string
	counterpart string
	cents       money.Cents
	source      string
	reference   string
	card        *string
	cause       string // ids are derived from it: equal causes give equal ids
	at          time.Time
}

func (t transfer) transferGroup() string {
	return ident.Derive(slotOf(t.workspace), t.at, "transfer/"+t.cause).Format(ident.TransferGroup)
}

// balancedPostings are the two legs of the transfer, for its event. It panics when they do not sum
// to zero, or for a workspace that is not an id.
func (t transfer) balancedPostings() []Posting {
	group := t.transferGroup()
	legs := []Posting{{Transfer: group, Account: t.account, Amount: t.cents.Minor()},
		{Transfer: group, Account: t.counterpart, Amount: -t.cents.Minor()}}
	mustSumToZero(legs)
	return legs
}

// ledgerRecord is the ledger line that shows the transfer; bookLines completes it. Each decision
// that moves dollars or stablecoins stores one. It panics for a workspace that is not an id.
func (t transfer) ledgerRecord() decision.Record {
	id := ident.Derive(slotOf(t.workspace), t.at, "entry/"+t.cause).Format(ident.LedgerEntry)
	entry := LedgerEntry{
		ID: id, Source: t.source, Direction: "credit", AmountCents: t.cents, Reference: t.reference,
		TransferGroup: t.transferGroup(),
		CardID:        t.card, CreatedAt: decision.StampOf(t.at),
	}
	if t.cents < 0 {
		entry.Direction, entry.AmountCents = "debit", -t.cents
	}
	if t.account == AccountUSD {
		entry.BalanceCents = new(money.Cents) // set by bookLines
	}
	return decision.Record{Kind: RecordLedgerEntry, ID: id, Document: entry}
}

// bookLines sets the booking time of the decision's ledger lines. On lines of AccountUSD it also
// sets the workspace's dollars after each line. It panics when a sum overflows.
func (s *State) bookLines(m decision.Meta, records []decision.Record) {
	at, dollars := decision.StampOf(m.At), s.UsdCents
	for i := range records {
		line, ok := records[i].Document.(LedgerEntry)
		if !ok {
			continue
		}
		line.BookedAt = at
		if line.BalanceCents != nil {
			dollars = money.MustAdd(dollars, line.Signed())
			after := dollars
			line.BalanceCents = &after
		}
		records[i].Document = line
	}
}

// mustSumToZero panics when a transfer's postings do not sum to zero in each currency.
func mustSumToZero(postings []Posting) {
	type part struct {
		transfer string
		currency money.Currency
	}
	sums := map[part]money.Minor{}
	for _, p := range postings {
		key := part{p.Transfer, p.currencyOrUSD()}
		sums[key] = money.MustAdd(sums[key], p.Amount)
	}
	for key, sum := range sums {
		if sum != 0 {
			panic(fmt.Sprintf("BUG: transfer %s is off by %d %s", key.transfer, sum, key.currency))
		}
	}
}

// slotOf is the slot of a workspace, from its id. It panics for a text that is not a workspace id.
// Every id derived for a transfer or a line has it.
func slotOf(workspace string) ident.Slot {
	u, err := ident.Parse(ident.Workspace, workspace)
	if err != nil {
		panic("BUG: workspace id " + workspace)
	}
	return u.Slot()
}
