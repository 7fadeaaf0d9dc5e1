package authorizer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

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

// readPositions reads the journal position that a shard has followed, and its last relayed entry.
func (s *store) readPositions(shard ident.Shard) (follow, relayed uint64, err error) {
	p, err := s.last(appendRelayedKey(nil, shard, 0), appendRelayedKey(nil, shard, ^uint32(0)))
	if err != nil {
		return 0, 0, err
	}
	if p != nil {
		if err := decodeUint64(&relayed)(p.value); err != nil {
			return 0, 0, err
		}
	}
	_, err = s.get(appendShardKey(nil, prefixCursor, shard), decodeUint64(&follow))
	return follow, relayed, err
}

// Synced returns the sequence number of the shard's last durable entry, 0 before the first.
func (e *Engine) Synced(shard ident.Shard) uint64 { return e.shards[shard].synced.Load() }

// OnSynced has a function called for each entry that becomes durable, after Synced shows the entry.
// It replaces the function of an earlier call. Answers wait for the function, so it must not block.
// It may be called concurrently. The relay begins the work of a shard in it.
func (e *Engine) OnSynced(call func(shard ident.Shard)) { e.commits.onSynced.Store(&call) }

// ReadLog returns at most limit (and MaxRead) durable entries of a shard after a sequence number,
// in order. It fails with ErrCorrupt and with the store's error.
func (e *Engine) ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error) {
	return e.shards[shard].readLog(after, limit)
}

// Relayed returns the sequence number up to which the journal has the shard's entries.
func (e *Engine) Relayed(shard ident.Shard) uint64 { return e.shards[shard].relayed.Load() }

// MarkRelayed records that the journal has the shard's entries up to seq. A crash may lose the
// mark: the entries are then relayed again and dropped as repeats. It fails for entries that are
// not durable yet, and with ErrStopped.
func (e *Engine) MarkRelayed(shard ident.Shard, seq uint64) error {
	return e.shards[shard].markRelayed(seq, e.clock)
}

// PassRelayed removes the shard's entries up to seq from the backlog although the journal may lack
// some of them: those of workspaces that are set aside. The log keeps every entry after the mark of
// MarkRelayed. The removal is not durable. It fails for entries that are not durable yet.
func (e *Engine) PassRelayed(shard ident.Shard, seq uint64) error {
	return e.shards[shard].passRelayed(seq)
}

// Newest returns the time of the newest decision, or zero. It may be the hour in which the newest
// entry was relayed. It fails only with an error of the store. The start
// compares the machine's clock with it.
func (e *Engine) Newest() (newest time.Time, err error) {
	if err := e.store.projector.projectAll(); err != nil {
		return newest, err
	}
	heads, err := e.store.newestHeads()
	if err != nil {
		return newest, err
	}
	if heads.newest != 0 {
		newest = time.UnixMilli(heads.newest)
	}
	for _, sh := range e.shards {
		p, err := e.store.last(appendRelayedKey(nil, sh.id, 0), appendRelayedKey(nil, sh.id, ^uint32(0)))
		if err != nil {
			return newest, err
		}
		if p == nil {
			continue
		}
		if hour := time.Unix(int64(relayedHour(p.key))*3600, 0); hour.After(newest) {
			newest = hour
		}
	}
	return newest, nil
}

// readLog returns durable entries after a sequence number.
func (sh *shard) readLog(after uint64, limit int) ([]hold.Entry, error) {
	head := sh.synced.Load()
	if after >= head {
		return nil, nil
	}
	limit = min(limit, MaxRead)
	room := make([]hold.Entry, 0, min(uint64(limit), head-after)) // they are long: to grow would be to copy them
	if entries, err := sh.store.newestEntries(sh.id, after, head, limit, room); len(entries) > 0 || err != nil {
		return entries, err
	}
	return sh.store.readLog(sh.store.db, sh.id, after, head, limit, room)
}

// newestEntries appends the entries of a shard after one sequence number, through another, to
// entries, when the log has them in memory: without the first one it appends none. It fails with
// ErrCorrupt.
func (s *store) newestEntries(shard ident.Shard, after, through uint64, limit int, entries []hold.Entry) (
	[]hold.Entry, error) {
	var err error
	s.table.VisitEntries(shard, after, through, func(seq uint64, value []byte) bool {
		if len(entries) == 0 && seq != after+1 {
			return false
		}
		var n hold.Entry
		if err = hold.DecodeEntry(value, &n); err != nil {
			err = fmt.Errorf("%w: entry %d of shard %d: %w", ErrCorrupt, seq, shard, err)
			return false
		}
		entries = append(entries, n)
		return len(entries) < limit
	})
	return entries, err
}

// markRelayed writes the mark of the hour, and takes the entries out of the backlog.
func (sh *shard) markRelayed(seq uint64, clock func() time.Time) error {
	sh.mark.Lock()
	defer sh.mark.Unlock()
	before := sh.relayed.Load()
	if seq <= before {
		return nil
	}
	if seq > sh.synced.Load() {
		return fmt.Errorf("authorizer: shard %d: relayed to %d, but durable only to %d", sh.id, seq, sh.synced.Load())
	}
	hour := uint32(clock().Unix() / 3600)
	sh.store.setLazily(appendRelayedKey(nil, sh.id, hour), binary.BigEndian.AppendUint64(nil, seq))
	sh.relayed.Store(seq)
	sh.leaveBacklog(seq)
	return nil
}

// passRelayed takes durable entries out of the backlog without a mark.
func (sh *shard) passRelayed(seq uint64) error {
	sh.mark.Lock()
	defer sh.mark.Unlock()
	if synced := sh.synced.Load(); seq > synced {
		return fmt.Errorf("authorizer: shard %d: passed to %d, but durable only to %d", sh.id, seq, synced)
	}
	sh.leaveBacklog(seq)
	return nil
}

// leaveBacklog takes entries up to seq out of the backlog, once. Its caller holds mark.
func (sh *shard) leaveBacklog(seq uint64) {
	if seq > sh.passed {
		sh.backlog.entries.Add(-int64(seq - sh.passed))
		sh.passed = seq
	}
}

// trimMarks finds the last entry whose relay was marked before an hour, and drops the marks before
// that one.
func (sh *shard) trimMarks(b *pebble.Batch, before uint32) (through uint64, err error) {
	first := appendRelayedKey(nil, sh.id, 0)
	p, err := sh.store.last(first, appendRelayedKey(nil, sh.id, before))
	if err != nil || p == nil {
		return 0, err
	}
	if err := decodeUint64(&through)(p.value); err != nil {
		return 0, fmt.Errorf("%w: relay mark of shard %d", ErrCorrupt, sh.id)
	}
	older, err := sh.store.last(first, p.key)
	if err != nil || older == nil {
		return through, err
	}
	return through, b.DeleteRange(first, p.key, nil)
}
