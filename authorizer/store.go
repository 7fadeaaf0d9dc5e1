package authorizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/authorizer/hold"
	"purser/authorizer/memtable"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/pebblegate"
	"purser/persistence/wal"
)

// This file and projection.go are the only ones that know Pebble: the rest of the package sees
// batches, keys and the few reads below.

// Sizes and limits of the Pebble store.
const (
	storeCacheBytes = 256 << 20 // blocks and filters; Pebble takes its memtables out of it
	bloomBitsPerKey = 10
)

// formatNumber is the version of the key table in doc.go.
const formatNumber = 4

// Errors that stop the start.
var (
	ErrInUse   = errors.New("authorizer: the directory is in use by another process")
	ErrForeign = errors.New("authorizer: the store belongs to another deployment or has another format")
	ErrCorrupt = errors.New("authorizer: the store cannot be read")
	ErrNoStore = errors.New("authorizer: there is no store, and no deployment to make one for")
)

// FS is the file system of a store.
type FS = vfs.FS

type moment = pebble.Snapshot

// reader is the store as it is now, or a snapshot of it.
type reader interface {
	Get(key []byte) ([]byte, io.Closer, error)
	NewIter(*pebble.IterOptions) (*pebble.Iterator, error)
}

// store is the log, the changes of its records that Pebble does not have yet, and Pebble. A change
// is visible when it is in the table, and durable when its record is. What the table has is newer
// than what Pebble has.
type store struct {
	dir       string
	options   *pebble.Options
	db        *pebble.DB
	lock      *pebble.Lock
	log       *wal.Log[*ticket]
	table     *memtable.Table
	projector *projector
	buckets   *buckets
	values    sync.Pool // *[]byte of a value that is read
	// settle gets the tickets of durable records, in order. It is set before the first one.
	settle func(durable []*ticket, err error)

	uuid       ident.UUID
	deployment ident.UUID
}

// Exists reports whether the directory holds an authorizer's store. A directory that cannot be read
// has none. The commands ask it before they open or replace a store.
func Exists(fs FS, dir string) bool {
	if fs == nil {
		fs = vfs.Default
	}
	d, err := pebble.Peek(dir, fs)
	return err == nil && d.Exists
}

// openStore locks the directory and opens it. Pebble's fatal errors are passed to fatal, on any
// goroutine.
func openStore(o *Options, fatal func(error)) (*store, error) {
	if err := pebblegate.MakeDir(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("authorizer: %w", err)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInUse, o.Dir, err)
	}
	s := &store{dir: o.Dir, lock: lock, table: memtable.New(),
		values: sync.Pool{New: func() any { return new([]byte) }}}
	s.projector = newProjector(s)
	s.options = pebbleOptions(o, s, fatal)
	if s.db, err = pebblegate.Open(o.Dir, s.options); err != nil {
		return nil, errors.Join(fmt.Errorf("authorizer: open %s: %w", o.Dir, err), s.close())
	}
	if err := s.stamp(o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Dir, err), s.close())
	}
	if s.buckets, err = s.findBuckets(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrCorrupt, err), s.close())
	}
	if err := s.openLog(o); err != nil {
		return nil, errors.Join(fmt.Errorf("authorizer: open %s: %w", o.Dir, err), s.close())
	}
	return s, nil
}

// openLog replays the records that Pebble does not have, and writes them into it. It fails with
// pebblegate.ErrDamaged, ErrCorrupt and the disk's error.
func (s *store) openLog(o *Options) error {
	from, err := s.projectedNumber()
	if err == nil {
		s.projector.heads, err = s.newestHeads()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	s.log, err = wal.Open(wal.Options[*ticket]{
		FS: o.FS, Dir: o.Dir, Store: s.uuid, NoSync: o.NoSync, SegmentBytes: o.SegmentBytes,
		Durable: func(durable []*ticket, err error) { s.settle(durable, err) },
	}, from, s.newReplayer())
	if errors.Is(err, wal.ErrDamaged) || errors.Is(err, wal.ErrForeign) || errors.Is(err, wal.ErrGap) {
		return fmt.Errorf("%w: %w", pebblegate.ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	s.settle = func([]*ticket, error) {}
	s.projector.hurried = true
	err = s.projector.projectAll()
	s.projector.hurried = false
	s.projector.loop.Go(s.projector.projectLoop)
	s.projector.loop.Go(s.fillFilters)
	return err
}

// newReplayer returns what makes a record visible.
func (s *store) newReplayer() func(number uint64, record []byte) error {
	var n hold.Entry
	var sc scratch
	return func(number uint64, record []byte) error {
		s.table.Begin()
		defer s.table.End()
		switch {
		case len(record) > 0 && record[0] == recordChanges:
			return s.applyBatch(record)
		case len(record) > 0 && record[0] == recordDecision:
			c := change{entry: &n}
			encoded, err := c.decodeRecord(record)
			if err == nil {
				s.applyChange(&c, encoded, &sc)
			}
			return err
		}
		return fmt.Errorf("%w: record %d has an unknown kind", ErrCorrupt, number)
	}
}

// pebbleOptions leaves the memtables to the gate, which bounds by them what a start has to replay.
func pebbleOptions(o *Options, s *store, fatal func(error)) *pebble.Options {
	p := &pebble.Options{
		FS:           o.FS,
		Lock:         s.lock,
		CacheSize:    storeCacheBytes,
		MaxOpenFiles: o.OpenTables,
		Logger:       pebbleLogger{fatal: fatal},
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	return p
}

// pebbleLogger passes on what Pebble calls fatal. Pebble relies on Fatalf not to return.
type pebbleLogger struct{ fatal func(error) }

func (pebbleLogger) Infof(string, ...any) {}

func (pebbleLogger) Errorf(format string, args ...any) {
	slog.Error("pebble", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.fatal(fmt.Errorf("pebble: "+format, args...))
	select {}
}

// stamp checks whose store this is, and marks a new one.
func (s *store) stamp(o *Options) error {
	var seen []byte
	found, err := s.getStored(s.db, keyStamp(), func(v []byte) error { seen = bytes.Clone(v); return nil })
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !found {
		return s.newStamp(o)
	}
	if len(seen) != stampBytes {
		return fmt.Errorf("%w: identity stamp of %d bytes", ErrCorrupt, len(seen))
	}
	err = dataformat.Require("its format", int64(binary.BigEndian.Uint32(seen)), formatNumber,
		"after a clean stop of the program that made it, "+
			"`purser rebuild-authorizer --yes` makes it anew from the journal")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if n := binary.BigEndian.Uint32(seen[4:]); n != ident.Shards {
		return fmt.Errorf("%w: %d shards, this program has %d", ErrForeign, n, ident.Shards)
	}
	copy(s.deployment[:], seen[8:])
	copy(s.uuid[:], seen[24:])
	if !o.Deployment.IsZero() && s.deployment != o.Deployment {
		return fmt.Errorf("%w: deployment %x, not %x", ErrForeign, s.deployment[:], o.Deployment[:])
	}
	return nil
}

const stampBytes = 4 + 4 + 16 + 16

func (s *store) newStamp(o *Options) error {
	last, err := s.last([]byte{0}, []byte{0xff})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if last != nil {
		return fmt.Errorf("%w: it has no identity stamp", ErrForeign)
	}
	if o.Deployment.IsZero() {
		return ErrNoStore
	}
	s.deployment = o.Deployment
	if s.uuid, err = ident.New(ident.SystemSlot, o.Clock(), o.Entropy); err != nil {
		return err
	}
	v := binary.BigEndian.AppendUint32(make([]byte, 0, stampBytes), formatNumber)
	v = binary.BigEndian.AppendUint32(v, ident.Shards)
	v = append(append(v, o.Deployment[:]...), s.uuid[:]...)
	return errors.Join(s.db.Set(keyStamp(), v, pebble.NoSync), s.db.Flush())
}

// close closes the open parts of the store. Its log has the changes that Pebble lacks.
func (s *store) close() (err error) {
	if s.log != nil {
		close(s.projector.done)
		s.projector.loop.Wait()
		unwritten := s.projector.projectAll()
		if unwritten == nil {
			unwritten = s.db.Flush() // deletions of dropStored
		}
		if unwritten != nil {
			slog.Warn("the next start reads the authorizer's last changes from its log", "err", unwritten)
		}
		err = s.log.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// commitDurably writes a batch that concerns no shard, durably before it returns.
func (s *store) commitDurably(b *batch) error {
	s.table.Begin()
	number := uint64(0)
	err := s.applyBatch(b.record)
	if err == nil {
		number, err = s.log.Append(b.record, nil)
	}
	s.table.End()
	if err != nil {
		return err
	}
	return s.log.Wait(number)
}

// applyBatch makes the changes of a batch's record visible. The caller has begun a commit. It fails
// for a record that the log would not take.
func (s *store) applyBatch(record []byte) error {
	if len(record) > wal.MaxRecordBytes {
		return fmt.Errorf("%w: %d bytes", wal.ErrTooLarge, len(record))
	}
	return walkChanges(record, func(key, value []byte) {
		if key[0] == prefixReservation {
			s.projector.reserved.Store(true)
		}
		if value == nil {
			s.table.Delete(key)
			return
		}
		if key[0] == prefixDue {
			panic("BUG: a batch with a place in the due index")
		}
		s.table.Set(key, value)
	})
}

// setLazily makes a key visible whose loss in a crash is harmless.
func (s *store) setLazily(key, value []byte) {
	s.table.Begin()
	defer s.table.End()
	s.table.Set(key, value)
}

// dropStored fills a batch with deletions of keys that Pebble has and no later commit writes, and
// applies it. Its loss in a crash must be harmless.
func (s *store) dropStored(fill func(b *pebble.Batch) error) error {
	b := s.db.NewBatch()
	return errors.Join(fill(b), s.db.Apply(b, pebble.NoSync), b.Close())
}

// get hands the value of a key to read, which must not keep it.
func (s *store) get(key []byte, read func(v []byte) error) (found bool, err error) {
	buffer := s.values.Get().(*[]byte)
	defer s.values.Put(buffer)
	v, state := s.table.Get(key, (*buffer)[:0])
	*buffer = v
	switch state {
	case memtable.Deleted:
		return false, nil
	case memtable.Set:
		return true, read(v)
	}
	return s.getStored(s.db, key, read)
}

// getStored is get in Pebble alone.
func (s *store) getStored(from reader, key []byte, read func(v []byte) error) (found bool, err error) {
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(read(v), closer.Close())
}

// probe reads keys most of which are not there. It asks the Bloom filters of every level, where get
// passes those of the last, for it expects to find.
type probe struct{ it *pebble.Iterator }

// repeatsOnly are a probe's options. Pebble copies them, so that one of them does for every swipe.
var repeatsOnly = pebble.IterOptions{LowerBound: []byte{prefixRepeat}, UpperBound: []byte{prefixRepeat + 1},
	UseL6Filters: true}

func (s *store) probe() (probe, error) {
	it, err := s.db.NewIter(&repeatsOnly)
	return probe{it: it}, err
}

// get returns the value of a key, the caller's until the next get, or nil. No key that is probed
// for has an empty value.
func (p probe) get(key []byte) ([]byte, error) {
	if !p.it.SeekPrefixGE(key) {
		return nil, p.it.Error()
	}
	return p.it.ValueAndErr()
}

func (p probe) close() error { return p.it.Close() }

// scan visits the keys of [lower, upper) that Pebble has, in order, until visit says stop. Key and
// value are visit's only while it runs.
func (s *store) scan(from reader, lower, upper []byte, visit func(key, value []byte) (stop bool, err error)) error {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		stop, err := visit(it.Key(), v)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if stop {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// pair is a key and its value, copied.
type pair struct{ key, value []byte }

// last returns the greatest key of [lower, upper) that Pebble has, nil when there is none.
func (s *store) last(lower, upper []byte) (*pair, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	var p *pair
	if it.Last() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		p = &pair{key: bytes.Clone(it.Key()), value: bytes.Clone(v)}
	}
	return p, errors.Join(it.Error(), it.Close())
}

// snapshot returns Pebble with all that is visible now.
func (s *store) snapshot() (*moment, error) {
	if err := s.projector.projectAll(); err != nil {
		return nil, err
	}
	return s.db.NewSnapshot(), nil
}

// checkpoint copies the store, with all that is visible now and an empty log.
func (s *store) checkpoint(dir string) error {
	if err := s.projector.projectAll(); err != nil {
		return err
	}
	s.projector.running.Lock()
	defer s.projector.running.Unlock()
	through, err := s.projectedNumber()
	if err != nil {
		return err
	}
	if err := s.db.Checkpoint(dir); err != nil {
		return err
	}
	return wal.Create(wal.Options[*ticket]{FS: s.options.FS, Dir: dir, Store: s.uuid}, through)
}
