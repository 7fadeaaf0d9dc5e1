package authorizer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/persistence/ident"
)

// Limits of the engine.
const (
	// MaxUnsynced bounds the commits that wait for a sync; further callers wait for a place.
	MaxUnsynced = 3584
	// DefaultCacheBytes and DefaultBacklogMax apply where Options sets none.
	DefaultCacheBytes = 512 << 20
	DefaultBacklogMax = 10_000_000
	// loadAttempts bounds the reads of cold data before the lock; the last attempt reads under it.
	loadAttempts = 4
	// deciders bounds the decisions beside their callers; each may wait for a cold read.
	deciders = 64
)

// Errors of the engine.
var (
	// ErrStopped means that a commit or a sync has failed: the engine decides, answers and writes
	// nothing more.
	ErrStopped = errors.New("authorizer: stopped after a failed commit")
	errLate    = errors.New("authorizer: no sync within the deadline")
)

// Engine is the authorizer of one process and one directory. Its methods are safe for concurrent
// use, unless they name a limit of callers. Each of its parts has a file.
type Engine struct {
	store    *store
	failStop *failStop
	shards   *shardTable
	buckets  *buckets
	backlog  *backlog
	room     *diskRoom
	clock    func() time.Time
	listener Listener

	// A message goes from the intake to the decider, to the committer, and back to the intake, or
	// to the returner when its answer was "timeout".
	intake  *intake
	decider *decider
	commits *committer
	running sync.WaitGroup // the returner

	expirer   *expirer
	retention *retention
}

// Open opens or creates the store of a directory. It reads a few keys per shard, and no card. It
// fails with the faults of Options.Validate, with ErrInUse, ErrForeign, ErrNoStore, ErrCorrupt or
// ErrHalfAnew, and with the disk's error. The serve command calls it, and so do the commands that
// work on a stopped server's store.
func Open(o Options) (*Engine, error) {
	o.ensureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		failStop: newFailStop(o.Fatal), backlog: newBacklog(o.BacklogMax), room: &diskRoom{}, clock: o.Clock,
		listener: o.Listener,
	}
	s, err := openStore(&o, e.failStop.fail)
	if err != nil {
		return nil, err
	}
	if err := s.whole(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	e.store, e.buckets = s, s.buckets
	if e.shards, err = openShards(s, e.backlog, o.CacheBytes/ident.Shards); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrCorrupt, err), s.close())
	}
	e.start(&o)
	return e, nil
}

// start makes the parts of the engine, and starts their goroutines.
func (e *Engine) start(o *Options) {
	e.commits = newCommitter(e.store, e.failStop, o)
	e.decider = &decider{
		store: e.store, shards: e.shards, buckets: e.buckets, backlog: e.backlog, room: e.room,
		entropy: &entropy{source: o.Entropy}, commits: e.commits, listener: o.Listener,
	}
	e.intake = newIntake(e.commits, e.decider, o)
	e.expirer = &expirer{
		store: e.store, shards: e.shards, commits: e.commits, decider: e.decider, listener: o.Listener, clock: o.Clock,
	}
	e.retention = &retention{store: e.store, shards: e.shards, buckets: e.buckets}
	returns := &returner{commits: e.commits, decider: e.decider, clock: o.Clock, suspect: o.ClockSuspect}
	e.running.Go(returns.returnLoop)
}

// Deployment returns the deployment that the store belongs to.
func (e *Engine) Deployment() ident.UUID { return e.store.deployment }

// Checkpoint writes the current store into a new directory on the same file system, with links. The
// copy holds the data that a crash would leave: every decision that was answered before the call,
// and the last ones in order. It delays no decision. It fails when dir exists and with the disk's
// error.
func (e *Engine) Checkpoint(dir string) error {
	if err := e.store.checkpoint(dir); err != nil {
		return fmt.Errorf("authorizer: checkpoint %s: %w", dir, err)
	}
	return nil
}

// Close waits for running calls and closes the store. No method may be called during or after it.
// It returns the store's error.
func (e *Engine) Close() error {
	close(e.store.projector.closing)
	e.commits.takeAllSlots()
	e.intake.close()
	close(e.commits.returns)
	e.running.Wait()
	return e.store.close()
}
