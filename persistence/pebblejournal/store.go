package pebblejournal

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblegate"
	"purser/persistence/pebblelog"
)

// filterBits is the size of the Bloom filter per key: most once-keys and timers that Append looks
// up are new.
const filterBits = 10

// store is all that the journal knows of Pebble.
type store struct {
	db   *pebble.DB
	log  *pebblelog.Store // db is its projection
	lock *pebble.Lock
	// broken is the failure after which Pebble must not be asked again.
	broken  atomic.Pointer[error]
	stopped chan struct{} // closed when broken is set
	onFail  func(error)
	onNote  func(error)
}

// Exists reports whether the directory holds a journal's store; a nil fs is the operating system's.
// It makes nothing. False also when the directory cannot be read.
func Exists(fs vfs.FS, dir string) bool {
	if fs == nil {
		fs = vfs.Default
	}
	d, err := pebble.Peek(dir, fs)
	return err == nil && d.Exists
}

// openStore opens or makes the store. It fails with ErrNoStore, ErrInUse, or the error of Pebble
// and the file system. onFail is called, possibly more than once and from any goroutine, when
// Pebble cannot go on; onNote when something in the background failed that Pebble tries again.
func openStore(o Options, onFail, onNote func(error)) (*store, error) {
	if o.MustExist {
		if _, err := o.FS.Stat(o.Dir); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrNoStore, o.Dir, err)
		}
	} else if err := pebblegate.MakeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInUse, o.Dir, err)
	}
	s := &store{lock: lock, stopped: make(chan struct{}), onFail: onFail, onNote: onNote}
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	s.log, err = s.openPebble(pebblelog.Options{Dir: o.Dir, Pebble: s.options(o, cache), NoSync: o.NoSync,
		SegmentBytes: o.SegmentBytes, Entropy: o.Entropy})
	if err == nil {
		s.db, err = s.log.DB, s.failure()
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("open journal %s: %w", o.Dir, err), lock.Close())
		if errors.Is(err, pebble.ErrDBDoesNotExist) {
			err = fmt.Errorf("%w: %w", ErrNoStore, err)
		}
		return nil, err
	}
	return s, nil
}

// openPebble opens the store on a disk that may fail meanwhile. It fails with Pebble's error, panic
// or fatal log line. Pebble panics when it cannot move its marker files, and waits for ever for a
// flush that cannot write the manifest; the goroutine then stays behind.
func (s *store) openPebble(o pebblelog.Options) (*pebblelog.Store, error) {
	type result struct {
		log *pebblelog.Store
		err error
	}
	opened := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("pebble: %v", p)
			}
			opened <- r
		}()
		r.log, r.err = pebblelog.Open(o)
	}()
	select {
	case r := <-opened:
		return r.log, r.err
	case <-s.stopped:
		return nil, s.failure()
	}
}

// options returns Pebble's options of the journal's store.
func (s *store) options(o Options, cache *pebble.Cache) *pebble.Options {
	po := &pebble.Options{
		FS:               o.FS,
		Cache:            cache,
		Lock:             s.lock,
		MaxOpenFiles:     o.OpenTables,
		ErrorIfNotExists: o.MustExist,
		Logger:           s,
		EventListener:    &pebble.EventListener{BackgroundError: s.backgroundError},
	}
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	return po
}

// Infof, Errorf and Fatalf are Pebble's logger. Pebble calls Fatalf when it cannot go on.
func (s *store) Infof(string, ...any) {}

func (s *store) Errorf(format string, args ...any) { s.onNote(fmt.Errorf(format, args...)) }

func (s *store) Fatalf(format string, args ...any) { s.fail(fmt.Errorf(format, args...)) }

func (s *store) fail(err error) {
	if s.broken.CompareAndSwap(nil, &err) {
		close(s.stopped)
	}
	s.onFail(err)
}

// backgroundError receives every failed flush and compaction, in their own goroutine. Pebble
// retries at once; in a broken store it would do so for ever.
func (s *store) backgroundError(err error) {
	s.onNote(err)
	if s.failure() != nil {
		runtime.Goexit()
	}
}

func (s *store) failure() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *store) close() error { return errors.Join(s.log.Close(), s.lock.Close()) }

func (s *store) empty() (bool, error) {
	found := false
	err := s.scan([]byte{1}, nil, func(_, _ []byte) (bool, error) {
		found = true
		return false, nil
	})
	return !found, err
}

// stamp writes the identity and the format of a new store, synced. It fails with the store's error.
func (s *store) stamp(identity persistence.Identity) error {
	w := s.writes()
	w.set(keyMeta(), encodeMeta(meta{format: format, slots: ident.Slots, shards: ident.Shards, identity: identity}))
	return s.commit(w)
}

// read calls use with the value of a key, if there is one; use must not keep it. It fails with the
// store's error or that of use. A missing key is no error.
func read(from pebble.Reader, key []byte, use func(value []byte) error) error {
	value, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(use(value), closer.Close())
}

func get(from pebble.Reader, key []byte) (value []byte, err error) {
	err = read(from, key, func(v []byte) error {
		value = append(make([]byte, 0, len(v)), v...)
		return nil
	})
	return value, err
}

func (s *store) read(key []byte, use func(value []byte) error) error { return read(s.db, key, use) }

// get returns a copy of the value, nil when there is none. No value of the journal that get is used
// for is empty.
func (s *store) get(key []byte) ([]byte, error) { return get(s.db, key) }

func (s *store) scan(from, to []byte, each func(key, value []byte) (more bool, err error)) error {
	c, err := s.cursor(from, to)
	if err != nil {
		return err
	}
	return c.each(each)
}

// cursor is a view of a range as it was when the cursor was made. It must be used, by each, or it
// leaks.
type cursor struct{ iter *pebble.Iterator }

func (s *store) cursor(from, to []byte) (cursor, error) { return cursorOf(s.db, from, to) }

func cursorOf(r pebble.Reader, from, to []byte) (cursor, error) {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	return cursor{iter: iter}, err
}

// each calls f with every key in order until f wants no more, and then closes the cursor. Key and
// value are valid only during the call. It fails with the store's error or that of f.
func (c cursor) each(f func(key, value []byte) (more bool, err error)) error {
	for ok := c.iter.First(); ok; ok = c.iter.Next() {
		value, err := c.iter.ValueAndErr()
		more := false
		if err == nil {
			more, err = f(c.iter.Key(), value)
		}
		if err != nil {
			return errors.Join(err, c.iter.Close())
		}
		if !more {
			break
		}
	}
	return c.iter.Close()
}

// view is the whole store as it was when the view was made. It must be closed.
type view struct{ snapshot *pebble.Snapshot }

func (s *store) view() view { return view{snapshot: s.db.NewSnapshot()} }

func (v view) get(key []byte) ([]byte, error) { return get(v.snapshot, key) }

func (v view) cursor(from, to []byte) (cursor, error) { return cursorOf(v.snapshot, from, to) }

func (v view) close() error { return v.snapshot.Close() }

// probe reads keys most of which are new. It asks the Bloom filters of every level, where get,
// which expects to find, passes those of the last. It shows the store as it was at the first get;
// closed, it may be used again.
type probe struct {
	store *store
	iter  *pebble.Iterator // nil before the first get
}

// get returns the value of a key, nil for a missing key. The value is valid until the next get. No
// value under a key of the journal is empty. It fails only when the store cannot be read.
func (p *probe) get(key []byte) ([]byte, error) {
	if p.iter == nil {
		iter, err := p.store.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			return nil, err
		}
		p.iter = iter
	}
	if !p.iter.SeekPrefixGE(key) {
		return nil, p.iter.Error()
	}
	return p.iter.ValueAndErr()
}

func (p *probe) close() error {
	if p.iter == nil {
		return nil
	}
	err := p.iter.Close()
	p.iter = nil
	return err
}

// writes are written together. Nothing reads them before.
type writes struct{ batch *pebble.Batch }

func (s *store) writes() writes { return writes{batch: s.db.NewBatch()} }

func (w writes) set(key, value []byte) {
	if err := w.batch.Set(key, value, nil); err != nil {
		panic(fmt.Sprintf("BUG: batch refuses a key: %v", err))
	}
}

func (w writes) delete(key []byte) {
	if err := w.batch.Delete(key, nil); err != nil {
		panic(fmt.Sprintf("BUG: batch refuses a key: %v", err))
	}
}

func (w writes) empty() bool { return w.batch.Empty() }

func (w writes) bytes() int { return w.batch.Len() }

func (w writes) discard() error { return w.batch.Close() }

// commit applies the writes and waits until they are synced. After an error the writes may or may
// not be stored, and the store must not be used any more: the error has been passed to onFail.
// Pebble panics when its log cannot be written, having locked itself; that is the same failure.
func (s *store) commit(w writes) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pebble: %v", p)
		}
		if err != nil {
			s.fail(err)
		}
	}()
	number, err := s.log.Apply(w.batch)
	if err != nil {
		return err
	}
	// A refused apply is reported by Fatalf alone.
	if err := errors.Join(w.batch.Close(), s.failure()); err != nil {
		return err
	}
	return s.log.Wait(number)
}

// setLazily writes one key without waiting for a sync: a crash may lose it. A failure is passed to
// onFail and returned.
func (s *store) setLazily(key, value []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pebble: %v", p)
		}
		if err != nil {
			s.fail(err)
		}
	}()
	w := s.writes()
	w.set(key, value)
	_, err = s.log.Apply(w.batch)
	return errors.Join(err, w.batch.Close())
}
