package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"purser/persistence"
)

// stateKinds are the streams whose state is a record of the stream's kind and id.
var stateKinds = map[string]func(b *books, r *persistence.Record) error{
	"user":         nil,
	"workspace":    nil,
	"agent":        nil,
	"card":         (*books).cardRecord,
	"cardholder":   nil,
	"checkout":     (*books).checkoutRecord,
	"counterparty": nil,
	"derivation":   nil,
	"ramp":         (*books).rampRecord,
	"balance":      (*books).balanceRecord,
	"webhook":      nil,
}

// compareRecords holds the shard's records against the books.
func (b *books) compareRecords(ctx context.Context, journal persistence.Journal) error {
	for kind, compare := range stateKinds {
		if err := b.compareStates(ctx, journal, kind, compare); err != nil {
			return err
		}
	}
	ledger := make(map[string]bool, len(b.transfers)) // transfers that a line of the ledger shows
	err := b.each(ctx, journal, "ledger_entry", func(r *persistence.Record) error { return b.ledgerRecord(r, ledger) })
	if err != nil {
		return err
	}
	for id, t := range b.transfers {
		if !ledger[id] {
			b.differs("ledger_entry", id, "line of the transfer", t.usd+t.suspense+t.coins, "missing")
		}
	}
	if err := b.compareTallies(ctx, journal); err != nil {
		return err
	}
	return b.compareDocuments(ctx, journal)
}

// compareTallies holds what limits are judged by against what there is. A workspace older than its tally has none until it is
// next moved.
func (b *books) compareTallies(ctx context.Context, journal persistence.Journal) error {
	for _, kind := range []string{"tally_agent", "tally_card", "tally_counterparty", "tally_cardholder",
		"tally_cardholder_active", "tally_webhook_endpoint"} {
		err := b.each(ctx, journal, kind, func(r *persistence.Record) error {
			var got tally
			if err := json.Unmarshal(r.Document, &got); err != nil {
				return err
			}
			want := b.tallies[stream{kind, r.ID}]
			b.differs(kind, r.ID, "count", want.Count, got.Count)
			b.differs(kind, r.ID, "first", want.First, got.First)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compareDocuments compares the kinds of which there is one record per thing in the books.
func (b *books) compareDocuments(ctx context.Context, journal persistence.Journal) error {
	if err := matchAll(ctx, b, journal, "deposit", maps.Clone(b.deposits)); err != nil {
		return err
	}
	if err := matchAll(ctx, b, journal, "payout", maps.Clone(b.payouts)); err != nil {
		return err
	}
	if err := b.compareCurrencies(ctx, journal); err != nil {
		return err
	}
	if err := b.compareRamp(ctx, journal); err != nil {
		return err
	}
	if err := b.comparePhysical(ctx, journal); err != nil {
		return err
	}
	authorizations := map[string]shown{}
	for id, a := range b.authorizations {
		authorizations[id] = shown{id, a.Held, a.Cleared, a.Refunded, a.Decision, a.Reason, a.Status}
	}
	if err := matchAll(ctx, b, journal, "authorization", authorizations); err != nil {
		return err
	}
	if err := b.compareIndex(ctx, journal); err != nil {
		return err
	}
	spends := map[string]spent{}
	for id, c := range b.cards {
		if c.month != 0 {
			spends[id] = spent{c.month, c.cents}
		}
	}
	return matchAll(ctx, b, journal, "card_spend", spends)
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
func (b *books) compareIndex(ctx context.Context, journal persistence.Journal) error {
	named := make(map[string]int, len(b.authorizations))
	err := b.each(ctx, journal, "authorization_index", func(r *persistence.Record) error { return b.indexRecord(r, named) })
	if err != nil {
		return err
	}
	for id := range b.authorizations {
		if named[id] == 0 {
			b.differs("authorization_index", id, "record", "one that names it", "missing")
		}
	}
	return nil
}

// indexRecord compares a record of the list with the authorizations that it names.
func (b *books) indexRecord(r *persistence.Record, named map[string]int) error {
	var run indexed
	if err := json.Unmarshal(r.Document, &run); err != nil {
		return err
	}
	ids := run.AuthorizationIDs
	if run.AuthorizationID != "" {
		ids = []string{run.AuthorizationID}
	}
	if len(ids) == 0 || ids[0] != r.ID {
		b.differs("authorization_index", r.ID, "first authorization", r.ID, fmt.Sprintf("%q", ids))
	}
	for _, id := range ids {
		a, known := b.authorizations[id]
		if !known {
			b.differs("authorization_index", r.ID, "authorization", "one of the events", id)
			continue
		}
		named[id]++
		b.differs("authorization_index", id, "times named", 1, named[id])
		b.differs("authorization_index", id, "workspace", a.Workspace, r.Workspace)
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
func (b *books) compareStates(ctx context.Context, journal persistence.Journal, kind string,
	compare func(*books, *persistence.Record) error) error {
	seen := map[string]bool{}
	err := b.each(ctx, journal, kind, func(r *persistence.Record) error {
		seen[r.ID] = true
		b.differs(kind, r.ID, "version", b.versions[stream{kind, r.ID}], r.Version)
		if compare == nil {
			return nil
		}
		return compare(b, r)
	})
	if err != nil {
		return err
	}
	for key, version := range b.versions {
		if key.kind == kind && !seen[key.id] {
			b.differs(kind, key.id, "record", fmt.Sprintf("at version %d", version), "missing")
		}
	}
	return nil
}

func (b *books) cardRecord(r *persistence.Record) error {
	var t terms
	if err := json.Unmarshal(r.Document, &t); err != nil {
		return err
	}
	b.differs("card", r.ID, "terms", b.card(r.ID).terms, t)
	return nil
}

// balanceRecord compares a workspace's balance term by term.
func (b *books) balanceRecord(r *persistence.Record) error {
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
	a := b.account(r.ID)
	incoming := d.IncomingCents
	for _, pending := range d.Deposits {
		b.sum("balance", r.ID, "incoming", &incoming, pending.AmountUsdCents)
	}
	b.differs("balance", r.ID, "usd by postings", a.usd, d.UsdCents)
	b.differs("balance", r.ID, "usd by terms", a.ledger+a.card+a.hold+a.reserved, d.UsdCents)
	b.differs("balance", r.ID, "held", a.hold, d.HoldCents)
	b.differs("balance", r.ID, "card cents", a.card, d.CardCents)
	b.differs("balance", r.ID, "ledger cents", a.ledger, d.LedgerCents)
	b.differs("balance", r.ID, "stablecoins", a.coins, d.StablecoinCents)
	b.differs("balance", r.ID, "suspense", a.suspense, d.SuspenseCents)
	b.differs("balance", r.ID, "workspace sequence", a.wsSeq, d.WsSeq)
	b.differs("balance", r.ID, "month's spend", spent{a.month, a.monthSpend}, spent{d.Month, d.MonthSpend})
	b.differs("balance", r.ID, "reserved", a.reserved, d.ReservedCents)
	b.differs("balance", r.ID, "open payouts", a.openPayouts, d.OpenPayouts+len(d.Payouts))
	for _, p := range d.Payouts {
		b.differs("balance", r.ID, "open payout", b.payouts[p.ID], p)
	}
	b.differs("balance", r.ID, "pending deposits", a.pendingDeposits, d.OpenDeposits+len(d.Deposits))
	b.differs("balance", r.ID, "incoming", a.pending, incoming)
	if err := b.compareOpenRamp(r); err != nil {
		return err
	}
	return b.compareHoldings(r)
}

// ledgerRecord compares a line of the ledger with its transfer.
func (b *books) ledgerRecord(r *persistence.Record, seen map[string]bool) error {
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
	t, known := b.transfers[line.TransferGroup]
	if !known {
		b.differs("ledger_entry", r.ID, "transfer", "one of the events", line.TransferGroup)
		return nil
	}
	b.differs("ledger_entry", r.ID, "lines of its transfer", false, seen[line.TransferGroup])
	seen[line.TransferGroup] = true
	b.differs("ledger_entry", r.ID, "workspace", t.workspace, r.Workspace)
	b.differs("ledger_entry", r.ID, "amount", t.usd+t.suspense+t.coins, line.AmountCents)
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
