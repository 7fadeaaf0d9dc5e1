package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// ErrGap means that entries are missing in a Replay.
var ErrGap = errors.New("authorizer: a gap in the workspace's sequence")

// Replay folds relayed entries into a store that is rebuilt from the journal. It restores funds,
// spends, holds, the due index, repeats with their answers, tombstones and sequences. The entries
// of a workspace arrive in the order of its own sequence without a gap; known ones are skipped. The
// entries are not logged again, because they count as relayed. Replay is durable when it returns.
// No other call may use the shard meanwhile. It fails with ErrGap, ErrForeignShard, ErrStopped and
// the store's error. `purser rebuild-authorizer` calls it.
func (e *Engine) Replay(shard ident.Shard, entries []hold.Entry) error {
	sh := e.shards[shard]
	for i := range entries {
		if err := e.fold(sh, &entries[i]); err != nil {
			return err
		}
	}
	return e.markReplayed(sh)
}

// fold applies one entry without waiting for its sync: markReplayed, which follows in the same
// write-ahead log, does.
func (e *Engine) fold(sh *shard, n *hold.Entry) error {
	if err := e.failure(); err != nil {
		return err
	}
	t := e.newTicket(actWrite)
	defer e.release(t)
	t.shard = sh
	return e.fillLocked(t, func(t *ticket) error { return e.replay(t, n) })
}

func (e *Engine) replay(t *ticket, n *hold.Entry) error {
	if n.Shard != t.shard.id || n.Workspace.Shard() != t.shard.id {
		return fmt.Errorf("%w: entry %d", ErrForeignShard, n.Seq)
	}
	funds, err := e.hotFunds(t, t.shard, &n.Workspace)
	if err != nil || n.WsSeq <= funds.wsSeq {
		return err
	}
	if n.WsSeq != funds.wsSeq+1 {
		return fmt.Errorf("%w: %s has %d, then %d", ErrGap, n.Workspace.Format(ident.Workspace), funds.wsSeq, n.WsSeq)
	}
	c := change{entry: n, funds: funds.funds}
	if err := e.before(t, n, &c); err != nil {
		return err
	}
	t.batch = e.store.newBatch()
	if err := e.write(t, &c); err != nil {
		return e.discard(t, err)
	}
	t.key = appendLogKey(t.key[:0], n.Shard, n.Seq)
	if err := t.batch.Delete(t.key, nil); err != nil { // it is the journal's
		return e.discard(t, err)
	}
	if err := e.store.applyLazily(t.batch); err != nil {
		e.fail(err)
		return e.failure()
	}
	t.batch = nil
	t.shard.changes.Add(1)
	funds.funds, funds.wsSeq = c.funds, n.WsSeq
	if it := t.shard.cache.cards.get(n.Card[:]); it != nil {
		it.spend = c.spend
	}
	t.shard.seq = max(t.shard.seq, n.Seq)
	return nil
}

// before reads the balances that an entry moves.
func (e *Engine) before(t *ticket, n *hold.Entry, c *change) error {
	if n.NetworkID != "" {
		c.own = networkIDOf(routeOf(n.Kind), n.NetworkID)
	}
	spend, err := e.readSpend(t, &n.Card)
	if err != nil {
		return err
	}
	c.spend = spend
	if n.After.ID.IsZero() {
		return nil
	}
	found, err := e.readHold(t, &n.After.ID, &t.load.hold)
	if found {
		c.before = &t.load.hold
	}
	return err
}

// markReplayed notes durably that all entries of the shard are the journal's.
func (e *Engine) markReplayed(sh *shard) error {
	return e.writeDurably(sh, func(t *ticket) error {
		t.batch = e.store.newBatch()
		hour := uint32(e.clock().Unix() / 3600)
		t.key = appendRelayedKey(t.key[:0], sh.id, hour)
		if err := t.batch.Set(t.key, binary.BigEndian.AppendUint64(nil, sh.seq), nil); err != nil {
			return e.discard(t, err)
		}
		if err := e.apply(t); err != nil {
			return err
		}
		sh.synced.Store(sh.seq)
		sh.relayed.Store(sh.seq)
		sh.passed = sh.seq
		e.enqueue(t)
		return nil
	})
}

// Lost is a run of sequence numbers that the journal lacked when this store was rebuilt from it.
// Their decisions had not been relayed before later ones of other workspaces were, and were lost
// with the earlier store.
type Lost struct {
	First, Last uint64
	At          int64 // Unix milliseconds, of the rebuild
}

// NoteLost durably records the lost runs of a shard that a rebuild found. It sets At by the clock.
// It fails with ErrStopped and with the store's error.
func (e *Engine) NoteLost(shard ident.Shard, lost []Lost) error {
	if len(lost) == 0 {
		return nil
	}
	return e.writeDurably(e.shards[shard], func(t *ticket) error {
		t.batch = e.store.newBatch()
		now := uint64(e.clock().UnixMilli())
		for _, l := range lost {
			t.key = appendLostKey(t.key[:0], shard, l.First)
			t.val = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(t.val[:0], l.Last), now)
			if err := t.batch.Set(t.key, t.val, nil); err != nil {
				return e.discard(t, err)
			}
		}
		if err := e.apply(t); err != nil {
			return err
		}
		e.enqueue(t)
		return nil
	})
}

// Lost returns the runs that NoteLost recorded for a shard, in order. It fails only with an error
// of the store.
func (e *Engine) Lost(shard ident.Shard) ([]Lost, error) { return e.store.lost(e.store.db, shard) }

func (s *store) lost(from reader, shard ident.Shard) ([]Lost, error) {
	var lost []Lost
	lower, upper := appendLostKey(nil, shard, 0), appendLostKey(nil, shard, ^uint64(0))
	err := s.scan(from, lower, upper, func(k, v []byte) (bool, error) {
		if len(k) != 10 || len(v) != 16 {
			return false, fmt.Errorf("%w: lost decisions of shard %d", ErrCorrupt, shard)
		}
		lost = append(lost, Lost{First: logSeq(k), Last: binary.BigEndian.Uint64(v),
			At: int64(binary.BigEndian.Uint64(v[8:]))})
		return false, nil
	})
	return lost, err
}
