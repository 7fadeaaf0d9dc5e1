package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"purser/persistence"
)

// stateKinds are the streams whose state is a record of the stream's kind and id.
var stateKinds = map[string]func(k *recordCheck, r *persistence.Record) error{
	"user":         nil,
	"workspace":    nil,
	"agent":        nil,
	"card":         (*recordCheck).cardRecord,
	"cardholder":   nil,
	"checkout":     func(k *recordCheck, r *persistence.Record) error { return k.checkoutRecord(r) },
	"counterparty": nil,
	"derivation":   nil,
	"ramp":         func(k *recordCheck, r *persistence.Record) error { return k.ramp.rampRecord(r) },
	"balance":      (*recordCheck).balanceRecord,
	"webhook":      nil,
}

// recordCheck compares the records of a shard with its books.
type recordCheck struct{ *books }

// compareRecords holds the shard's records against the books.
func (k *recordCheck) compareRecords(ctx context.Context, journal persistence.Journal) error {
	for kind, compare := range stateKinds {
		if err := k.compareStates(ctx, journal, kind, compare); err != nil {
			return err
		}
	}
	ledger := make(map[string]bool, len(k.transfers)) // transfers that a line of the ledger shows
	err := k.each(ctx, journal, "ledger_entry", func(r *persistence.Record) error { return k.ledgerRecord(r, ledger) })
	if err != nil {
		return err
	}
	for id, t := range k.transfers {
		if !ledger[id] {
			k.differs("ledger_entry", id, "line of the transfer", t.usd+t.suspense+t.coins, "missing")
		}
	}
	if err := k.compareTallies(ctx, journal); err != nil {
		return err
	}
	return k.compareDocuments(ctx, journal)
}

// compareTallies holds what limits are judged by against what there is. A workspace older than its tally has none until it is
// next moved.
func (k *recordCheck) compareTallies(ctx context.Context, journal persistence.Journal) error {
	for _, kind := range []string{"tally_agent", "tally_card", "tally_counterparty", "tally_cardholder",
		"tally_cardholder_active", "tally_webhook_endpoint"} {
		err := k.each(ctx, journal, kind, func(r *persistence.Record) error {
			var got tally
			if err := json.Unmarshal(r.Document, &got); err != nil {
				return err
			}
			want := k.tallies[stream{kind, r.ID}]
			k.differs(kind, r.ID, "count", want.Count, got.Count)
			k.differs(kind, r.ID, "first", want.First, got.First)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compareDocuments compares the kinds of which there is one record per thing in the books.
func (k *recordCheck) compareDocuments(ctx context.Context, journal persistence.Journal) error {
	if err := matchAll(ctx, k.books, journal, "deposit", maps.Clone(k.deposits)); err != nil {
		return err
	}
	if err := matchAll(ctx, k.books, journal, "payout", maps.Clone(k.payouts)); err != nil {
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
	authorizations := map[string]shown{}
	for id, a := range k.authorizations {
		authorizations[id] = shown{id, a.Held, a.Cleared, a.Refunded, a.Decision, a.Reason, a.Status}
	}
	if err := matchAll(ctx, k.books, journal, "authorization", authorizations); err != nil {
		return err
	}
	if err := k.compareIndex(ctx, journal); err != nil {
		return err
	}
	spends := map[string]spent{}
	for id, c := range k.cards {
		if c.month != 0 {
			spends[id] = spent{c.month, c.cents}
		}
	}
	return matchAll(ctx, k.books, journal, "card_spend", spends)
}

// shown is what a record of an authorization says about money.
type shown struct {
	ID            string `json:"id"`
	HeldCents     int64  `json:"heldCents"`
	ClearedCents  int64  `json:"clearedCents"`
	RefundedCents int64  `json:"refundedCents"`
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	Status        string `json:"status"`
}

// indexed is a record of the list of a workspace's authorizations: those of a run, or one of an earlier version.
type indexed struct {
	AuthorizationID  string   `json:"authorizationId"`
	AuthorizationIDs []string `json:"authorizationIds"`
}

type spent struct {
	Month uint32 `json:"month"`
	Cents int64  `json:"cents"`
}

// compareIndex compares the lists of the workspaces' authorizations with the books: each is named once.
func (k *recordCheck) compareIndex(ctx context.Context, journal persistence.Journal) error {
	named := make(map[string]int, len(k.authorizations))
	err := k.each(ctx, journal, "authorization_index", func(r *persistence.Record) error { return k.indexRecord(r, named) })
	if err != nil {
		return err
	}
	for id := range k.authorizations {
		if named[id] == 0 {
			k.differs("authorization_index", id, "record", "one that names it", "missing")
		}
	}
	return nil
}

// indexRecord compares a record of the list with the authorizations that it names.
func (k *recordCheck) indexRecord(r *persistence.Record, named map[string]int) error {
	var run indexed
	if err := json.Unmarshal(r.Document, &run); err != nil {
		return err
	}
	ids := run.AuthorizationIDs
	if run.AuthorizationID != "" {
		ids = []string{run.AuthorizationID}
	}
	if len(ids) == 0 || ids[0] != r.ID {
		k.differs("authorization_index", r.ID, "first authorization", r.ID, fmt.Sprintf("%q", ids))
	}
	for _, id := range ids {
		a, known := k.authorizations[id]
		if !known {
			k.differs("authorization_index", r.ID, "authorization", "one of the events", id)
			continue
		}
		named[id]++
		k.differs("authorization_index", id, "times named", 1, named[id])
		k.differs("authorization_index", id, "workspace", a.Workspace, r.Workspace)
	}
	return nil
}

// each visits all records of a kind in the shard.
func (b *books) each(ctx context.Context, journal persistence.Journal, kind string, visit func(*persistence.Record) error) error {
	after := ""
	for {
		records, err := journal.Records(ctx, b.shard, kind, after, recordsPerRead)
		if err != nil {
			return fmt.Errorf("shard %d: records of kind %s: %w", b.shard, kind, err)
		}
		for i := range records {
			after = records[i].ID
			if err := visit(&records[i]); err != nil {
				b.differs(kind, records[i].ID, "document", "readable", err)
			}
		}
		if len(records) < recordsPerRead {
			return nil
		}
	}
}

// compareStates compares the states of a kind of actor: each stream has one, at the stream's version.
func (k *recordCheck) compareStates(ctx context.Context, journal persistence.Journal, kind string,
	compare func(*recordCheck, *persistence.Record) error) error {
	seen := map[string]bool{}
	err := k.each(ctx, journal, kind, func(r *persistence.Record) error {
		seen[r.ID] = true
		k.differs(kind, r.ID, "version", k.versions[stream{kind, r.ID}], r.Version)
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
			k.differs(kind, key.id, "record", fmt.Sprintf("at version %d", version), "missing")
		}
	}
	return nil
}

func (k *recordCheck) cardRecord(r *persistence.Record) error {
	var t terms
	if err := json.Unmarshal(r.Document, &t); err != nil {
		return err
	}
	k.differs("card", r.ID, "terms", k.card(r.ID).terms, t)
	return nil
}

// balanceRecord compares a workspace's balance term by term.
func (k *recordCheck) balanceRecord(r *persistence.Record) error {
	var d struct {
		UsdCents, HoldCents, CardCents, LedgerCents, SuspenseCents, MonthSpend, ReservedCents, StablecoinCents int64

		WsSeq uint64
		Month uint32

		OpenDeposits, OpenPayouts int
		IncomingCents             int64
		// A state of an older version has the open orders themselves.
		Deposits []deposit
		Payouts  []payout
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	a := k.account(r.ID)
	incoming := d.IncomingCents
	for _, pending := range d.Deposits {
		k.sum("balance", r.ID, "incoming", &incoming, pending.AmountUsdCents)
	}
	k.differs("balance", r.ID, "usd by postings", a.usd, d.UsdCents)
	k.differs("balance", r.ID, "usd by terms", a.ledger+a.card+a.hold+a.reserved, d.UsdCents)
	k.differs("balance", r.ID, "held", a.hold, d.HoldCents)
	k.differs("balance", r.ID, "card cents", a.card, d.CardCents)
	k.differs("balance", r.ID, "ledger cents", a.ledger, d.LedgerCents)
	k.differs("balance", r.ID, "stablecoins", a.coins, d.StablecoinCents)
	k.differs("balance", r.ID, "suspense", a.suspense, d.SuspenseCents)
	k.differs("balance", r.ID, "workspace sequence", a.wsSeq, d.WsSeq)
	k.differs("balance", r.ID, "month's spend", spent{a.month, a.monthSpend}, spent{d.Month, d.MonthSpend})
	k.differs("balance", r.ID, "reserved", a.reserved, d.ReservedCents)
	k.differs("balance", r.ID, "open payouts", a.openPayouts, d.OpenPayouts+len(d.Payouts))
	for _, p := range d.Payouts {
		k.differs("balance", r.ID, "open payout", k.payouts[p.ID], p)
	}
	k.differs("balance", r.ID, "pending deposits", a.pendingDeposits, d.OpenDeposits+len(d.Deposits))
	k.differs("balance", r.ID, "incoming", a.pending, incoming)
	if err := k.ramp.compareOpenRamp(r); err != nil {
		return err
	}
	return k.currencies.compareHoldings(r)
}

// ledgerRecord compares a line of the ledger with its transfer.
func (k *recordCheck) ledgerRecord(r *persistence.Record, seen map[string]bool) error {
	var line struct {
		Direction, TransferGroup string
		AmountCents              int64
	}
	if err := json.Unmarshal(r.Document, &line); err != nil {
		return err
	}
	if line.Direction == "debit" {
		line.AmountCents = -line.AmountCents
	}
	t, known := k.transfers[line.TransferGroup]
	if !known {
		k.differs("ledger_entry", r.ID, "transfer", "one of the events", line.TransferGroup)
		return nil
	}
	k.differs("ledger_entry", r.ID, "lines of its transfer", false, seen[line.TransferGroup])
	seen[line.TransferGroup] = true
	k.differs("ledger_entry", r.ID, "workspace", t.workspace, r.Workspace)
	k.differs("ledger_entry", r.ID, "amount", t.usd+t.suspense+t.coins, line.AmountCents)
	return nil
}

// matchAll compares the records of a kind with what they should say, one for each; it takes them out of expected.
func matchAll[D comparable](ctx context.Context, b *books, journal persistence.Journal, kind string,
	expected map[string]D) error {
	err := b.each(ctx, journal, kind, func(r *persistence.Record) error {
		var got D
		if err := json.Unmarshal(r.Document, &got); err != nil {
			return err
		}
		want, known := expected[r.ID]
		if !known {
			b.differs(kind, r.ID, "record", "none", fmt.Sprintf("%+v", got))
			return nil
		}
		delete(expected, r.ID)
		b.differs(kind, r.ID, "document", fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
		return nil
	})
	if err != nil {
		return err
	}
	for id, want := range expected {
		b.differs(kind, id, "record", fmt.Sprintf("%+v", want), "missing")
	}
	return nil
}
