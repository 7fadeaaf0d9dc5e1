package pebblejournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"purser/persistence"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/tail"
)

// format is the number of the key table in the package comment, and of the layouts of keys, values
// and documents. A store of another number is refused.
const format = 3

var _ persistence.Journal = (*Journal)(nil)

// Journal is a persistence.Journal over one Pebble store. Open makes it, Close ends it.
type Journal struct {
	store    *store
	identity persistence.Identity
	shards   [ident.Shards]shard
	heads    tail.Heads // the durable ones

	// life is held shared by every call that touches the store and exclusively by Close.
	life   sync.RWMutex
	closed bool
	done   chan struct{} // closed by Close or the first failure
	stop   sync.Once
	fatal  func(error)
	opened atomic.Bool
	known  sync.Pool // each is a *groupCache
	recent tail.RecentEvents
}

// shard is one lane of the journal.
type shard struct {
	// mu is held from the checks of an Append to the end of its sync, and shared while a read opens its view of the store.
	mu   sync.RWMutex
	head head // under mu

	due tail.TimerHorizon
}

// Open opens the journal in a directory, or makes it. It fails with ErrInUse while another process
// has it, ErrNoStore when it must exist and does not, ErrForeign for another deployment or format,
// ErrMoved after MarkMoved, and with errors of the options and the file system.
func Open(o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Journal{done: make(chan struct{}), fatal: o.Fatal, known: sync.Pool{New: func() any { return newGroupCache() }}}
	if j.store, err = openStore(o, j.onFail, o.Note); err != nil {
		return nil, err
	}
	err = j.identify(o)
	if err == nil {
		err = j.loadHeads()
	}
	if err == nil {
		j.opened.Store(true)
		err = j.store.failure()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: %w", o.Dir, err), j.abandon())
	}
	return j, nil
}

// abandon closes the store of a journal that was not opened, unless it is broken: then closing may hang.
func (j *Journal) abandon() error {
	if j.store.failure() != nil {
		return nil
	}
	return j.store.close()
}

// identify reads the stamp of the store, or sets it when the store is new. It fails with ErrForeign
// for another deployment, format or number of shards, with ErrMoved, ErrNoStore, or the store's
// error.
func (j *Journal) identify(o Options) error {
	value, err := j.store.get(keyMeta())
	if err != nil {
		return err
	}
	if value == nil {
		return j.stamp(o)
	}
	m, err := decodeMeta(value)
	if err == nil {
		err = dataformat.Require("its format", int64(m.format), format, "start with an empty directory")
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case m.slots != ident.Slots || m.shards != ident.Shards:
		return fmt.Errorf("%w: it has %d slots in %d shards, this program %d in %d",
			ErrForeign, m.slots, m.shards, ident.Slots, ident.Shards)
	case !o.Deployment.IsZero() && o.Deployment != m.identity.Deployment:
		return fmt.Errorf("%w: its deployment is %x, not %x", ErrForeign, m.identity.Deployment, o.Deployment)
	}
	j.identity = m.identity
	moved, err := j.store.get(keyMoved())
	if moved != nil {
		return fmt.Errorf("%w to %s", ErrMoved, moved)
	}
	return err
}

// MarkMoved notes, durably, that the journal continues in another place: from then on Open returns
// ErrMoved with its name, for people. This journal must not be written any more. It fails with
// ErrUnavailable when nothing was noted, else with ErrAmbiguous. The command that moves a journal
// to Postgres calls it last.
func (j *Journal) MarkMoved(ctx context.Context, place string) error {
	if err := j.enter(ctx); err != nil {
		return err
	}
	defer j.leave()
	w := j.store.writes()
	w.set(keyMoved(), []byte(place))
	if err := j.store.commit(w); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	return nil
}

// stamp gives a new store its identity. It fails with ErrForeign for a store with keys, with
// ErrNoStore when the store must exist, and with the error of the store or the random source.
func (j *Journal) stamp(o Options) error {
	empty, err := j.store.empty()
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: it has keys and no stamp", ErrForeign)
	}
	if o.MustExist {
		return ErrNoStore
	}
	j.identity.Deployment = o.Deployment
	now := o.Clock() // the time of both: a later incarnation's Store is of a later time than the Deployment
	if o.Deployment.IsZero() {
		if j.identity.Deployment, err = ident.New(ident.SystemSlot, now, o.Entropy); err != nil {
			return err
		}
	}
	if j.identity.Store, err = ident.New(ident.SystemSlot, now, o.Entropy); err != nil {
		return err
	}
	return j.store.stamp(j.identity)
}

// loadHeads reads the heads of all shards into memory. It fails when the store cannot be read or a
// head does not decode.
func (j *Journal) loadHeads() error {
	from := []byte{tableHead}
	return j.store.scan(from, after(from), func(key, value []byte) (bool, error) {
		h, err := decodeHead(value)
		if err != nil || len(key) != 2 {
			return false, fmt.Errorf("head %x: %w", key, errCorrupt)
		}
		j.publish(ident.Shard(key[1]), h)
		return true, nil
	})
}

// onFail stops the journal at the first failure of its store, and passes that to Options.Fatal.
// Every goroutine that sees the store fail calls it; later calls do nothing. During Open it does
// nothing, because Open returns the failure.
func (j *Journal) onFail(err error) {
	if !j.opened.Load() {
		return // Open returns it
	}
	j.stop.Do(func() {
		close(j.done)
		j.fatal(err)
	})
}

// enter begins a call that touches the store; after nil the caller must call leave. It fails with
// ErrUnavailable when the context has ended, the journal is closed or its store has failed.
func (j *Journal) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	j.life.RLock()
	if err := j.ready(); err != nil {
		j.life.RUnlock()
		return err
	}
	return nil
}

func (j *Journal) leave() { j.life.RUnlock() }

var errClosed = errors.New("journal closed")

// ready returns why the store may not be read: ErrUnavailable when the journal is closed or has
// failed. A call that had to wait for a lock checks again after it.
func (j *Journal) ready() error {
	if j.closed {
		return unavailable(errClosed)
	}
	if err := j.store.failure(); err != nil {
		return unavailable(err)
	}
	return nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", persistence.ErrUnavailable, err) }

// Identity implements persistence.Journal.
func (j *Journal) Identity() persistence.Identity { return j.identity }

// Raise implements persistence.Journal: it raises the epochs of the shards in one commit, and
// returns the new heads. It waits for the commits under way. It fails with ErrUnavailable when no
// epoch was raised, and with ErrAmbiguous after a failed sync.
func (j *Journal) Raise(ctx context.Context, shards ...ident.Shard) ([]persistence.Head, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	taken := slices.Clone(shards)
	slices.Sort(taken) // every Raise locks in this order
	taken = slices.Compact(taken)
	for _, id := range taken {
		j.shards[id].mu.Lock()
		defer j.shards[id].mu.Unlock()
	}
	if err := errors.Join(ctx.Err(), j.ready()); err != nil {
		return nil, unavailable(err)
	}
	if err := j.raise(taken); err != nil {
		return nil, err
	}
	heads := make([]persistence.Head, len(shards))
	for i, id := range shards {
		heads[i] = j.shards[id].head.Head
	}
	return heads, nil
}

// raise commits the next epoch of each shard; the shards are locked. It fails with ErrAmbiguous
// when the sync fails.
func (j *Journal) raise(shards []ident.Shard) error {
	if len(shards) == 0 {
		return nil
	}
	w := j.store.writes()
	for _, id := range shards {
		h := j.shards[id].head
		h.Epoch++
		w.set(keyHead(id), encodeHead(h))
	}
	if err := j.store.commit(w); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	for _, id := range shards {
		h := j.shards[id].head
		h.Epoch++
		j.publish(id, h)
	}
	return nil
}

// publish makes a synced head visible and wakes the readers in WaitAdvance. The caller holds the
// shard's lock, or the journal is not open yet.
func (j *Journal) publish(id ident.Shard, h head) {
	j.shards[id].head = h
	j.heads.Advance(id, h.Head)
}

// Head implements persistence.Journal. After a failure or Close it returns the last synced head.
func (j *Journal) Head(id ident.Shard) persistence.Head { return j.heads.Head(id) }

// WaitAdvance implements persistence.Journal.
func (j *Journal) WaitAdvance(ctx context.Context, seen uint64) (uint64, error) {
	return j.heads.WaitAdvance(ctx, seen, j.done)
}

// Close implements persistence.Journal. It waits for the calls under way and releases the
// directory. After a failure of the store it leaves the store as it is and returns ErrUnavailable.
// A second Close returns nil.
func (j *Journal) Close() error {
	if err := j.store.failure(); err != nil {
		return unavailable(err)
	}
	j.stop.Do(func() { close(j.done) })
	j.life.Lock()
	defer j.life.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	return j.store.close()
}
