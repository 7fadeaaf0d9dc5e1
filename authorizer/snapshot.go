package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Snapshot is the store at one moment, for the audit. Close it soon, because it keeps the store
// from dropping old versions.
type Snapshot struct {
	store *store
	at    *moment
	err   error // nothing can be read
}

// Snapshot takes a snapshot of durable data: all that is visible now. The audit reads it. An error
// of the store is that of each read.
func (e *Engine) Snapshot() *Snapshot {
	at, err := e.store.snapshot()
	return &Snapshot{store: e.store, at: at, err: err}
}

// Close releases the snapshot.
func (s *Snapshot) Close() error {
	if s.err != nil {
		return nil
	}
	return s.at.Close()
}

// Followed returns the journal position that a shard's rules and ledgerCents reflect. It fails only
// with an error of the store.
func (s *Snapshot) Followed(shard ident.Shard) (followed uint64, err error) {
	if s.err != nil {
		return 0, s.err
	}
	key := appendShardKey(nil, prefixCursor, shard)
	err = s.store.scan(s.at, key, append(key, 0), func(_, v []byte) (bool, error) {
		return true, decodeUint64(&followed)(v)
	})
	return followed, err
}

// ReadLog returns entries of a shard's log after a sequence number, in order: at most limit and at
// most MaxRead. It fails with ErrCorrupt and with the store's
// error.
func (s *Snapshot) ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.store.readLog(s.at, shard, after, ^uint64(0)-1, min(limit, MaxRead), nil)
}

// Lost is Engine.Lost at the moment of the snapshot. It fails only with an error of the store.
func (s *Snapshot) Lost(shard ident.Shard) ([]Lost, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.store.lost(s.at, shard)
}

// WalkFunds visits the workspaces by id, with their terms and their last sequence number. It
// returns the error of visit, which ends the walk, or of the store.
func (s *Snapshot) WalkFunds(visit func(workspace ident.UUID, f Funds, wsSeq uint64) error) error {
	var it *fundsItem
	flush := func() error {
		if it == nil {
			return nil
		}
		return visit(it.workspace, it.funds, it.wsSeq)
	}
	err := s.walk(prefixFunds, func(k, v []byte) error {
		if len(k) != 18 {
			return ErrCorrupt
		}
		if workspace := ident.UUID(k[1:17]); it == nil || it.workspace != workspace {
			if err := flush(); err != nil {
				return err
			}
			it = &fundsItem{workspace: workspace}
		}
		return it.decode(k[17], v)
	})
	if err != nil {
		return err
	}
	return flush()
}

// WalkHolds visits the authorizations by id, which is the order of their creation. It returns the
// error of visit, which ends the walk, or of the store.
func (s *Snapshot) WalkHolds(visit func(h *hold.Hold) error) error {
	return s.walk(prefixHold, func(_, v []byte) error {
		var h hold.Hold
		if err := hold.DecodeHold(v, &h); err != nil {
			return err
		}
		return visit(&h)
	})
}

// WalkCards visits the rules by token. It returns the error of visit, which ends the walk, or of
// the store.
func (s *Snapshot) WalkCards(visit func(r *hold.Rule) error) error {
	return s.walk(prefixRule, func(_, v []byte) error {
		var r hold.Rule
		if err := hold.DecodeRule(v, &r); err != nil {
			return err
		}
		return visit(&r)
	})
}

// WalkSpends visits the counters of the cards by id. It returns the error of visit, which ends the
// walk, or of the store.
func (s *Snapshot) WalkSpends(visit func(card ident.UUID, spend hold.Spend) error) error {
	return s.walk(prefixSpend, func(k, v []byte) error {
		var spend hold.Spend
		if err := hold.DecodeSpend(v, &spend); err != nil || len(k) != 17 {
			return errors.Join(ErrCorrupt, err)
		}
		return visit(ident.UUID(k[1:]), spend)
	})
}

// WalkReservations visits the reservations by workspace. It returns the error of visit, which ends
// the walk, or of the store.
func (s *Snapshot) WalkReservations(visit func(workspace, reservation ident.UUID, cents money.Cents) error) error {
	return s.walk(prefixReservation, func(k, v []byte) error {
		var cents uint64
		if err := decodeUint64(&cents)(v); err != nil || len(k) != 33 {
			return errors.Join(ErrCorrupt, err)
		}
		return visit(ident.UUID(k[1:17]), ident.UUID(k[17:]), money.Cents(cents))
	})
}

// WalkDue visits the due index by shard and expiry, in Unix milliseconds. A hold whose expiry was
// moved also has an older entry until its time. It returns the error of visit, which ends the walk,
// or of the store.
func (s *Snapshot) WalkDue(visit func(h ident.UUID, expiresAt int64) error) error {
	return s.walk(prefixDue, func(k, _ []byte) error {
		if len(k) != 26 {
			return ErrCorrupt
		}
		return visit(ident.UUID(k[10:]), int64(binary.BigEndian.Uint64(k[2:])))
	})
}

// walk visits the keys of one prefix, in order.
func (s *Snapshot) walk(prefix byte, visit func(k, v []byte) error) error {
	if s.err != nil {
		return s.err
	}
	return s.store.scan(s.at, []byte{prefix}, []byte{prefix + 1}, func(k, v []byte) (bool, error) {
		if err := visit(k, v); err != nil {
			return false, fmt.Errorf("authorizer: walk %q: %w", prefix, err)
		}
		return false, nil
	})
}

// WalkReservations visits the reservations; see Snapshot.WalkReservations.
func (e *Engine) WalkReservations(visit func(workspace, reservation ident.UUID, cents money.Cents) error) error {
	if err := e.store.projector.projectReserved(); err != nil {
		return err
	}
	s := &Snapshot{store: e.store, at: e.store.db.NewSnapshot()}
	return errors.Join(s.WalkReservations(visit), s.Close())
}
