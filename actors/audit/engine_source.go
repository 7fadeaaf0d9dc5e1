package audit

import (
	"encoding/json"
	"time"

	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Engine is the part of an authorizer.Engine that an audit reads.
type Engine interface {
	Synced(shard ident.Shard) uint64
	Snapshot() *authorizer.Snapshot
}

// FromEngine returns an engine as a source of an audit. It converts stored values and sums nothing.
// It never fails. storecare.Audit calls it, for `purser audit` or for the server that the command
// asks.
func FromEngine(e Engine) Authorizer { return engineSource{e} }

type engineSource struct{ engine Engine }

// Snapshot reads the durable ends of the logs first, so that the snapshot has those entries. The
// caller closes it.
func (e engineSource) Snapshot() AuthorizerSnapshot {
	s := &engineSnapshot{}
	for i := range s.synced {
		s.synced[i] = e.engine.Synced(ident.Shard(i))
	}
	s.Snapshot = e.engine.Snapshot()
	return s
}

// engineSnapshot is a snapshot of an engine with the audit's types.
type engineSnapshot struct {
	*authorizer.Snapshot
	synced [ident.Shards]uint64
}

// Synced is the last durable sequence number of the shard's log, and implements AuthorizerSnapshot.
// readLog expects every number up to it.
func (e *engineSnapshot) Synced(shard ident.Shard) uint64 { return e.synced[shard] }

const entriesPerRead = 1000

// Log visits the entries of a shard after a sequence number, encoded as the journal stores them, so
// that an audit decodes one format only. It fails with visit's error, or when the log cannot be
// read.
func (e *engineSnapshot) Log(shard ident.Shard, after uint64, visit func(entry []byte) error) error {
	for {
		entries, err := e.ReadLog(shard, after, entriesPerRead)
		if err != nil || len(entries) == 0 {
			return err
		}
		for i := range entries {
			raw, err := json.Marshal(&entries[i])
			if err != nil {
				return err
			}
			if err := visit(raw); err != nil {
				return err
			}
		}
		after = entries[len(entries)-1].Seq
	}
}

// WalkFunds visits the funds of every workspace. It fails with visit's error, or when the engine's
// store cannot be read.
func (e *engineSnapshot) WalkFunds(visit func(Funds) error) error {
	return e.Snapshot.WalkFunds(func(workspace ident.UUID, f authorizer.Funds, sequence uint64) error {
		return visit(Funds{Workspace: workspace, Ledger: f.LedgerCents, Card: f.CardCents, Reserved: f.ReservedCents,
			Sequence: sequence})
	})
}

// WalkHolds visits every hold. It fails with visit's error, or when the engine's store cannot be
// read.
func (e *engineSnapshot) WalkHolds(visit func(Hold) error) error {
	return e.Snapshot.WalkHolds(func(h *hold.Hold) error {
		return visit(Hold{ID: h.ID, Card: h.Card, Workspace: h.Workspace, Held: h.Held, Cleared: h.Cleared,
			Refunded: h.Refunded,
			Month:    uint32(h.Month), MonthCents: h.MonthCents, ExpiresAt: h.ExpiresAt, Status: h.Status.String()})
	})
}

// WalkDue visits the lines of the expiry index. It fails with visit's error, or when the engine's
// store cannot be read.
func (e *engineSnapshot) WalkDue(visit func(Due) error) error {
	return e.Snapshot.WalkDue(func(h ident.UUID, at int64) error { return visit(Due{Hold: h, At: at}) })
}

// Lost returns the decisions of the shard that the last rebuild found lost. It fails when the
// engine's store cannot be read.
func (e *engineSnapshot) Lost(shard ident.Shard) ([]Loss, error) {
	var all []Loss
	lost, err := e.Snapshot.Lost(shard)
	for _, l := range lost {
		all = append(all, Loss{Shard: shard, First: l.First, Last: l.Last, At: time.UnixMilli(l.At)})
	}
	return all, err
}

// WalkSpends visits the monthly spend of every card. It fails with visit's error, or when the
// engine's store cannot be read.
func (e *engineSnapshot) WalkSpends(visit func(Spend) error) error {
	return e.Snapshot.WalkSpends(func(card ident.UUID, s hold.Spend) error {
		return visit(Spend{Card: card, Month: uint32(s.Month), Cents: s.Cents})
	})
}

// WalkReservations visits the open reservations. It fails with visit's error, or when the engine's
// store cannot be read.
func (e *engineSnapshot) WalkReservations(visit func(Reservation) error) error {
	return e.Snapshot.WalkReservations(func(workspace, reservation ident.UUID, cents money.Cents) error {
		return visit(Reservation{Workspace: workspace, ID: reservation, Cents: cents})
	})
}
