// Package pebblelog opens a Pebble store whose commits are durable in a write-ahead log of
// package wal. Pebble keeps no log of its own: it is the log's projection.
//
// # Contract
//
// A commit is one record of the log, or several for a large batch. Its batch sets a key of the
// store to the record's number. Records have the order of the batches, and Pebble flushes
// batches in that order, so the number in the flushed part of the store is that of the last
// record in it. Open replays the records behind it. A flush waits until the log has synced its
// changes, and frees the records after it.
//
// Apply shows a batch at once, before it is durable; Wait returns when it is. A crash keeps every
// durable batch, whole, and of the others the first ones or none.
package pebblelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"purser/persistence/pebblegate"
	"purser/persistence/wal"
)

// positionKey is the store's key for the identity of the log and the number of the last record in
// the store. It sorts before the keys of every table.
var positionKey = []byte("\x00\x00log")

const (
	identityBytes = 16
	positionBytes = identityBytes + 8
	// positionEntry is the length of the key and its value in a batch: kind and two lengths
	// beside.
	positionEntry = 1 + 1 + 5 + 1 + positionBytes
)

// Options of Open.
type Options struct {
	Dir string
	// Pebble are the options of the store, with a file system; Open changes what the log needs.
	Pebble *pebble.Options
	// SegmentBytes is the length of the log's files; 0 is wal.DefaultSegmentBytes.
	SegmentBytes int
	// NoSync does not sync the log. A crash then loses durable batches.
	NoSync bool
	// Entropy draws the identity of a new store's log.
	Entropy io.Reader
}

// Store is an open store. DB is for reads: a change that does not go through Apply is lost in a
// crash, or at the next start.
type Store struct {
	DB *pebble.DB

	options  Options
	identity [identityBytes]byte
	log      *wal.Log[struct{}]
	opened   atomic.Pointer[wal.Log[struct{}]] // log, for the flushes
	isOpen   atomic.Bool                       // Open has returned, or is about to

	mu     sync.Mutex // the order of the records is that of the batches
	record []byte

	flushed chan struct{} // room for one
	done    chan struct{}
	loop    sync.WaitGroup
}

// Open opens the store of a directory, or makes it unless Options.Pebble.ErrorIfNotExists. It
// fails as pebblegate.Open does: with pebblegate.ErrDamaged also for a damaged log, and with
// pebblegate.ErrNoRoom also for a disk that cannot take what the log has.
func Open(o Options) (*Store, error) {
	if err := pebblegate.RequireRoom(o.Pebble.FS, o.Dir, wal.FileBytes(o.Pebble.FS, o.Dir)); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{options: o, flushed: make(chan struct{}, 1), done: make(chan struct{})}
	o.Pebble.FS = afterLog{o.Pebble.FS, s}
	s.watchFlushes(o.Pebble)
	db, err := pebblegate.Open(o.Dir, o.Pebble)
	if err != nil {
		return nil, err
	}
	s.DB = db
	if err := s.openLog(); err != nil {
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
		}
		return nil, errors.Join(fmt.Errorf("open store %s: %w", o.Dir, err), db.Close())
	}
	s.isOpen.Store(true)
	s.loop.Go(s.freeFlushed)
	return s, nil
}

// openLog replays the records that Pebble does not have.
func (s *Store) openLog() error {
	number, err := s.loadPosition()
	if err != nil {
		return err
	}
	r := replayer{db: s.DB}
	s.log, err = wal.Open(s.logOptions(s.options.Dir), number, r.take)
	if errors.Is(err, wal.ErrDamaged) || errors.Is(err, wal.ErrForeign) || errors.Is(err, wal.ErrGap) {
		err = fmt.Errorf("%w: %w", pebblegate.ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	s.opened.Store(s.log)
	if number > 0 {
		return nil
	}
	// A record is in Pebble at once: from then on a store without its log is refused.
	if err := s.Commit(s.DB.NewBatch()); err != nil {
		return err
	}
	return s.DB.Flush()
}

func (s *Store) logOptions(dir string) wal.Options[struct{}] {
	return wal.Options[struct{}]{FS: s.options.Pebble.FS, Dir: dir, SegmentBytes: s.options.SegmentBytes,
		Store: s.identity, NoSync: s.options.NoSync, Durable: s.endWithLog}
}

// endWithLog ends the process, or what Fatalf ends, when a group of the log has failed: its
// batches are visible and not durable, and Pebble would try their flush again for ever.
func (s *Store) endWithLog(_ []struct{}, err error) {
	if err != nil {
		s.options.Pebble.Logger.Fatalf("the log of a store has failed: %s", err)
	}
}

// loadPosition reads the position of a store, and gives a new one an identity.
func (s *Store) loadPosition() (number uint64, err error) {
	v, closer, err := s.DB.Get(positionKey)
	if errors.Is(err, pebble.ErrNotFound) {
		if _, err := io.ReadFull(s.options.Entropy, s.identity[:]); err != nil {
			return 0, err
		}
		if err := s.DB.Set(positionKey, s.position(0), pebble.NoSync); err != nil {
			return 0, err
		}
		return 0, s.DB.Flush()
	}
	if err != nil {
		return 0, err
	}
	if len(v) == positionBytes {
		copy(s.identity[:], v)
		number = binary.BigEndian.Uint64(v[identityBytes:])
	} else {
		err = fmt.Errorf("%w: its position has %d bytes", pebblegate.ErrDamaged, len(v))
	}
	return number, errors.Join(err, closer.Close())
}

func (s *Store) position(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, positionBytes), s.identity[:]...), number)
}

// A record is a byte that says whether it begins and whether it ends a batch, and a part of the
// batch.
const (
	begins = 1 << iota
	ends
)

// Apply makes the changes of a batch visible, and returns the number with which Wait waits for
// their durability. The batch is the caller's again, to close. After an error the store must not
// be used.
func (s *Store) Apply(b *pebble.Batch) (number uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maxPart := s.log.MaxRecord() - 1
	parts := (b.Len() + positionEntry + maxPart - 1) / maxPart
	number = s.log.Appended() + uint64(parts)
	if err := b.Set(positionKey, s.position(number), nil); err != nil {
		return 0, err
	}
	rest, flags := b.Repr(), byte(begins)
	for len(rest) > 0 {
		part := rest[:min(len(rest), maxPart)]
		if rest = rest[len(part):]; len(rest) == 0 {
			flags |= ends
		}
		s.record = append(append(s.record[:0], flags), part...)
		at, err := s.log.Append(s.record, struct{}{})
		if err != nil {
			return 0, err
		}
		if len(rest) == 0 && at != number {
			panic(fmt.Sprintf("BUG: a batch of %d bytes ends with record %d, not %d", b.Len(), at, number))
		}
		flags = 0
	}
	return number, s.DB.Apply(b, pebble.NoSync)
}

// Wait returns when the batch of a number is durable. It fails with the disk's error.
func (s *Store) Wait(number uint64) error { return s.log.Wait(number) }

// Commit is Apply and Wait, and closes the batch.
func (s *Store) Commit(b *pebble.Batch) error {
	number, err := s.Apply(b)
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	return s.Wait(number)
}

// Set commits one key.
func (s *Store) Set(key, value []byte) error {
	b := s.DB.NewBatch()
	if err := b.Set(key, value, nil); err != nil {
		return errors.Join(err, b.Close())
	}
	return s.Commit(b)
}

// replayer applies the batches of the records again.
type replayer struct {
	db    *pebble.DB
	batch []byte // the parts of a batch that has not ended
}

// take is called with each record in order. A batch without its end was not durable.
func (r *replayer) take(number uint64, record []byte) error {
	if len(record) == 0 || record[0]&begins == 0 && r.batch == nil {
		return fmt.Errorf("%w: record %d of its log does not follow the one before", pebblegate.ErrDamaged, number)
	}
	if record[0]&begins != 0 {
		r.batch = nil
	}
	r.batch = append(r.batch, record[1:]...)
	if record[0]&ends == 0 {
		return nil
	}
	b := r.db.NewBatch()
	if err := b.SetRepr(bytes.Clone(r.batch)); err != nil {
		return fmt.Errorf("%w: record %d of its log: %w", pebblegate.ErrDamaged, number, err)
	}
	r.batch = nil
	return errors.Join(r.db.Apply(b, pebble.NoSync), b.Close())
}

// Checkpoint copies the store, with all that is visible now and an empty log, into a new
// directory.
func (s *Store) Checkpoint(dir string) error {
	if err := s.DB.Flush(); err != nil { // most of it, while commits go on
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.DB.Flush(), s.DB.Checkpoint(dir)); err != nil {
		return err
	}
	number, err := s.flushedNumber() // less than Appended after the parts of a batch that a crash cut
	if err != nil {
		return err
	}
	return wal.Create(s.logOptions(dir), number)
}

// Bytes returns the bytes of the store's files and of its log.
func (s *Store) Bytes() int64 {
	return int64(s.DB.Metrics().DiskSpaceUsage()) + wal.FileBytes(s.options.Pebble.FS, s.options.Dir)
}

// Close makes the store durable and closes it. The log has what Pebble has not written.
func (s *Store) Close() error {
	close(s.done)
	s.loop.Wait()
	return errors.Join(s.log.Close(), s.DB.Close())
}
