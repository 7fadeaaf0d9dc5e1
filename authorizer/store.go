package authorizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/pebblegate"
)

// This is the only file that knows Pebble: the rest of the package sees batches, keys and the few
// reads below.

// Sizes and limits of the Pebble store.
const (
	storeCacheBytes   = 256 << 20 // blocks and filters; Pebble takes its memtables out of it
	bloomBitsPerKey   = 10
	maxUnsyncedPebble = 4095 // Pebble's own limit of commits that wait for a sync; past it a commit blocks
)

// Pebble has room for every admitted commit, and for the lazy writes beside them.
const _ = uint(maxUnsyncedPebble - MaxUnsynced - ident.Shards)

// formatNumber is the version of the key table in doc.go.
const formatNumber = 3

// Errors that stop the start.
var (
	ErrInUse   = errors.New("authorizer: the directory is in use by another process")
	ErrForeign = errors.New("authorizer: the store belongs to another deployment or has another format")
	ErrCorrupt = errors.New("authorizer: the store cannot be read")
	ErrNoStore = errors.New("authorizer: there is no store, and no deployment to make one for")
)

// FS is the file system of a store.
type FS = vfs.FS

// useDisk keeps the store on the machine's disk, with logs of the length that a full memtable
// needs.
func (o *Options) useDisk() {
	o.FS, o.logBytes = vfs.Default, pebblegate.LogBytes
}

type (
	batch  = pebble.Batch
	moment = pebble.Snapshot
)

// reader is the store as it is now, or a snapshot of it.
type reader interface {
	Get(key []byte) ([]byte, io.Closer, error)
	NewIter(*pebble.IterOptions) (*pebble.Iterator, error)
}

type store struct {
	db   *pebble.DB
	lock *pebble.Lock
	logs *zeroedLogs          // nil: they grow
	wait *pebble.WriteOptions // Sync, or NoSync where nothing is promised
	uuid ident.UUID

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
	s := &store{lock: lock, wait: pebble.Sync}
	if o.logBytes > 0 {
		s.logs = newZeroedLogs(o.FS, o.Dir, o.logBytes)
	}
	if s.db, err = pebblegate.Open(o.Dir, pebbleOptions(o, s, fatal)); err != nil {
		return nil, errors.Join(fmt.Errorf("authorizer: open %s: %w", o.Dir, err), s.close())
	}
	if o.NoSync {
		s.wait = pebble.NoSync
	}
	if err := s.stamp(o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Dir, err), s.close())
	}
	return s, nil
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
	if s.logs != nil {
		p.FS = s.logs
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
	found, err := s.get(s.db, keyStamp(), func(v []byte) error { seen = bytes.Clone(v); return nil })
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
		"start with an empty directory")
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
	return s.db.Set(keyStamp(), v, pebble.Sync)
}

// close closes the open parts of the store.
func (s *store) close() (err error) {
	if s.db != nil {
		err = s.db.Close()
	}
	if s.logs != nil {
		s.logs.close()
	}
	return errors.Join(err, s.lock.Close())
}

func (s *store) newBatch() *batch { return s.db.NewBatch() }

// apply makes the batch visible. With sync on it returns before the batch is durable; await says
// when it is. Pebble panics when its write-ahead log is broken: that is an error like another here.
func (s *store) apply(b *batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("authorizer: commit: %v", r)
		}
	}()
	if !s.wait.Sync {
		return s.db.Apply(b, s.wait)
	}
	return s.db.ApplyNoSyncWait(b, s.wait)
}

// await returns once an applied batch is durable, and gives the batch back.
func (s *store) await(b *batch) error {
	if s.wait.Sync {
		if err := b.SyncWait(); err != nil {
			return err
		}
	}
	return b.Close()
}

// applyLazily makes a batch visible whose loss in a crash is harmless.
func (s *store) applyLazily(b *batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("authorizer: commit: %v", r)
		}
	}()
	return errors.Join(s.db.Apply(b, pebble.NoSync), b.Close())
}

// get hands the value of a key to read, which must not keep it.
func (s *store) get(from reader, key []byte, read func(v []byte) error) (found bool, err error) {
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

// scan visits the keys of [lower, upper) in order until visit says stop. Key and value are visit's
// only while it runs.
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

// last returns the greatest key of [lower, upper), nil when there is none.
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

func (s *store) snapshot() *moment { return s.db.NewSnapshot() }

func (s *store) checkpoint(dir string) error { return s.db.Checkpoint(dir, pebble.WithFlushedWAL()) }
