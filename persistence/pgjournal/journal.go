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
)

// format is the meaning of the tables. A store of another number is refused.
const format = 1

var _ persistence.Journal = (*Journal)(nil)

// Journal is a persistence.Journal over a Postgres database. Open makes it, Close ends it.
type Journal struct {
	pool      *pgxpool.Pool
	gate      *gate
	note      func(error)
	fatal     func(error)
	clock     func() time.Time
	slack     time.Duration // a factor: Options.Slack
	identity  persistence.Identity
	lanes     []*lane
	shards    [ident.Shards]shard
	recent    persistence.RecentEvents
	known     *records
	lookups   chan *lookup
	cursors   *cursors
	exhausted atomic.Pointer[exhaustion]
	waiters   atomic.Int64  // calls of Wait under way
	raising   chan struct{} // bounds the calls of Raise with a connection; the commits they wait for need the others

	// life is held shared by every call that touches the database and exclusively by Close.
	life   sync.RWMutex
	closed bool
	done   <-chan struct{} // closed when Close begins
	end    context.CancelFunc
	work   sync.WaitGroup // the lanes, the readers, the poller and who writes cursors
}

// shard is what is known in memory of a shard.
type shard struct {
	tip persistence.HeadSignal
	due persistence.TimerHorizon
	mu  sync.Mutex // of what follows
	tenure
}

// Open connects to the journal in a database; ctx bounds it. The errors are ErrForeign, ErrNoStore, ErrUnsafe, or the server's.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Migrate {
		if err := migrate(ctx, o.URL, o.Slack); err != nil {
			return nil, err
		}
	}
	j := &Journal{gate: &gate{}, note: o.Note, clock: o.Clock, slack: time.Duration(o.Slack),
		known:   newRecords(time.Duration(o.Slack) * recordsTrusted),
		lookups: make(chan *lookup, lookupMax), raising: make(chan struct{}, o.PoolSize/2)}
	j.cursors = newCursors(j.writeCursors)
	j.fatal = func(err error) {
		j.cursors.Refuse(errFenced)
		j.known.fence()
		o.Fatal(err)
	}
	config, err := configure(o, j.gate)
	if err != nil {
		return nil, err
	}
	if j.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("pgjournal: %w", err)
	}
	if err := j.load(ctx, o); err != nil {
		j.pool.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.start(o, config.ConnConfig)
	return j, nil
}

func (j *Journal) load(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	if err := j.identify(ctx, o); err != nil {
		return err
	}
	if err := j.refresh(ctx); err != nil {
		return err
	}
	return j.loadDue(ctx)
}

// identify checks the schema, then reads the stamp of the store, or sets it when the store is new.
func (j *Journal) identify(ctx context.Context, o Options) error {
	if err := j.checkSchema(ctx); err != nil {
		return err
	}
	found, slots, shards, err := j.stamp(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		if o.MustExist {
			return fmt.Errorf("%w in this database", ErrNoStore)
		}
		if err = j.setStamp(ctx, o); err == nil {
			found, slots, shards, err = j.stamp(ctx)
		}
	}
	switch {
	case err != nil:
		return err
	case found != format:
		return fmt.Errorf("%w: its format is %d, this program reads %d", ErrForeign, found, format)
	case slots != ident.Slots || shards != ident.Shards:
		return fmt.Errorf("%w: it has %d slots in %d shards, this program %d in %d",
			ErrForeign, slots, shards, ident.Slots, ident.Shards)
	case !o.Deployment.IsZero() && o.Deployment != j.identity.Deployment:
		return fmt.Errorf("%w: its deployment is %x, not %x", ErrForeign, j.identity.Deployment, o.Deployment)
	}
	return nil
}

func (j *Journal) checkSchema(ctx context.Context) error {
	want, err := schema()
	if err != nil {
		return err
	}
	var found int64
	var refusal *pgconn.PgError
	err = j.pool.QueryRow(ctx, sqlSchema).Scan(&found)
	switch {
	case errors.As(err, &refusal) && refusal.Code == undefinedTable:
		return fmt.Errorf("%w in this database: it was not migrated", ErrNoStore)
	case err != nil:
		return err
	case found < want:
		return fmt.Errorf("%w of this program: the schema is at %d, migrate it to %d", ErrNoStore, found, want)
	case found > want:
		return fmt.Errorf("%w: the schema is at %d, this program knows %d", ErrForeign, found, want)
	}
	return nil
}

func (j *Journal) stamp(ctx context.Context) (format, slots, shards int, err error) {
	var deployment, store [16]byte
	err = j.pool.QueryRow(ctx, sqlStamp).Scan(&format, &slots, &shards, &deployment, &store)
	j.identity = persistence.Identity{Deployment: deployment, Store: store}
	return format, slots, shards, err
}

// setStamp stamps a new store, unless another process does so first.
func (j *Journal) setStamp(ctx context.Context, o Options) (err error) {
	deployment, now := o.Deployment, o.Clock() // one for both: a later incarnation's Store is of a later time than the Deployment
	if deployment.IsZero() {
		if deployment, err = ident.New(ident.SystemSlot, now, o.Entropy); err != nil {
			return err
		}
	}
	store, err := ident.New(ident.SystemSlot, now, o.Entropy)
	if err != nil {
		return err
	}
	_, err = j.pool.Exec(ctx, sqlSetStamp, format, ident.Slots, ident.Shards, [16]byte(deployment), [16]byte(store))
	return err
}

func (j *Journal) start(o Options, config *pgx.ConnConfig) {
	for range o.Lanes {
		l := &lane{j: j, config: config, queue: make(chan *request, laneQueue)}
		j.lanes = append(j.lanes, l)
		j.work.Go(l.run)
		j.work.Go(j.readRecords)
	}
	alive, end := context.WithCancel(context.Background())
	j.done, j.end = alive.Done(), end
	j.work.Go(func() { j.poll(alive) })
	j.work.Go(func() {
		j.cursors.Run(alive, func(err error) {
			j.note(fmt.Errorf("journal cannot write the places of subscribers: %w", postgres.NameExhausted(err)))
		})
	})
}

// refresh reads all heads. That a shard was taken, or that the database was set back, shows here at the latest, when nobody
// appends: what is read from memory would go on as if nothing had happened.
func (j *Journal) refresh(ctx context.Context) error {
	var known [ident.Shards]uint64 // before the question: what is answered is not older
	for id := range known {
		known[id] = j.shards[id].tip.Head().Position
	}
	asked := j.known.now()
	rows, err := j.pool.Query(ctx, sqlHeads)
	if err != nil {
		return err
	}
	var id int16
	var epoch, position int64
	var recovering bool // a standby, which may be behind for a moment
	var fatal error
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &position, &recovering}, func() error {
		shard, found := ident.Shard(id), persistence.Head{Position: uint64(position), Epoch: uint64(epoch)}
		if j.shards[id].takenBy(found.Epoch) {
			fatal = cmp.Or(fatal, errTaken(shard, found))
		}
		if !recovering && found.Position < known[id] {
			fatal = errBehind(shard, found, known[id])
		}
		j.meet(shard, found, recovering, asked)
		return nil
	})
	if fatal != nil {
		j.fatal(fatal)
	}
	return err
}

// poll reads the heads while somebody waits for one.
func (j *Journal) poll(alive context.Context) {
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
		ctx, cancel := context.WithTimeout(alive, j.slack*queryTimeout)
		if err := j.refresh(ctx); err != nil && alive.Err() == nil {
			j.lost(err)
		}
		cancel()
	}
}

// lost is told of every failure to reach the server.
func (j *Journal) lost(err error) {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		j.gate.failed()
		j.note(fmt.Errorf("journal cannot reach its server: %w", err))
	}
}

// enter begins a call that touches the database; leave ends it.
func (j *Journal) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	j.life.RLock()
	if j.closed {
		j.life.RUnlock()
		return unavailable(errClosed)
	}
	return nil
}

func (j *Journal) leave() { j.life.RUnlock() }

var errClosed = errors.New("journal closed")

func unavailable(err error) error {
	return fmt.Errorf("%w: %w", persistence.ErrUnavailable, postgres.NameExhausted(err))
}

func ambiguous(err error) error { return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err) }

// Identity implements persistence.Journal.
func (j *Journal) Identity() persistence.Identity { return j.identity }

// Head implements persistence.Journal. It is what this process last read or wrote.
func (j *Journal) Head(id ident.Shard) persistence.Head { return j.shards[id].tip.Head() }

// Wait implements persistence.Journal. What this process appends wakes it at once, what others do within pollInterval. It
// returns the context's error, or ErrUnavailable when the journal ends first.
func (j *Journal) Wait(ctx context.Context, id ident.Shard, past uint64) error {
	j.waiters.Add(1)
	defer j.waiters.Add(-1)
	return j.shards[id].tip.Wait(ctx, past, j.done)
}

// Close implements persistence.Journal. It waits for the calls under way, all of which are bounded, writes the cursors that have
// moved, which may fail as in a crash, and ends the connections. A second Close returns nil.
func (j *Journal) Close() error {
	j.end()
	j.life.Lock()
	defer j.life.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	for _, l := range j.lanes {
		close(l.queue)
	}
	close(j.lookups)
	j.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), j.slack*rollbackTimeout)
	defer cancel()
	if err := j.cursors.Flush(ctx); err != nil {
		j.note(fmt.Errorf("journal closes without the last places of subscribers: %w", err))
	}
	j.pool.Close()
	return nil
}
