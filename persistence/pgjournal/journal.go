package pgjournal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/postgres"
	"purser/persistence/tail"
)

// format identifies the meaning of the tables. Open refuses a store with another number.
const format = 2

var _ persistence.Journal = (*Journal)(nil)

// Journal is a persistence.Journal over a Postgres database. Open makes it, Close ends it. All
// methods are safe for concurrent use.
type Journal struct {
	pool        *pgxpool.Pool
	backoff     *connectBackoff
	reportError func(error)
	reportFatal func(error)
	clock       func() time.Time
	slack       time.Duration // factor of the fixed timeouts: Options.Slack
	timeout     time.Duration // Options.Timeout
	evictAfter  time.Duration // Options.EvictAfter
	identity    persistence.Identity
	lanes       []*lane
	shards      [ident.Shards]shard
	heads       tail.Heads
	recent      tail.RecentEvents
	recordCache *recordCache
	lookups     chan *lookup
	cursors     *cursors
	exhausted   atomic.Pointer[exhaustion]
	waiters     atomic.Int64  // calls of WaitAdvance under way
	raising     chan struct{} // one token per Raise with a connection; evictions need the other half of the pool

	// callLock is held shared by every call that uses the database, and exclusively by Close.
	callLock    sync.RWMutex
	closed      bool
	done        <-chan struct{} // closed when Close begins
	stopWorkers context.CancelFunc
	workers     sync.WaitGroup // the lanes, the readers, the poller and the writer of cursors
}

// shard is the state in memory of a shard.
type shard struct {
	due tail.TimerHorizon
	mu  sync.Mutex // guards shardLease
	shardLease
}

// Open connects to the journal in a database; ctx bounds it. It fails with ErrForeign for another
// deployment, format or a newer schema, with ErrNoStore for a database without this schema, with
// ErrUnsafe for a server that may lose commits, and with errors of the options and the server.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Migrate {
		if err := migrateSchema(ctx, o.URL, o.Slack); err != nil {
			return nil, err
		}
	}
	j := &Journal{backoff: &connectBackoff{}, reportError: o.Note, clock: o.Clock, slack: time.Duration(o.Slack),
		timeout: o.Timeout, evictAfter: o.EvictAfter,
		recordCache: newRecordCache(time.Duration(o.Slack) * recordsTrustedFor),
		lookups:     make(chan *lookup, lookupMax), raising: make(chan struct{}, o.PoolSize/2)}
	j.cursors = newCursors(o.CursorInterval, j.writeCursors)
	j.reportFatal = func(err error) {
		j.cursors.Refuse(errFenced)
		j.recordCache.stopServing()
		o.Fatal(err)
	}
	config, err := connectionConfig(o, j.backoff)
	if err != nil {
		return nil, err
	}
	if j.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("pgjournal: %w", err)
	}
	opening := &opening{j, o}
	if err := opening.loadState(ctx); err != nil {
		j.pool.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	opening.startWorkers(config.ConnConfig)
	return j, nil
}

// refreshHeads reads all heads. It fails with the server's error. It reports a shard taken by
// another process, and a database that lost commits, to Options.Fatal. Without it a process that
// only reads from memory would not notice either.
func (j *Journal) refreshHeads(ctx context.Context) error {
	var known [ident.Shards]uint64 // read before the query, so that the answer cannot be older
	for id := range known {
		known[id] = j.heads.Head(ident.Shard(id)).Position
	}
	asked := j.recordCache.now()
	rows, err := j.pool.Query(ctx, sqlHeads)
	if err != nil {
		return err
	}
	var id int16
	var epoch, position int64
	var recovering bool // true on a standby, which may lag
	var fatal error
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &position, &recovering}, func() error {
		shard, found := ident.Shard(id), persistence.Head{Position: uint64(position), Epoch: uint64(epoch)}
		if j.shards[id].isForeignEpoch(found.Epoch) {
			fatal = cmp.Or(fatal, errTaken(shard, found))
		}
		if !recovering && found.Position < known[id] {
			fatal = errBehind(shard, found, known[id])
		}
		j.showHead(shard, found, recovering, asked)
		return nil
	})
	if fatal != nil {
		j.reportFatal(fatal)
	}
	return err
}

// pollHeads reads the heads every pollInterval while a WaitAdvance is under way.
func (j *Journal) pollHeads(alive context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-alive.Done():
			return
		case <-ticker.C:
		}
		if j.waiters.Load() == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(alive, j.timeout)
		if err := j.refreshHeads(ctx); err != nil && alive.Err() == nil {
			j.noteUnreachable(err)
		}
		cancel()
	}
}

// noteUnreachable records an error that says that no connection could be made. It ignores others.
func (j *Journal) noteUnreachable(err error) {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		j.backoff.recordFailure()
		j.reportError(fmt.Errorf("journal cannot reach its server: %w", err))
	}
}

// beginCall starts a call that uses the database; after nil the caller must call endCall. It fails
// with ErrUnavailable when the context has ended or the journal is closed.
func (j *Journal) beginCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailableError(err)
	}
	j.callLock.RLock()
	if j.closed {
		j.callLock.RUnlock()
		return unavailableError(errClosed)
	}
	return nil
}

func (j *Journal) endCall() { j.callLock.RUnlock() }

var errClosed = errors.New("journal closed")

func unavailableError(err error) error {
	return fmt.Errorf("%w: %w", persistence.ErrUnavailable, postgres.NameExhausted(err))
}

func ambiguousError(err error) error { return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err) }

// Identity implements persistence.Journal.
func (j *Journal) Identity() persistence.Identity { return j.identity }

// Head implements persistence.Journal. It returns the newest head that this process has read or
// written.
func (j *Journal) Head(id ident.Shard) persistence.Head { return j.heads.Head(id) }

// WaitAdvance implements persistence.Journal. An append of this process wakes it at once, one of
// another process within pollInterval.
func (j *Journal) WaitAdvance(ctx context.Context, seen uint64) (uint64, error) {
	j.waiters.Add(1)
	defer j.waiters.Add(-1)
	return j.heads.WaitAdvance(ctx, seen, j.done)
}

// Close implements persistence.Journal. It waits for the calls under way, which all are bounded,
// writes the changed cursors, and ends the connections. It returns nil, also a second time. A
// failed write of cursors is reported to Options.Note and has the effect of a crash.
func (j *Journal) Close() error {
	j.stopWorkers()
	j.callLock.Lock()
	defer j.callLock.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	for _, l := range j.lanes {
		close(l.queue)
	}
	close(j.lookups)
	j.workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), j.slack*rollbackTimeout)
	defer cancel()
	if err := j.cursors.Flush(ctx); err != nil {
		j.reportError(fmt.Errorf("journal closes without its last cursors: %w", err))
	}
	j.pool.Close()
	return nil
}
