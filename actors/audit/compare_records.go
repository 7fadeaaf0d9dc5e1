package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"purser/persistence"
	"purser/persistence/money"
)

// recordCheck compares the records of a shard with its totals.
type recordCheck struct{ *shardTotals }

// compareRecords compares all records of the shard with the totals; differences are findings. It
// fails when the journal cannot be read.
func (k *recordCheck) compareRecords(ctx context.Context, journal persistence.Snapshot) error {
	for kind, row := range stateKinds {
		if err := k.compareStates(ctx, journal, kind, row.compare); err != nil {
			return err
		}
	}
	ledger := make(map[string]bool, len(k.transfers)) // transfers with a ledger line
	err := k.eachRecord(ctx, journal, "ledger_entry", func(r *persistence.Record) error {
		return k.ledgerRecord(r,
			ledger)
	})
	if err != nil {
		return err
	}
	for id, t := range k.transfers {
		if !ledger[id] {
			k.expectEqual("ledger_entry", id, "line of the transfer", t.usd+t.suspense+t.coins, "missing")
		}
	}
	if err := k.compareTallies(ctx, journal); err != nil {
		return err
	}
	return k.compareDocuments(ctx, journal)
}

// compareDocuments compares the kinds that have one record per thing in the totals; differences are
// findings. It fails when the journal cannot be read.
func (k *recordCheck) compareDocuments(ctx context.Context, journal persistence.Snapshot) error {
	if err := matchAll(ctx, k.shardTotals, journal, "deposit", maps.Clone(k.deposits)); err != nil {
		return err
	}
	if err := matchAll(ctx, k.shardTotals, journal, "payout", maps.Clone(k.payouts)); err != nil {
		return err
	}
	if err := matchAll(ctx, k.shardTotals, journal, "fx_quote", maps.Clone(k.fxQuotes)); err != nil {
		return err
	}
	if err := k.currencies.compareCurrencies(ctx, journal); err != nil {
		return err
	}
	if err := k.ramp.compareRamp(ctx, journal); err != nil {
		return err
	}
	if err := k.comparePhysical(ctx, journal); err != nil {
		return err
	}
	authorizations := map[string]authorizationDocument{}
	for id, a := range k.authorizations {
		authorizations[id] = authorizationDocument{id, a.Asked, a.Held, a.Cleared, a.Refunded, a.Decision, a.Reason,
			a.Status}
	}
	if err := matchAll(ctx, k.shardTotals, journal, "authorization", authorizations); err != nil {
		return err
	}
	if err := k.compareIndex(ctx, journal); err != nil {
		return err
	}
	spends := map[string]monthSpend{}
	for id, c := range k.cards {
		if c.month != 0 {
			spends[id] = monthSpend{c.month, c.cents}
		}
	}
	return matchAll(ctx, k.shardTotals, journal, "card_spend", spends)
}

// authorizationDocument is the part of an authorization's record that has money.
type authorizationDocument struct {
	ID            string      `json:"id"`
	AmountCents   money.Cents `json:"amountCents"`
	HeldCents     money.Cents `json:"heldCents"`
	ClearedCents  money.Cents `json:"clearedCents"`
	RefundedCents money.Cents `json:"refundedCents"`
	Decision      string      `json:"decision"`
	Reason        string      `json:"reason"`
	Status        string      `json:"status"`
}

type monthSpend struct {
	Month uint32      `json:"month"`
	Cents money.Cents `json:"cents"`
}

// compareIndex compares the authorization indexes with the totals: each authorization is listed
// once. It fails when the journal cannot be read.
func (k *recordCheck) compareIndex(ctx context.Context, journal persistence.Snapshot) error {
	named := make(map[string]int, len(k.authorizations))
	err := k.eachRecord(ctx, journal, "authorization_index",
		func(r *persistence.Record) error { return k.indexRecord(r, named) })
	if err != nil {
		return err
	}
	for id := range k.authorizations {
		if named[id] == 0 {
			k.expectEqual("authorization_index", id, "record", "an index record", "missing")
		}
	}
	return nil
}

// indexRecord compares an index record with the authorizations that it lists, and counts them in
// named. It fails when the document does not decode.
func (k *recordCheck) indexRecord(r *persistence.Record, named map[string]int) error {
	var run struct{ AuthorizationIDs []string } // the authorizations of a run
	if err := json.Unmarshal(r.Document, &run); err != nil {
		return err
	}
	ids := run.AuthorizationIDs
	if len(ids) == 0 || ids[0] != r.ID {
		k.expectEqual("authorization_index", r.ID, "first authorization", r.ID, fmt.Sprintf("%q", ids))
	}
	for _, id := range ids {
		a, known := k.authorizations[id]
		if !known {
			k.expectEqual("authorization_index", r.ID, "authorization", "one of the events", id)
			continue
		}
		named[id]++
		k.expectEqual("authorization_index", id, "times listed", 1, named[id])
		k.expectEqual("authorization_index", id, "workspace", a.Workspace, r.Workspace)
	}
	return nil
}

// eachRecord visits all records of a kind in the shard. An error of visit is a finding. It fails
// when the journal cannot be read.
func (b *shardTotals) eachRecord(ctx context.Context, journal persistence.Snapshot, kind string,
	visit func(*persistence.Record) error) error {
	after := ""
	for {
		records, err := journal.Records(ctx, b.shard, kind, after, recordsPerRead)
		if err != nil {
			return fmt.Errorf("shard %d: records of kind %s: %w", b.shard, kind, err)
		}
		for i := range records {
			after = records[i].ID
			if err := visit(&records[i]); err != nil {
				b.expectEqual(kind, records[i].ID, "document", "readable", err)
			}
		}
		if len(records) < recordsPerRead {
			return nil
		}
	}
}

// compareStates compares the states of a kind of actor: each stream has one, at the stream's
// version. compare, if not nil, compares the document. It fails when the journal cannot be read.
func (k *recordCheck) compareStates(ctx context.Context, journal persistence.Snapshot, kind string,
	compare func(*recordCheck, *persistence.Record) error) error {
	seen := map[string]bool{}
	err := k.eachRecord(ctx, journal, kind, func(r *persistence.Record) error {
		seen[r.ID] = true
		k.expectEqual(kind, r.ID, "version", k.versions[stream{kind, r.ID}], r.Version)
		if compare == nil {
			return nil
		}
		return compare(k, r)
	})
	if err != nil {
		return err
	}
	for key, version := range k.versions {
		if key.kind == kind && !seen[key.id] {
			k.expectEqual(kind, key.id, "record", fmt.Sprintf("at version %d", version), "missing")
		}
	}
	return nil
}

// cardRecord compares a card's terms with those of its last event. It fails when the document does
// not decode.
func (k *recordCheck) cardRecord(r *persistence.Record) error {
	var t cardTerms
	if err := json.Unmarshal(r.Document, &t); err != nil {
		return err
	}
	k.expectEqual("card", r.ID, "terms", k.cardOf(r.ID).terms, t)
	return nil
}

// balanceRecord compares a workspace's balance with the totals, term by term; differences are
// findings. It fails when the document does not decode.
func (k *recordCheck) balanceRecord(r *persistence.Record) error {
	var d struct {
		UsdCents, HoldCents, CardCents, LedgerCents, SuspenseCents, MonthSpend, ReservedCents,
		StablecoinCents money.Cents

		WsSeq uint64
		Month uint32

		OpenDeposits, OpenPayouts int
		IncomingCents             money.Cents
		PaidOut                   dayTotal
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	a := k.accountOf(r.ID)
	k.expectEqual("balance", r.ID, "usd by postings", a.usd, d.UsdCents)
	k.expectEqual("balance", r.ID, "usd by terms", a.ledger+a.card+a.hold+a.reserved, d.UsdCents)
	k.expectEqual("balance", r.ID, "held", a.hold, d.HoldCents)
	k.expectEqual("balance", r.ID, "card cents", a.card, d.CardCents)
	k.expectEqual("balance", r.ID, "ledger cents", a.ledger, d.LedgerCents)
	k.expectEqual("balance", r.ID, "stablecoins", a.coins, d.StablecoinCents)
	k.expectEqual("balance", r.ID, "suspense", a.suspense, d.SuspenseCents)
	k.expectEqual("balance", r.ID, "workspace sequence", a.wsSeq, d.WsSeq)
	k.expectEqual("balance", r.ID, "month's spend", monthSpend{a.month, a.monthSpend}, monthSpend{d.Month,
		d.MonthSpend})
	k.expectEqual("balance", r.ID, "reserved", a.reserved, d.ReservedCents)
	k.expectEqual("balance", r.ID, "open payouts", a.openPayouts, d.OpenPayouts)
	k.expectEqual("balance", r.ID, "paid out", a.paidOut, d.PaidOut)
	k.expectEqual("balance", r.ID, "pending deposits", a.pendingDeposits, d.OpenDeposits)
	k.expectEqual("balance", r.ID, "incoming", a.pending, d.IncomingCents)
	if err := k.ramp.compareOpenRamp(r); err != nil {
		return err
	}
	return k.currencies.compareHoldings(r)
}

// ledgerRecord compares a ledger line with its transfer, and marks the transfer in seen. It fails
// when the document does not decode.
func (k *recordCheck) ledgerRecord(r *persistence.Record, seen map[string]bool) error {
	var line struct {
		Direction, TransferGroup string
		AmountCents              money.Cents
		BalanceCents             *money.Cents // nil in lines of other accounts
	}
	if err := json.Unmarshal(r.Document, &line); err != nil {
		return err
	}
	if line.Direction == "debit" {
		line.AmountCents = -line.AmountCents
	}
	k.checkDirection("ledger_entry", r.ID, line.Direction)
	t, known := k.transfers[line.TransferGroup]
	if !known {
		k.expectEqual("ledger_entry", r.ID, "transfer", "one of the events", line.TransferGroup)
		return nil
	}
	k.expectEqual("ledger_entry", r.ID, "lines of its transfer", false, seen[line.TransferGroup])
	seen[line.TransferGroup] = true
	k.expectEqual("ledger_entry", r.ID, "workspace", t.workspace, r.Workspace)
	k.expectEqual("ledger_entry", r.ID, "amount", t.usd+t.suspense+t.coins, line.AmountCents)
	k.expectEqual("ledger_entry", r.ID, "balance after", orNone(t.after), orNone(line.BalanceCents))
	return nil
}

// orNone is an amount that not every ledger line has.
func orNone(cents *money.Cents) any {
	if cents == nil {
		return "none"
	}
	return *cents
}

// checkDirection reports a line of a ledger that is neither a debit nor a credit.
func (b *shardTotals) checkDirection(kind, id, direction string) {
	if direction != "debit" {
		b.expectEqual(kind, id, "direction", "credit", direction)
	}
}

// matchAll compares the records of a kind with the expected documents, one record each; differences
// are findings. It removes the matched ones from expected. It fails when the journal cannot be
// read.
func matchAll[D comparable](ctx context.Context, b *shardTotals, journal persistence.Snapshot, kind string,
	expected map[string]D) error {
	err := b.eachRecord(ctx, journal, kind, func(r *persistence.Record) error {
		var got D
		if err := json.Unmarshal(r.Document, &got); err != nil {
			return err
		}
		want, known := expected[r.ID]
		if !known {
			b.expectEqual(kind, r.ID, "record", "none", fmt.Sprintf("%+v", got))
			return nil
		}
		delete(expected, r.ID)
		b.expectEqual(kind, r.ID, "document", fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
		return nil
	})
	if err != nil {
		return err
	}
	for id, want := range expected {
		b.expectEqual(kind, id, "record", fmt.Sprintf("%+v", want), "missing")
	}
	return nil
}
