package pebblejournal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"purser/persistence"
	"purser/persistence/ident"
)

// loadBytes is what Load gives to Pebble at a time.
const loadBytes = 4 << 20

// ErrNotEmpty: Load was asked to fill a store that has something.
var ErrNotEmpty = errors.New("there is a journal already")

var _ persistence.Archiver = (*Journal)(nil)

// Snapshot implements persistence.Archiver: it returns the content as of now, for a backup or an
// audit, which must close it. It waits for the commits under way, one per shard at most. Close of
// the journal waits for its snapshots. It fails only with ErrUnavailable.
func (j *Journal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	for i := range j.shards { // in the order of Raise
		j.shards[i].mu.RLock()
		defer j.shards[i].mu.RUnlock()
	}
	if err := errors.Join(ctx.Err(), j.ready()); err != nil {
		j.leave()
		return nil, unavailable(err)
	}
	return &snapshot{j: j, view: j.store.view()}, nil
}

// StoredBytes implements persistence.Archiver: it returns the bytes of the store's files. It fails
// only with ErrUnavailable. A backup compares it with the free space.
func (j *Journal) StoredBytes(ctx context.Context) (int64, error) {
	if err := j.enter(ctx); err != nil {
		return 0, err
	}
	defer j.leave()
	return j.store.log.Bytes(), nil
}

// snapshot shows only data that was synced when it was taken.
type snapshot struct {
	j    *Journal
	view view
}

// Close implements persistence.Snapshot. It must be called once.
func (s *snapshot) Close() error {
	defer s.j.leave()
	return s.view.close()
}

// Events implements persistence.Snapshot: it returns events after a position as of the snapshot. It
// fails with the context's error, or with ErrUnavailable when the store cannot be read.
func (s *snapshot) Events(ctx context.Context, id ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := s.view.get(keyHead(id))
	if value == nil || err != nil {
		return nil, unavailable(err)
	}
	stored, err := decodeHead(value)
	if err != nil {
		return nil, unavailable(err)
	}
	if past >= stored.Position {
		return nil, nil
	}
	return readEvents(s.view, id, past, min(stored.Position, past+uint64(persistence.PageLimit(limit))))
}

// Records implements persistence.Snapshot: it returns records after an id as of the snapshot. It
// fails with the context's error, or with ErrUnavailable when the store cannot be read.
func (s *snapshot) Records(
	ctx context.Context, id ident.Shard, kind, past string, limit int,
) ([]persistence.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := newRecordPage(id, kind, past, limit)
	c, err := s.view.cursor(p.from, p.to)
	if err == nil {
		err = c.each(p.add)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return p.records, nil
}

// Content implements persistence.Snapshot: it iterates over all parts, shard after shard. It ends
// with one ErrUnavailable when the store cannot be read, a part does not decode or the context
// ends.
func (s *snapshot) Content(ctx context.Context) persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		w := walk{ctx: ctx, view: s.view, yield: yield}
		for i := range ident.Shards {
			err := w.shard(ident.Shard(i))
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(nil, unavailable(fmt.Errorf("shard %d: %w", i, err)))
				return
			}
		}
	}
}

// errEnough: who walks the content wants no more of it.
var errEnough = errors.New("enough")

// walk is one walk of the content.
type walk struct {
	ctx   context.Context
	view  view
	yield func(persistence.Part, error) bool
}

// shard yields all parts of one shard. It fails with errEnough when the reader stops, and else when
// the store cannot be read, a part does not decode or the context ends.
func (w *walk) shard(id ident.Shard) error {
	h := persistence.ShardHead{Shard: id}
	value, err := w.view.get(keyHead(id))
	if err != nil {
		return err
	}
	if value != nil {
		stored, err := decodeHead(value)
		if err != nil {
			return err
		}
		h.Head, h.Ordinal = stored.Head, stored.ordinal
	}
	if !w.yield(&h, nil) {
		return errEnough
	}
	for _, t := range []struct {
		table byte
		part  func(shard ident.Shard, key, value []byte) (persistence.Part, error)
	}{
		{tableEvent, eventPart}, {tableRecord, recordPart}, {tableOnce, oncePart}, {tableTimer, w.timerPart},
		{tableCursor, cursorPart},
	} {
		if err := w.table(id, t.table, t.part); err != nil {
			return err
		}
	}
	return nil
}

// table yields a shard's part of a table. The parts may alias the memory of the cursor. It fails as
// shard does.
func (w *walk) table(
	id ident.Shard, table byte, part func(shard ident.Shard, key, value []byte) (persistence.Part, error),
) error {
	from := prefix(table, id)
	c, err := w.view.cursor(from, after(from))
	if err != nil {
		return err
	}
	return c.each(func(key, value []byte) (bool, error) {
		p, err := part(id, key[shardBytes:], value)
		if err = errors.Join(err, w.ctx.Err()); err != nil {
			return false, err
		}
		if !w.yield(p, nil) {
			return false, errEnough
		}
		return true, nil
	})
}

func eventPart(_ ident.Shard, key, value []byte) (persistence.Part, error) {
	position, err := decodeNumber(key)
	if err != nil {
		return nil, err
	}
	e, err := decodeEvent(position, value)
	return &e, err
}

func recordPart(_ ident.Shard, key, value []byte) (persistence.Part, error) {
	k := reader{rest: key}
	kind, id := k.part(), string(k.tail())
	record, err := decodeRecord(kind, id, value)
	return &record, errors.Join(k.done(), err)
}

func oncePart(_ ident.Shard, key, value []byte) (persistence.Part, error) {
	k := reader{rest: key}
	scope, hash := k.part(), k.hash()
	once, err := decodeOnce(scope, hash, value)
	return &once, errors.Join(k.done(), err)
}

// timerPart returns a timer, with its workspace and slot from the due index. It fails when they are
// missing or do not decode.
func (w *walk) timerPart(id ident.Shard, key, value []byte) (persistence.Part, error) {
	k := reader{rest: key}
	kind, stream, name := k.part(), k.part(), string(k.tail())
	due, err := decodeTimer(value)
	if err = errors.Join(k.done(), err); err != nil {
		return nil, err
	}
	indexed := keyDue(id, due, kind, stream, name)
	rest, err := w.view.get(indexed)
	if err != nil {
		return nil, err
	}
	timer, err := decodeDue(indexed[shardBytes:], rest)
	return &timer, err
}

func cursorPart(_ ident.Shard, key, value []byte) (persistence.Part, error) {
	position, err := decodeNumber(value)
	return &persistence.Cursor{Name: string(key), Position: position}, err
}

// Load makes the journal of a directory from content and stamps it with the identity. It fails with
// ErrNotEmpty when the directory holds a journal, and with the errors of the content, the store and
// the context. Everything is synced when it returns nil. An error or a crash leaves a store without
// a stamp, which Open refuses: remove the directory. It ignores Options.Deployment and MustExist.
func Load(ctx context.Context, o Options, identity persistence.Identity, content persistence.Content) error {
	o.MustExist = false
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	s, err := openStore(o, func(error) {}, o.Note)
	if err != nil {
		return err
	}
	if err := load(ctx, s, identity, content); err != nil {
		if failed := s.failure(); failed != nil {
			return errors.Join(err, failed) // closing a broken store may hang
		}
		return errors.Join(err, s.close())
	}
	return s.close()
}

// load writes the content into an empty store and then stamps it. It fails with the errors of the
// content, the store and the context.
func load(ctx context.Context, s *store, identity persistence.Identity, content persistence.Content) error {
	empty, err := s.empty()
	if err != nil {
		return err
	}
	if !empty {
		return ErrNotEmpty
	}
	l := loading{store: s, writes: s.writes()}
	for part, err := range content {
		if err == nil {
			err = errors.Join(ctx.Err(), l.add(part))
		}
		if err != nil {
			return errors.Join(err, l.writes.discard())
		}
	}
	if err := errors.Join(l.flush(), s.db.Flush()); err != nil {
		return err
	}
	return s.stamp(identity)
}

// loading is a store that is being filled. Nothing is synced before the stamp.
type loading struct {
	store  *store
	writes writes
	shard  ident.Shard
	value  []byte // reused: Pebble copies its arguments
}

func (l *loading) flush() error {
	if err := l.store.db.Apply(l.writes.batch, pebble.NoSync); err != nil {
		return err
	}
	err := l.writes.discard()
	l.writes = l.store.writes()
	return err
}

// add stages one part, and writes the staged ones when they exceed loadBytes. It fails only when
// the store cannot be written.
func (l *loading) add(p persistence.Part) error {
	whole := &persistence.Batch{} // empty: each part names its own workspace
	switch p := p.(type) {
	case *persistence.ShardHead:
		l.shard = p.Shard
		if p.Head != (persistence.Head{}) || p.Ordinal != 0 {
			l.writes.set(keyHead(p.Shard), encodeHead(head{Head: p.Head, ordinal: p.Ordinal}))
		}
	case *persistence.Event:
		l.value = appendEvent(l.value[:0], whole, p)
		l.writes.set(keyEvent(l.shard, p.Position), l.value)
		l.writes.set(keyVersion(l.shard, p.Kind, p.Stream), encodeNumber(p.Version))
	case *persistence.Record:
		l.value = appendRecord(l.value[:0], p)
		l.writes.set(keyRecord(l.shard, p.Kind, p.ID), l.value)
		l.writes.set(keyList(l.shard, p.Kind, p.Workspace, p.Parent, p.Position, p.Ordinal), []byte(p.ID))
	case *persistence.Once:
		l.writes.set(keyOnce(l.shard, p.Scope, p.Hash), encodeOnce(p))
		if !p.Expires.IsZero() {
			l.writes.set(keyExpiry(l.shard, p.Expires, p.Scope, p.Hash), nil)
		}
	case *persistence.Timer:
		l.writes.set(keyTimer(l.shard, p.Kind, p.Stream, p.Key), encodeTimer(p.Due))
		l.writes.set(keyDue(l.shard, p.Due, p.Kind, p.Stream, p.Key), encodeDue(whole, p))
	case *persistence.Cursor:
		l.writes.set(keyCursor(l.shard, p.Name), encodeNumber(p.Position))
	default:
		panic(fmt.Sprintf("BUG: a journal has no %T", p))
	}
	if l.writes.bytes() < loadBytes {
		return nil
	}
	return l.flush()
}
