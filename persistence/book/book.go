package book

import (
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
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

var _ consumer.Handler = (*Book)(nil)

// Book is the read model in one database. Open makes it, Close ends it. All methods are safe for concurrent use.
type Book struct {
	pool         *pgxpool.Pool
	identity     persistence.Identity
	ready        readiness
	skipped      *skippedPositions
	lockedRounds map[ident.Shard]int // consecutive writes that found the shard locked
	reportError  func(error)
	slack        time.Duration // a factor: Options.Slack
	closeTimeout time.Duration // Options.CloseTimeout
	disconnected atomic.Bool   // all connections have ended
	stopRun      context.CancelFunc
	work         sync.WaitGroup     // the goroutine that writes skipped positions
	writeContext context.Context    // context of writes of skipped positions
	cancelWrites context.CancelFunc // cancels writeContext
}

// Open checks the options and makes a Book. It does not connect, so the server may be down; it
// fails only for invalid options. Prepare, or the first Handle or Position, migrates the schema;
// reads need no Prepare.
func Open(ctx context.Context, o Options) (*Book, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	config, err := o.configure()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	alive, end := context.WithCancel(context.Background())
	b := &Book{pool: pool, identity: o.Identity, ready: readiness{turn: make(chan struct{}, 1)},
		reportError: o.Note, stopRun: end, slack: time.Duration(o.Slack), closeTimeout: o.CloseTimeout,
		lockedRounds: map[ident.Shard]int{}}
	b.writeContext, b.cancelWrites = context.WithCancel(context.Background())
	b.skipped = newSkippedPositions(o.SkippedInterval, b.writeSkipped)
	b.work.Go(func() {
		b.skipped.Run(alive, func(err error) { b.reportError(fmt.Errorf("book cannot write skipped positions: %w", err)) })
	})
	return b, nil
}

var errClosed = errors.New("book closed")

// Close waits for the calls under way, writes the skipped positions, and ends the connections. A
// failed write is reported to Options.Note and has the effect of a crash. Close waits at most
// Options.CloseTimeout for a server that does not answer. A write that arrives later only moves a position
// forward. It returns nil.
func (b *Book) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, b.cancelWrites)()
	b.skipped.Refuse(errClosed)
	b.stopRun()
	b.work.Wait()
	if err := b.writeRemaining(ctx); err != nil {
		b.reportError(fmt.Errorf("book closes without its last skipped positions: %w", err))
	}
	ended := make(chan struct{})
	go func() {
		b.pool.Close() // a connection that was given up takes its time
		b.disconnected.Store(true)
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// writeRemaining writes the remaining skipped positions; Close calls it. A shard that another
// session has locked, most often a booking cancelled by Close, is retried every lockedPause. It
// fails with errLocked when such a shard stays locked until ctx ends, and with the error of the
// first failed write, after which it does not try again.
func (b *Book) writeRemaining(ctx context.Context) error {
	for {
		if err := b.skipped.LastError(); err != nil {
			return err
		}
		switch err := b.skipped.Flush(ctx); {
		case err == nil && b.skipped.Pending() == 0:
			return nil
		case err == nil: // another session holds the remaining shards
		case ctx.Err() != nil && len(b.lockedRounds) > 0: // ctx ended during a retry
			return fmt.Errorf("%w: %w", errLocked, err)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return errLocked
		case <-time.After(lockedPause):
		}
	}
}

// errLocked: a transaction of another session holds the shards.
var errLocked = errors.New("locked by another session")

// Position implements consumer.Handler: it returns the last handled position of a shard. It
// counts skipped events that are not written yet, as long as no other process has moved the stored
// position out of their range. It fails with the errors of Prepare, ErrRetired, and those of the
// server.
func (b *Book) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	if err := b.Prepare(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.slack*queryTimeout)
	defer cancel()
	return b.readPosition(ctx, shard)
}

// readPosition returns the position of a shard. It fails with ErrRetired when the book follows
// another incarnation of the journal, and with the server's error.
func (b *Book) readPosition(ctx context.Context, shard ident.Shard) (position uint64, err error) {
	var store [16]byte
	var stored int64
	if err := b.pool.QueryRow(ctx, sqlShard, int16(shard)).Scan(&store, &stored); err != nil {
		return 0, err
	}
	if store != b.identity.Store {
		return 0, b.retiredError()
	}
	return b.skipped.reconcile(shard, uint64(stored)), nil
}

// retiredError makes the next Prepare check the incarnation again, and returns ErrRetired.
func (b *Book) retiredError() error {
	b.ready.done.Store(false)
	return ErrRetired
}

// Handle implements consumer.Handler: it books the postings of events and moves the shard's
// position, in one transaction. It fails with ErrMoved when the events do not follow the stored
// position, with ErrUnsound for postings that cannot be booked, and with the errors of Prepare and
// of the server; nothing is booked then, unless the answer to COMMIT was lost.
func (b *Book) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	page, err := readPage(shard, events)
	if err != nil {
		return err
	}
	if err := b.Prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.slack*handleTimeout)
	defer cancel()
	if len(page.accounts) == 0 {
		err = b.skipPage(ctx, page)
	} else {
		err = b.bookPage(ctx, page)
	}
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, consumer.ErrMoved):
		return b.movedError(ctx, shard)
	case errors.As(err, &refusal) && refusal.Code == checkViolation:
		return fmt.Errorf("%w: %w", ErrUnsound, err)
	}
	return postgres.NameExhausted(err)
}

// movedError returns ErrMoved with the stored position, or ErrRetired when the book was emptied for
// another incarnation.
func (b *Book) movedError(ctx context.Context, shard ident.Shard) error {
	at, err := b.readPosition(ctx, shard)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: it is %d", consumer.ErrMoved, at)
}

// skipPage moves the position over a page without postings. When the position is known, the move is
// written behind. Otherwise it is one round trip without a sync: a crash of the server may undo it
// only together with all later moves. It fails with ErrMoved, the error of an earlier write, or the
// server's.
func (b *Book) skipPage(ctx context.Context, p *page) error {
	if done, err := b.skipped.extendOver(p); done || err != nil {
		return err
	}
	start := positionRange{p.first - 1, p.first - 1}
	var one pgx.Batch
	one.Queue(postgres.AsyncCommit)
	p.queueMove(&one, b.identity.Store, start)
	if err := b.pool.SendBatch(ctx, &one).Close(); err != nil {
		return err
	}
	b.skipped.setRange(p.shard, positionRange{start.after, p.last})
	return nil
}

// bookPage moves the position over the skipped range and the page, and writes the postings, in one
// transaction. It fails with ErrMoved, ErrUnsound, or the server's error.
func (b *Book) bookPage(ctx context.Context, p *page) error {
	before, err := b.skipped.rangeBefore(p)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return p.writePage(ctx, tx, b.identity.Store, before) })
	if err == nil {
		b.skipped.setRange(p.shard, positionRange{p.last, p.last})
	}
	return err
}
