package authorizer

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Retention and limits of the log.
const (
	// KeepRelayed is the retention of an entry after it was relayed.
	KeepRelayed = 7 * 24 * time.Hour
	// MaxRead bounds the entries of one ReadLog.
	MaxRead = 4096
)

// commit numbers the entry of a ticket, writes it with all that it changes, and queues it for the
// sync. The shard is locked.
func (e *Engine) commit(t *ticket) error {
	sh, n := t.shard, &t.entry
	if n.Workspace != t.funds.workspace {
		panic("BUG: an entry of a workspace whose funds are not at hand")
	}
	n.Seq, n.WsSeq, n.Shard = sh.seq+1, t.funds.wsSeq+1, sh.id
	t.logged = true
	c := change{entry: n, before: t.view.Hold, spend: t.view.Spend, funds: t.funds.funds, own: t.own}
	t.batch = e.store.newBatch()
	if err := e.write(t, &c); err != nil {
		return err
	}
	if err := e.apply(t); err != nil {
		return err
	}
	sh.seq = n.Seq
	t.funds.funds, t.funds.wsSeq = c.funds, n.WsSeq
	if t.card != nil {
		t.card.spend = c.spend
	}
	e.backlog.Add(1)
	e.enqueue(t)
	return nil
}

// apply makes the ticket's batch visible; a failure stops the engine.
func (e *Engine) apply(t *ticket) error {
	if err := e.failure(); err != nil {
		return err
	}
	if err := e.store.apply(t.batch); err != nil {
		e.fail(err)
		return e.failure()
	}
	t.shard.changes.Add(1)
	return nil
}

// change is an entry with the balances before it; write leaves those after it.
type change struct {
	entry  *hold.Entry
	before *hold.Hold // nil for a new authorization
	spend  hold.Spend
	funds  Funds
	own    networkID
}

// write puts an entry and its effects into the ticket's batch: the log, the hold, the spend,
// cardCents with the workspace's sequence, the repeat, and the due index. Six keys at most.
func (e *Engine) write(t *ticket, c *change) error {
	n, spend := c.entry, c.spend
	hold.Apply(n, &c.spend, &t.after, &c.funds.CardCents)
	t.val = hold.AppendEntry(t.val[:0], n)
	t.key = appendLogKey(t.key[:0], n.Shard, n.Seq)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	t.key = appendFundsKey(t.key[:0], &n.Workspace, termCard)
	t.val = binary.BigEndian.AppendUint64(appendCents(t.val[:0], c.funds.CardCents), n.WsSeq)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	if c.spend != spend {
		t.key, t.val = appendIDKey(t.key[:0], prefixSpend, &n.Card), hold.AppendSpend(t.val[:0], &c.spend)
		if err := t.batch.Set(t.key, t.val, nil); err != nil {
			return err
		}
	}
	if err := e.writeHold(t, c); err != nil {
		return err
	}
	return e.writeRepeat(t, c)
}

// writeHold keeps the authorization, and the due index in step with it. A moved expiry leaves its
// old key behind: Expire drops it when its time comes.
func (e *Engine) writeHold(t *ticket, c *change) error {
	h := &c.entry.After
	if h.ID.IsZero() || c.before != nil && *c.before == *h {
		return nil
	}
	t.key, t.val = appendIDKey(t.key[:0], prefixHold, &h.ID), hold.AppendHold(t.val[:0], h)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	before := int64(0)
	if c.before != nil {
		before = c.before.ExpiresAt
	}
	switch {
	case h.ExpiresAt == before:
		return nil
	case h.ExpiresAt == 0:
		t.key = appendDueKey(t.key[:0], c.entry.Shard, before, &h.ID)
		return t.batch.Delete(t.key, nil)
	}
	t.key = appendDueKey(t.key[:0], c.entry.Shard, h.ExpiresAt, &h.ID)
	return t.batch.Set(t.key, nil, nil)
}

// writeRepeat remembers the answer for repeats of the message, and a tombstone for the
// authorization that a reversal overtook.
func (e *Engine) writeRepeat(t *ticket, c *change) error {
	n := c.entry
	if n.Kind == hold.Expiry {
		return nil
	}
	bucket := bucketOf(n.At)
	e.buckets.mark(bucket)
	t.key, t.val = appendRepeatKey(t.key[:0], bucket, &c.own), appendRemembered(t.val[:0], n, false)
	if err := t.batch.Set(t.key, t.val, nil); err != nil || !n.Tombstone {
		return err
	}
	original := networkIDOf(routeAuthorizations, n.OriginalID)
	t.key, t.val = appendRepeatKey(t.key[:0], bucket, &original), appendRemembered(t.val[:0], n, true)
	return t.batch.Set(t.key, t.val, nil)
}

// heads reads the last entry of a shard, the journal position that it has followed, and the last
// relayed entry.
func (s *store) heads(shard ident.Shard, relayed *atomic.Uint64) (seq, follow uint64, err error) {
	p, err := s.last(appendLogKey(nil, shard, 0), appendLogKey(nil, shard, ^uint64(0)))
	if err != nil {
		return 0, 0, err
	}
	if p != nil {
		seq = logSeq(p.key)
	}
	if p, err = s.last(appendRelayedKey(nil, shard, 0), appendRelayedKey(nil, shard, ^uint32(0))); err != nil {
		return 0, 0, err
	}
	if p != nil {
		n := uint64(0)
		if err := decodeUint64(&n)(p.value); err != nil {
			return 0, 0, err
		}
		relayed.Store(n)
		seq = max(seq, n) // all of the log may be trimmed
	}
	_, err = s.get(s.db, appendShardKey(nil, prefixCursor, shard), decodeUint64(&follow))
	return seq, follow, err
}

// Newest returns the time of the newest decision, or zero. Where a shard's log is trimmed, it is
// the hour in which the last entry was relayed. It fails only with an error of the store. The start
// compares the machine's clock with it.
func (e *Engine) Newest() (newest time.Time, err error) {
	for _, sh := range e.shards {
		at := time.Time{}
		if p, err := e.store.last(appendLogKey(nil, sh.id, 0), appendLogKey(nil, sh.id, ^uint64(0))); err != nil {
			return newest, err
		} else if p != nil {
			var n hold.Entry
			if err := hold.DecodeEntry(p.value, &n); err != nil {
				return newest, fmt.Errorf("%w: log of shard %d: %w", ErrCorrupt, sh.id, err)
			}
			at = time.UnixMilli(n.At)
		}
		if p, err := e.store.last(appendRelayedKey(nil, sh.id, 0),
			appendRelayedKey(nil, sh.id, ^uint32(0))); err != nil {
			return newest, err
		} else if p != nil {
			if hour := time.Unix(int64(relayedHour(p.key))*3600, 0); hour.After(at) {
				at = hour
			}
		}
		if at.After(newest) {
			newest = at
		}
	}
	return newest, nil
}

// advance notes that an entry is durable, and wakes its waiters.
func (sh *shard) advance(seq uint64) {
	sh.synced.Store(seq)
	if w := sh.waiters.Swap(nil); w != nil {
		close(*w)
	}
}

// Synced returns the sequence number of the shard's last durable entry, 0 before the first.
func (e *Engine) Synced(shard ident.Shard) uint64 { return e.shards[shard].synced.Load() }

// WaitSynced returns when an entry after past is durable. Entries are durable only after it has
// returned. It fails with the context's error and with ErrStopped. The relay waits in it for new
// entries.
func (e *Engine) WaitSynced(ctx context.Context, shard ident.Shard, past uint64) error {
	sh := e.shards[shard]
	for {
		fresh := make(chan struct{})
		w := &fresh
		if !sh.waiters.CompareAndSwap(nil, w) {
			if w = sh.waiters.Load(); w == nil {
				continue
			}
		}
		if sh.synced.Load() > past {
			return nil
		}
		select {
		case <-*w:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.failed:
			return e.failure()
		}
	}
}

// ReadLog returns at most limit (and MaxRead) durable entries of a shard after a sequence number,
// in order. It fails with ErrCorrupt and with the store's error. The relay calls it.
func (e *Engine) ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error) {
	head := e.Synced(shard)
	if after >= head {
		return nil, nil
	}
	limit = min(limit, MaxRead)
	room := make([]hold.Entry, 0, min(uint64(limit), head-after)) // they are long: to grow would be to copy them
	return e.store.readLog(e.store.db, shard, after, head, limit, room)
}

// readLog appends the entries after one sequence number, through another, to entries, until there
// are limit.
func (s *store) readLog(
	from reader, shard ident.Shard, after, through uint64, limit int, entries []hold.Entry,
) ([]hold.Entry, error) {
	lower, upper := appendLogKey(nil, shard, after+1), appendLogKey(nil, shard, through+1)
	err := s.scan(from, lower, upper, func(_, v []byte) (bool, error) {
		var n hold.Entry
		if err := hold.DecodeEntry(v, &n); err != nil {
			return false, fmt.Errorf("%w: log of shard %d: %w", ErrCorrupt, shard, err)
		}
		entries = append(entries, n)
		return len(entries) >= limit, nil
	})
	return entries, err
}

// Relayed returns the sequence number up to which the journal has the shard's entries.
func (e *Engine) Relayed(shard ident.Shard) uint64 { return e.shards[shard].relayed.Load() }

// Backlog returns the number of entries that are not in the journal.
func (e *Engine) Backlog() int64 { return e.backlog.Load() }

// MarkRelayed records that the journal has the shard's entries up to seq. A crash may lose the
// mark: the entries are then relayed again and dropped as repeats. It fails for entries that are
// not durable yet, and with ErrStopped. The relay calls it after each commit to the journal.
func (e *Engine) MarkRelayed(shard ident.Shard, seq uint64) error {
	sh := e.shards[shard]
	sh.mark.Lock()
	defer sh.mark.Unlock()
	before := sh.relayed.Load()
	if seq <= before {
		return nil
	}
	if seq > sh.synced.Load() {
		return fmt.Errorf("authorizer: shard %d: relayed to %d, but durable only to %d", shard, seq, sh.synced.Load())
	}
	b := e.store.newBatch()
	hour := uint32(e.clock().Unix() / 3600)
	key, value := appendRelayedKey(nil, shard, hour), binary.BigEndian.AppendUint64(nil, seq)
	if err := b.Set(key, value, nil); err != nil {
		return err
	}
	if err := e.store.applyLazily(b); err != nil {
		e.fail(err)
		return e.failure()
	}
	sh.relayed.Store(seq)
	e.leaveBacklog(sh, seq)
	return nil
}

// PassRelayed removes the shard's entries up to seq from the backlog although the journal may lack
// some of them: those of workspaces that are set aside. The log keeps every entry after the mark of
// MarkRelayed. The removal is not durable. It fails for entries that are not durable yet. The relay
// calls it.
func (e *Engine) PassRelayed(shard ident.Shard, seq uint64) error {
	sh := e.shards[shard]
	sh.mark.Lock()
	defer sh.mark.Unlock()
	if synced := sh.synced.Load(); seq > synced {
		return fmt.Errorf("authorizer: shard %d: passed to %d, but durable only to %d", shard, seq, synced)
	}
	e.leaveBacklog(sh, seq)
	return nil
}

// leaveBacklog takes entries up to seq out of the backlog, once. Its caller holds mark.
func (e *Engine) leaveBacklog(sh *shard, seq uint64) {
	if seq > sh.passed {
		e.backlog.Add(-int64(seq - sh.passed))
		sh.passed = seq
	}
}

// Trim drops the entries that were relayed KeepRelayed ago, the network ids older than RepeatDays,
// and the finished authorizations older than KeepHolds. It allows one caller at a time. It fails
// with ErrStopped and with the store's error. The actors' retention loop calls it.
func (e *Engine) Trim(now time.Time) error {
	b := e.store.newBatch()
	oldest := oldestBucket(now.UnixMilli())
	first := networkID{}
	if err := b.DeleteRange([]byte{prefixRepeat}, appendRepeatKey(nil, oldest, &first), nil); err != nil {
		return err
	}
	before := uint32(now.Add(-KeepRelayed).Unix() / 3600) // the whole hour of the mark must have passed
	for _, sh := range e.shards {
		if err := e.trimShard(b, sh, before); err != nil {
			return err
		}
	}
	if err := e.store.applyLazily(b); err != nil {
		e.fail(err)
		return e.failure()
	}
	e.buckets.drop(oldest)
	return e.dropHolds(now)
}

// trimShard drops the entries up to the last mark made before an hour, and the marks before that
// one.
func (e *Engine) trimShard(b *batch, sh *shard, before uint32) error {
	p, err := e.store.last(appendRelayedKey(nil, sh.id, 0), appendRelayedKey(nil, sh.id, before))
	if err != nil || p == nil {
		return err
	}
	n := uint64(0)
	if err := decodeUint64(&n)(p.value); err != nil {
		return fmt.Errorf("%w: relay mark of shard %d", ErrCorrupt, sh.id)
	}
	if n <= sh.trimmed {
		return nil
	}
	sh.trimmed = n
	if err := b.DeleteRange(appendLogKey(nil, sh.id, 0), appendLogKey(nil, sh.id, n+1), nil); err != nil {
		return err
	}
	return b.DeleteRange(appendRelayedKey(nil, sh.id, 0), p.key, nil)
}
