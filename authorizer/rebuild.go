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

// Rebuilder is the engine of a store that serves no swipes, with the tools of its repair: it fills
// a new store from the journal, and judges an earlier one.
type Rebuilder struct{ *Engine }

// Rebuilder returns the tools of a repair. The engine must serve no swipes.
func (e *Engine) Rebuilder() *Rebuilder { return &Rebuilder{e} }

// Replay folds relayed entries into a store that is rebuilt from the journal. It restores funds,
// spends, holds, the due index, repeats with their answers, tombstones and sequences. The entries
// of a workspace arrive in the order of its own sequence without a gap; known ones are skipped. The
// entries are not logged again, because they count as relayed. Replay is durable when it returns.
// No other call may use the shard meanwhile. It fails with ErrGap, ErrForeignShard, ErrStopped and
// the store's error.
func (r *Rebuilder) Replay(shard ident.Shard, entries []hold.Entry) error {
	sh := r.shards[shard]
	for i := range entries {
		if err := r.foldEntry(sh, &entries[i]); err != nil {
			return err
		}
	}
	return r.markReplayed(sh)
}

// foldEntry applies one entry in memory; markReplayed, which follows, writes it into Pebble.
func (r *Rebuilder) foldEntry(sh *shard, n *hold.Entry) error {
	if err := r.failStop.failure(); err != nil {
		return err
	}
	t := r.commits.newTicket(actWrite)
	defer r.commits.release(t)
	t.shard = sh
	return t.fillLocked(func(t *ticket) error { return r.replayEntry(t, n) })
}

// replayEntry writes the effects of one entry, but not the entry. The shard is locked.
func (r *Rebuilder) replayEntry(t *ticket, n *hold.Entry) error {
	if n.Shard != t.shard.id || n.Workspace.Shard() != t.shard.id {
		return fmt.Errorf("%w: entry %d", ErrForeignShard, n.Seq)
	}
	funds, err := t.shard.hotFunds(&t.scratch, &n.Workspace)
	if err != nil {
		return err
	}
	t.shard.seq = max(t.shard.seq, n.Seq)
	if n.WsSeq <= funds.wsSeq {
		return nil
	}
	if n.WsSeq != funds.wsSeq+1 {
		return fmt.Errorf("%w: %s has %d, then %d", ErrGap, n.Workspace.Format(ident.Workspace), funds.wsSeq, n.WsSeq)
	}
	t.entry = *n
	before, spend, err := r.readBefore(t, n)
	if err != nil {
		return err
	}
	c := newChange(t, before, spend, funds.funds.CardCents)
	if !r.store.projector.awaitRoom(r.failStop.failed) {
		return ErrStopped
	}
	r.store.table.Begin()
	r.store.applyChange(&c, nil, &t.scratch) // the entry is the journal's
	r.store.table.End()
	r.store.projector.askProjection()
	t.shard.changes.Add(1)
	funds.funds.CardCents, funds.wsSeq = c.cardCents, n.WsSeq
	if it := t.shard.cache.cards.get(n.Card[:]); it != nil && c.spent {
		it.spend = n.Spend
	}
	return nil
}

// readBefore reads the balances that an entry moves, and the record of the message that it names.
func (r *Rebuilder) readBefore(t *ticket, n *hold.Entry) (before *hold.Hold, spend hold.Spend, err error) {
	if n.NetworkID != "" {
		t.own = networkIDOf(routeOf(n.Kind), n.NetworkID)
	}
	if n.OriginalID != "" {
		t.original = networkIDOf(routeAuthorizations, n.OriginalID)
		if err := r.buckets.recallOriginal(r.store, t, n.At); err != nil {
			return nil, spend, err
		}
	}
	if spend, err = r.store.readSpend(&t.scratch, &n.Card); err != nil || n.After.ID.IsZero() {
		return nil, spend, err
	}
	found, err := r.store.readHold(&t.scratch, &n.After.ID, &t.load.hold)
	if found {
		before = &t.load.hold
	}
	return before, spend, err
}

// markReplayed notes durably that all entries of the shard are the journal's.
func (r *Rebuilder) markReplayed(sh *shard) error {
	hour := uint32(r.clock().Unix() / 3600)
	r.store.setLazily(appendRelayedKey(nil, sh.id, hour), binary.BigEndian.AppendUint64(nil, sh.seq))
	if err := r.store.projector.projectAll(); err != nil {
		return r.failStop.failOn(err)
	}
	sh.synced.Store(sh.seq)
	sh.relayed.Store(sh.seq)
	sh.passed = sh.seq
	return nil
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
func (r *Rebuilder) NoteLost(shard ident.Shard, lost []Lost) error {
	if len(lost) == 0 {
		return nil
	}
	b, now := newBatch(), uint64(r.clock().UnixMilli())
	for _, l := range lost {
		v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, l.Last), now)
		b.setKey(appendLostKey(nil, shard, l.First), v)
	}
	return r.failStop.failOn(r.store.commitDurably(b))
}

// Lost returns the runs that NoteLost recorded for a shard, in order. It fails only with an error
// of the store.
func (r *Rebuilder) Lost(shard ident.Shard) ([]Lost, error) {
	if err := r.store.projector.projectAll(); err != nil {
		return nil, err
	}
	return r.store.lost(r.store.db, shard)
}

func (s *store) lost(from reader, shard ident.Shard) ([]Lost, error) {
	var lost []Lost
	lower, upper := appendLostKey(nil, shard, 0), appendLostKey(nil, shard, ^uint64(0))
	err := s.scan(from, lower, upper, func(k, v []byte) (bool, error) {
		if len(k) != 10 || len(v) != 16 {
			return false, fmt.Errorf("%w: lost decisions of shard %d", ErrCorrupt, shard)
		}
		lost = append(lost, Lost{First: binary.BigEndian.Uint64(k[2:]), Last: binary.BigEndian.Uint64(v),
			At: int64(binary.BigEndian.Uint64(v[8:]))})
		return false, nil
	})
	return lost, err
}
