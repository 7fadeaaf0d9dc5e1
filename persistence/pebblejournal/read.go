package pebblejournal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

const (
	maxEventBytes = 1 << 20 // payload bytes in one Events, but at least one event
	shardBytes    = 2       // table and shard at the start of a key
)

// look begins a read of a shard: the store shows only synced data there until unlock is called.
// After nil the caller must call unlock and leave. It fails with ErrUnavailable when the journal is
// closed or has failed, or the context has ended.
func (j *Journal) look(ctx context.Context, id ident.Shard) (unlock func(), err error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	s := &j.shards[id]
	s.mu.RLock()
	// After a commit that failed meanwhile the store shows data that may be lost.
	if err := j.ready(); err != nil {
		s.mu.RUnlock()
		j.leave()
		return nil, err
	}
	return s.mu.RUnlock, nil
}

// value returns a copy of one synced value, nil when there is none. It fails with ErrUnavailable
// when the store cannot be read.
func (j *Journal) value(ctx context.Context, id ident.Shard, key []byte) ([]byte, error) {
	unlock, err := j.look(ctx, id)
	if err != nil {
		return nil, err
	}
	defer j.leave()
	defer unlock()
	value, err := j.store.get(key)
	if err != nil {
		return nil, unavailable(err)
	}
	return value, nil
}

// visitKeys calls each with the synced keys of a range in order, until each wants no more. The lock
// is held only until the view is open. It fails with ErrUnavailable, also for an error of each.
func (j *Journal) visitKeys(
	ctx context.Context, id ident.Shard, from, to []byte, each func(key, value []byte) (more bool, err error),
) error {
	unlock, err := j.look(ctx, id)
	if err != nil {
		return err
	}
	defer j.leave()
	c, err := j.store.cursor(from, to)
	unlock()
	if err == nil {
		err = c.each(each)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// Events implements persistence.Journal: it returns events of a shard after a position, none at the
// head. It takes no lock: events at or below the head are synced and never rewritten. The newest
// events come from memory. It fails only with ErrUnavailable, also for damaged events.
func (j *Journal) Events(ctx context.Context, id ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	last := j.Head(id).Position
	if past >= last {
		return nil, nil
	}
	last = min(last, past+uint64(persistence.PageLimit(limit)))
	if !persistence.IsAsStored(ctx) {
		if events, kept := j.recent.Read(id, past, last, maxEventBytes); kept {
			return events, nil
		}
	}
	return readEvents(j.store, id, past, last)
}

// ranged makes cursors over a store, or over a view of it.
type ranged interface {
	cursor(from, to []byte) (cursor, error)
}

// readEvents returns the events of a shard after a position, through another, and at most
// maxEventBytes of payload but at least one event. It fails with ErrUnavailable when the store
// cannot be read, or lacks or damaged one of the events.
func readEvents(from ranged, id ident.Shard, past, last uint64) ([]persistence.Event, error) {
	events, size := make([]persistence.Event, 0, last-past), 0
	c, err := from.cursor(keyEvent(id, past+1), next(keyEvent(id, last)))
	if err != nil {
		return nil, unavailable(err)
	}
	err = c.each(func(_, value []byte) (bool, error) {
		e, err := decodeEvent(past+uint64(len(events))+1, value)
		size += len(e.Payload)
		if err != nil || size > maxEventBytes && len(events) > 0 {
			return false, err
		}
		events = append(events, e)
		return true, nil
	})
	if err == nil && size <= maxEventBytes && past+uint64(len(events)) != last {
		err = fmt.Errorf("%w: events after %d end at %d, not %d", errCorrupt, past, past+uint64(len(events)), last)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return events, nil
}

// Record implements persistence.Journal: it returns a record by kind and id. It fails with
// ErrNotFound without such a record, and else with ErrUnavailable.
func (j *Journal) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	value, err := j.value(ctx, slot.Shard(), keyRecord(slot.Shard(), kind, id))
	if err != nil {
		return persistence.Record{}, err
	}
	if value == nil {
		return persistence.Record{}, persistence.ErrNotFound
	}
	record, err := decodeRecord(kind, id, value)
	if err != nil {
		return persistence.Record{}, unavailable(err)
	}
	return record, nil
}

// List implements persistence.Journal: it returns a page of a workspace's records, newest first. It
// fails only with ErrUnavailable; no record is an empty page.
func (j *Journal) List(
	ctx context.Context, slot ident.Slot, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	id := slot.Shard()
	unlock, err := j.look(ctx, id)
	if err != nil {
		return nil, err
	}
	defer j.leave()
	v := j.store.view()
	unlock()
	records, err := list(v, id, kind, workspace, parent, page)
	if err = errors.Join(err, v.close()); err != nil {
		return nil, unavailable(err)
	}
	return records, nil
}

// list reads the page of a List from a view. It fails when the view cannot be read, or a listed
// record is missing or does not decode.
func list(v view, id ident.Shard, kind, workspace, parent string, page persistence.Page) ([]persistence.Record, error) {
	from := prefixList(id, kind, workspace, parent)
	to := after(from)
	if page.AfterPosition != 0 || page.AfterOrdinal != 0 {
		from = next(keyList(id, kind, workspace, parent, page.AfterPosition, page.AfterOrdinal))
	}
	c, err := v.cursor(from, to)
	if err != nil {
		return nil, err
	}
	var records []persistence.Record
	limit := persistence.PageLimit(page.Limit)
	err = c.each(func(key, recordID []byte) (bool, error) {
		value, err := v.get(keyRecord(id, kind, string(recordID)))
		if err == nil && value == nil {
			err = fmt.Errorf("%w: list entry %x without its record", errCorrupt, key)
		}
		if err != nil {
			return false, err
		}
		record, err := decodeRecord(kind, string(recordID), value)
		records = append(records, record)
		return len(records) < limit, err
	})
	return records, err
}

// Records implements persistence.Journal: it returns records of a kind after an id, in the order of
// their ids. It fails only with ErrUnavailable.
func (j *Journal) Records(ctx context.Context, id ident.Shard, kind, past string, limit int) ([]persistence.Record, error) {
	p := newRecordPage(id, kind, past, limit)
	if err := j.visitKeys(ctx, id, p.from, p.to, p.add); err != nil {
		return nil, err
	}
	return p.records, nil
}

// recordPage collects the records of a kind in a shard after an id, in the order of their ids.
type recordPage struct {
	kind     string
	prefix   int    // bytes of a key before the id
	from, to []byte // range of the keys
	limit    int
	records  []persistence.Record
}

func newRecordPage(id ident.Shard, kind, past string, limit int) *recordPage {
	start := prefixRecord(id, kind)
	p := &recordPage{kind: kind, prefix: len(start), from: start, to: after(start), limit: persistence.PageLimit(limit)}
	if past != "" {
		p.from = next(keyRecord(id, kind, past))
	}
	return p
}

// add decodes the next record of the range, and reports whether the page has room for more. It
// fails with errCorrupt for a damaged value.
func (p *recordPage) add(key, value []byte) (more bool, err error) {
	record, err := decodeRecord(p.kind, string(key[p.prefix:]), bytes.Clone(value))
	p.records = append(p.records, record)
	return len(p.records) < p.limit, err
}

// Once implements persistence.Journal: it returns the once-key that holds at now, and whether there
// is one. It fails only with ErrUnavailable.
func (j *Journal) Once(
	ctx context.Context, id ident.Shard, scope string, hash [32]byte, now time.Time,
) (persistence.Once, bool, error) {
	value, err := j.value(ctx, id, keyOnce(id, scope, hash))
	if value == nil || err != nil {
		return persistence.Once{}, false, err
	}
	once, err := decodeOnce(scope, hash, value)
	if err != nil {
		return persistence.Once{}, false, unavailable(err)
	}
	if !held(once, now) {
		return persistence.Once{}, false, nil
	}
	return once, true, nil
}

// TimersDue implements persistence.Journal.
func (j *Journal) TimersDue(id ident.Shard, now time.Time) bool {
	_, may := j.shards[id].due.MayBeDue(now)
	return may
}

// Timers implements persistence.Journal: it returns the timers due at now, earliest first. It looks
// into the store only when a timer may be due. Timers of the same instant come in the order of
// kind, stream and key. It fails only with ErrUnavailable.
func (j *Journal) Timers(
	ctx context.Context, id ident.Shard, now time.Time, past persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	due := &j.shards[id].due
	changes, may := due.MayBeDue(now)
	j.leave()
	if !may {
		return nil, nil
	}
	var timers []persistence.Timer
	var first time.Time
	limit = persistence.PageLimit(limit)
	begin, earliest := prefix(tableDue, id), past.Due.IsZero()
	if !earliest {
		begin = append(keyDue(id, past.Due, past.Kind, past.Stream, past.Key), 0)
	}
	err := j.visitKeys(ctx, id, begin, after(prefix(tableDue, id)), func(key, value []byte) (bool, error) {
		timer, err := decodeDue(key[shardBytes:], value)
		if err != nil {
			return false, err
		}
		if first.IsZero() {
			first = timer.Due
		}
		if timer.Due.After(now) {
			return false, nil
		}
		timers = append(timers, timer)
		return len(timers) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	if earliest {
		due.Observe(changes, first)
	}
	return timers, nil
}

// Cursor implements persistence.Journal. A name that was never saved is at 0. It fails only with
// ErrUnavailable.
func (j *Journal) Cursor(ctx context.Context, name string, id ident.Shard) (uint64, error) {
	value, err := j.value(ctx, id, keyCursor(id, name))
	if value == nil || err != nil {
		return 0, err
	}
	position, err := decodeNumber(value)
	if err != nil {
		return 0, unavailable(err)
	}
	return position, nil
}

// SaveCursor implements persistence.Journal. It does not wait for a sync, so that a crash may lose
// it. It fails with ErrTooLarge for a name over MaxName bytes, with ErrUnavailable when nothing was
// saved, and with ErrAmbiguous when the write fails.
func (j *Journal) SaveCursor(ctx context.Context, name string, id ident.Shard, position uint64) error {
	if len(name) > persistence.MaxName {
		return fmt.Errorf("%w: cursor name of %d bytes", persistence.ErrTooLarge, len(name))
	}
	if err := j.enter(ctx); err != nil {
		return err
	}
	defer j.leave()
	if err := j.store.setLazily(keyCursor(id, name), encodeNumber(position)); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	return nil
}

// Sweep implements persistence.Journal: it removes expired once-keys, and returns how many. Each
// shard is a commit of its own; an error leaves the shards before it swept. It fails with
// ErrUnavailable, or with ErrAmbiguous after a failed sync.
func (j *Journal) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	swept := 0
	for i := range j.shards {
		n, err := j.sweep(ctx, ident.Shard(i), now, persistence.PageLimit(limit))
		if err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}

// sweep removes at most limit expired once-keys of one shard, and returns how many. It fails as
// Sweep does.
func (j *Journal) sweep(ctx context.Context, id ident.Shard, now time.Time, limit int) (int, error) {
	if err := j.enter(ctx); err != nil {
		return 0, err
	}
	defer j.leave()
	s := &j.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := j.ready(); err != nil {
		return 0, err
	}
	w, swept := j.store.writes(), 0
	to := after(appendTime(prefix(tableExpiry, id), now))
	err := j.store.scan(prefix(tableExpiry, id), to, func(key, _ []byte) (bool, error) {
		_, scope, hash, err := decodeExpiry(key[shardBytes:])
		if err != nil {
			return false, err
		}
		w.delete(key)
		w.delete(keyOnce(id, scope, hash))
		swept++
		return swept < limit, nil
	})
	if err != nil || swept == 0 {
		if err = errors.Join(err, w.discard()); err != nil {
			return 0, unavailable(err)
		}
		return 0, nil
	}
	if err := j.store.commit(w); err != nil {
		return 0, fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	return swept, nil
}
