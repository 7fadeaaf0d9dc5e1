package authorizer

import (
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Funds are the three terms of a workspace's spendable balance.
type Funds struct {
	LedgerCents   money.Cents // from the journal; only Follow writes it
	CardCents     money.Cents // sum of the decision log; only decisions write it
	ReservedCents money.Cents // debits reserved before their journal append
}

// Spendable returns ledger + card − reserved, in cents, or an error when that does not fit an
// amount.
func (f Funds) Spendable() (money.Cents, error) {
	if f.ReservedCents < 0 {
		panic("BUG: negative reservations")
	}
	return money.Add(f.LedgerCents, f.CardCents, -f.ReservedCents)
}

// spendableCents returns the spendable balance for a decision's view, 0 for unknown funds.
func spendableCents(f *fundsItem) (money.Cents, error) {
	if f == nil {
		return 0, nil
	}
	return f.funds.Spendable()
}

// Funds returns the terms of a workspace, and false when it is unknown or cannot be read.
func (e *Engine) Funds(workspace ident.UUID) (Funds, bool) {
	it, err := e.shards.of(workspace).peekFunds(&workspace)
	if err != nil {
		return Funds{}, false
	}
	return it.funds, it.wasRead()
}

func (it *fundsItem) wasRead() bool { return it.wsSeq != 0 || it.funds != Funds{} }

// writeFollowed adds the terms that Follow writes to a batch.
func writeFollowed(b *batch, workspace *ident.UUID, f *Funds) {
	b.setKey(appendFundsKey(nil, workspace, termLedger), appendCents(nil, f.LedgerCents))
	writeReserved(b, workspace, f)
}

// writeReserved adds the sum of the reservations to a batch.
func writeReserved(b *batch, workspace *ident.UUID, f *Funds) {
	b.setKey(appendFundsKey(nil, workspace, termReserved), appendCents(nil, f.ReservedCents))
}
