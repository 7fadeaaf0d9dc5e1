// Package pebblegate opens every Pebble store of Purser: the authorizer's, the embedded journal's
// and the sandbox's. It refuses damaged stores, keeps starts short, and slows the writers of
// tables. It is a leaf.
//
// No store has a log of Pebble's: its owner keeps the changes that are not in its tables in a
// log of package wal. A store whose disk is nearly full opens only when it has room for a flush,
// and then makes only the writes that it must (room.go).
//
// A guard beneath Pebble verifies manifests by checksums that are synced with them (guard.go,
// integrity.go). Those of a restored backup have none and are scanned. Tables are verified by
// their own checksums (tables.go).
//
// pebble.Open (v2.1.7) waits for the compactions that its flushes schedule. Upstream has mended
// this after that version (cockroachdb/pebble#5431). Until a release has it, the gate refuses
// every compaction until Open has returned.
package pebblegate

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Bounds of what a start has to replay: MemTableSize × MemTables, 64 MiB. "purser bench --kills"
// kills a server and times its start.
const (
	MemTableSize = 16 << 20
	MemTables    = 4
)

// Format is the format of every store: its logs and its tables have all the checksums that Pebble
// knows.
const Format = pebble.FormatTableFormatV6

// Bounds of the top level. Pebble compacts it when its tables overlap half as often as l0Compact
// says: with its own 4 that was every second memtable, and each time the level below was rewritten.
// Writes stop at an overlap of l0Stop, 16 GiB of log, so in practice never: a disk with little room
// gets no compaction, and has to take the last facts and freezes all the same. A store whose tables
// are behind has them written without pauses instead.
const (
	l0Compact = 8
	l0Stop    = 1 << 10
)

// grantEvery is how often a waiting compaction is offered a turn, and how often the store is asked
// whether its tables are behind.
const grantEvery = 100 * time.Millisecond

// A store with more than calmMemTables memtables, or more than calmL0 overlapping tables in the top
// level, is behind.
const (
	calmMemTables = 2 // the one that is written and the one that is flushed
	calmL0        = l0Compact
)

// Open opens the store with the gate closed and opens the gate after. It sets the memtable bounds
// and the compaction scheduler of the options, and bounds of the top level where they are unset.
// Writers of tables pause. All other options are the caller's.
//
// A store with damaged files is refused with ErrDamaged, one of a newer format with
// *dataformat.Other, and one whose disk is too full with ErrNoRoom. Other failures are those of
// Pebble and the disk, such as a store that another process has open. The store gets the format
// Format. The authorizer, the embedded journal and the sandbox call Open.
func Open(dir string, o *pebble.Options) (*pebble.DB, error) {
	db, g, err := closed(dir, o)
	if err != nil {
		return nil, err
	}
	g.open(db.Metrics)
	if len(g.tables.left) > 0 {
		g.granting.Go(func() { g.verifyRest(g.tables, o.Logger.Fatalf) })
	}
	return db, nil
}

// closed opens the store and leaves the gate closed. It fails as Open does.
func closed(dir string, o *pebble.Options) (*pebble.DB, *gate, error) {
	g := &gate{ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
		sleep: time.Sleep, done: make(chan struct{})}
	o.DisableWAL = true
	// An ingest that overlaps the memtable waits for its flush. Pebble would otherwise return
	// before the ingest is durable, because it relies on its log for that.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	o.MemTableSize = MemTableSize
	o.MemTableStopWritesThreshold = MemTables
	o.Experimental.CompactionScheduler = g
	if o.L0CompactionThreshold == 0 {
		o.L0CompactionThreshold = l0Compact
	}
	o.L0StopWritesThreshold = l0Stop
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.FormatMajorVersion = max(o.FormatMajorVersion, Format)
	db, err := openGuarded(dir, o, g)
	if err != nil {
		return nil, nil, err
	}
	return db, g, nil
}

// openGuarded verifies the store's files and opens the store. It takes the directory's lock unless
// the caller holds it. It fails with ErrDamaged, with ErrNoRoom, and with the errors of Pebble and
// the disk. closed calls it.
func openGuarded(dir string, o *pebble.Options, g *gate) (db *pebble.DB, err error) {
	if o.Lock == nil {
		if !o.ErrorIfNotExists {
			if err := MakeDir(o.FS, dir); err != nil {
				return nil, err
			}
		}
		lock, err := pebble.LockDirectory(dir, o.FS)
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		o.Lock = lock
		defer func() { err = errors.Join(err, lock.Close()) }() // the open store has a share of it
	}
	guarded, err := guardStore(o.FS, dir, o.ErrorIfNotExists)
	if err != nil {
		return nil, err
	}
	if err := RequireRoom(o.FS, dir, 0); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	g.room.watchRoom(guarded, dir)
	o.FS = resting{guarded, g}
	met := watchCorruption(o)
	if db, err = pebble.Open(dir, o); err != nil {
		if pebble.IsCorruptionError(err) && !errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
		}
		return nil, fmt.Errorf("open store: %w", err)
	}
	g.tables, err = tablesOf(db, dir, o)
	if err = errors.Join(err, guarded.keepOpened()); err == nil {
		err = g.tables.verifyNewest()
	}
	if err == nil {
		err = met.finishOpen()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
	}
	return db, nil
}

// watchCorruption makes the listener of the options keep the damage that Pebble meets before the
// store is open.
func watchCorruption(o *pebble.Options) *corruption {
	if o.Logger == nil {
		o.Logger = pebble.DefaultLogger
	}
	listener := pebble.EventListener{}
	if o.EventListener != nil {
		listener = *o.EventListener
	}
	met := &corruption{later: listener.DataCorruption}
	if met.later == nil {
		fatal := o.Logger.Fatalf
		met.later = func(info pebble.DataCorruptionInfo) { fatal("%s", info) }
	}
	listener.DataCorruption = met.reportDamage
	o.EventListener = &listener
	return met
}

// MakeDir makes a store's directory and syncs its entry and those of the parents that it makes,
// because a store is lost with a directory that a power loss removes. Pebble syncs only the
// directories that it makes itself, and a store is locked before Pebble opens it. It fails with the
// disk's error. Every store, and a backup, is made with it.
func MakeDir(fs vfs.FS, dir string) error {
	parents := []string{fs.PathDir(dir)}
	for {
		last := parents[len(parents)-1]
		if _, err := fs.Stat(last); err == nil || last == fs.PathDir(last) {
			break
		}
		parents = append(parents, fs.PathDir(last))
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of a store: %w", err)
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return fmt.Errorf("sync directory of a store: %w", err)
		}
	}
	return nil
}

// syncDir syncs the entries of a directory. It fails with the disk's error.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// gate is Pebble's own limiting scheduler with a door before it. The constructor that can be had
// does not offer turns by itself, so grant does: once Pebble has been refused, it waits to be
// asked.
type gate struct {
	*pebble.ConcurrencyLimitScheduler
	tables   *tableCheck
	room     room
	passable atomic.Bool
	sleep    func(time.Duration)
	calm     atomic.Bool // the tables are not behind; false until the store was asked
	written  atomic.Bool // a piece of a table, since the store was asked
	closing  sync.Once
	done     chan struct{}
	granting sync.WaitGroup
}

// open lets compactions through, also those that were refused before. Open calls it once the store
// is open.
func (g *gate) open(metrics func() *pebble.Metrics) {
	g.passable.Store(true)
	g.granting.Go(func() { g.grant(metrics) })
}

// TrySchedule implements pebble.CompactionScheduler. It refuses a compaction while the store is
// being opened, and while its disk has little room.
func (g *gate) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !g.passable.Load() || g.room.scarce.Load() {
		return false, nil
	}
	return g.ConcurrencyLimitScheduler.TrySchedule()
}

// Unregister implements pebble.CompactionScheduler. Pebble calls it when the store begins to close
// and waits for its tables; their writers no longer pause.
func (g *gate) Unregister() {
	g.closing.Do(func() { close(g.done) })
	g.granting.Wait()
	g.calm.Store(false)
	g.ConcurrencyLimitScheduler.Unregister()
}

// grant lets compactions that wait for a turn begin, looks for room on the disk, and notes whether
// compactions keep up with the writes. It runs every grantEvery, in a goroutine of its own, until
// the gate is closed.
func (g *gate) grant(metrics func() *pebble.Metrics) {
	ticker := time.NewTicker(grantEvery)
	defer ticker.Stop()
	for {
		if ok, handle := g.TrySchedule(); ok {
			handle.Done() // giving the turn back passes it to a compaction that waits
		}
		select {
		case <-ticker.C:
			g.room.lookForRoom()
			if g.written.Swap(false) || !g.calm.Load() {
				g.calm.Store(keepsUp(metrics()))
			}
		case <-g.done:
			return
		}
	}
}

// keepsUp reports whether compactions keep up: a store has at most calmMemTables memtables and
// calmL0 overlapping tables. grant calls it.
func keepsUp(m *pebble.Metrics) bool {
	return m.MemTable.Count <= calmMemTables && m.Levels[0].Sublevels <= calmL0
}
