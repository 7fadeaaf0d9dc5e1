package book

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

var _ persistence.Handler = (*Book)(nil)

// Book is the read model in one database. Open makes it, Close ends it. All methods are safe for concurrent use.
type Book struct {
	pool     *pgxpool.Pool
	identity persistence.Identity
	ready    readiness
	passes   *passes
	held     map[ident.Shard]int // of writePasses: how often in a row a shard was left because somebody holds it
	note     func(error)
	slack    time.Duration // a factor: Options.Slack
	end      context.CancelFunc
	work     sync.WaitGroup     // who writes passes
	writes   context.Context    // of whoever writes passes
	cut      context.CancelFunc // ends writes
}

// Open checks the options. It asks nothing of the server, which may be down: Prepare, or the first call of a Handler's method,
// brings the schema up to date, and the reads need no Prepare.
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
	b := &Book{pool: pool, identity: o.Identity, ready: readiness{turn: make(chan struct{}, 1)}, note: o.Note, end: end,
		slack: time.Duration(o.Slack), held: map[ident.Shard]int{}}
	b.writes, b.cut = context.WithCancel(context.Background())
	b.passes = newPasses(b.writePasses)
	b.work.Go(func() {
		b.passes.Run(alive, func(err error) { b.note(fmt.Errorf("book cannot write what it has passed over: %w", err)) })
	})
	return b, nil
}

var errClosed = errors.New("book closed")

// Close writes what was passed over, which may fail as in a crash, and ends the connections, after the calls under way. A server
// that does not answer is waited for a moment, in which most of that is done: what then comes late moves a position forward. It
// returns nil.
func (b *Book) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, b.cut)()
	b.passes.Refuse(errClosed)
	b.end()
	b.work.Wait()
	if err := b.writeLast(ctx); err != nil {
		b.note(fmt.Errorf("book closes without the last of what it has passed over: %w", err))
	}
	ended := make(chan struct{})
	go func() {
		b.pool.Close() // a connection that was given up takes its time
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// writeLast writes what is left, of a shard that somebody holds as soon as he lets go: most often a booking that Close has cut off. A
// server that did not take the last write is not asked again.
func (b *Book) writeLast(ctx context.Context) error {
	for {
		if err := b.passes.Failed(); err != nil {
			return err
		}
		switch err := b.passes.Flush(ctx); {
		case err == nil && b.passes.Pending() == 0:
			return nil
		case err == nil: // somebody holds what is left
		case ctx.Err() != nil && len(b.held) > 0: // cut off while it was asked again
			return fmt.Errorf("%w: %w", errHeld, err)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return errHeld
		case <-time.After(heldPause):
		}
	}
}

// errHeld: somebody's transaction has the shards.
var errHeld = errors.New("held by another session")

// Position implements persistence.Handler. What is not written yet is answered from memory, if the server has moved on from where
// that begins by nobody else.
func (b *Book) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	if err := b.Prepare(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.slack*queryTimeout)
	defer cancel()
	return b.at(ctx, shard)
}

// at reads where a shard stands, and looks whether the book still follows this incarnation of the journal.
func (b *Book) at(ctx context.Context, shard ident.Shard) (position uint64, err error) {
	var store [16]byte
	var stored int64
	if err := b.pool.QueryRow(ctx, sqlShard, int16(shard)).Scan(&store, &stored); err != nil {
		return 0, err
	}
	if store != b.identity.Store {
		return 0, b.left()
	}
	return b.passes.meet(shard, uint64(stored)), nil
}

// left is told that the book follows another incarnation by now. The next Prepare looks at it again.
func (b *Book) left() error {
	b.ready.done.Store(false)
	return ErrRetired
}

// Handle implements persistence.Handler. Besides ErrMoved its errors are ErrUnsound, those of Prepare, or the server's.
func (b *Book) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	page, err := read(shard, events)
	if err != nil {
		return err
	}
	if err := b.Prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.slack*handleTimeout)
	defer cancel()
	if len(page.accounts) == 0 {
		err = b.pass(ctx, page)
	} else {
		err = b.book(ctx, page)
	}
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, persistence.ErrMoved):
		return b.moved(ctx, shard)
	case errors.As(err, &refusal) && refusal.Code == checkViolation:
		return fmt.Errorf("%w: %w", ErrUnsound, err)
	}
	return postgres.NameExhausted(err)
}

// moved tells a position that has moved from a book that was emptied.
func (b *Book) moved(ctx context.Context, shard ident.Shard) error {
	at, err := b.at(ctx, shard)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: it is %d", persistence.ErrMoved, at)
}

// pass moves the position over a page that has nothing to book. Where the shard is known to stand that is written behind; else it
// takes one round trip, without a sync: a server that crashes may take the move back, but not without all that came after it.
func (b *Book) pass(ctx context.Context, p *page) error {
	if done, err := b.passes.extend(p); done || err != nil {
		return err
	}
	before := stretch{p.first - 1, p.first - 1}
	var one pgx.Batch
	one.Queue(postgres.Lazily)
	p.queueMove(&one, b.identity.Store, before)
	if err := b.pool.SendBatch(ctx, &one).Close(); err != nil {
		return err
	}
	b.passes.set(p.shard, stretch{before.after, p.last})
	return nil
}

// book moves the position, over what was passed before the page too, and writes the page.
func (b *Book) book(ctx context.Context, p *page) error {
	before, err := b.passes.before(p)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return p.write(ctx, tx, b.identity.Store, before) })
	if err == nil {
		b.passes.set(p.shard, stretch{p.last, p.last})
	}
	return err
}
