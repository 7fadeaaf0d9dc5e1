package book

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"purser/actors/ident"
	"purser/persistence"
	"purser/persistence/postgres"
)

var _ persistence.Handler = (*Book)(nil)

// Book is the read model in one database. Open makes it, Close ends it. All methods are safe for concurrent use.
type Book struct {
	pool     *pgxpool.Pool
	identity persistence.Identity
	ready    readiness
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
	return &Book{pool: pool, identity: o.Identity, ready: readiness{turn: make(chan struct{}, 1)}}, nil
}

// Close ends the connections, after the calls under way. It returns nil.
func (b *Book) Close() error {
	b.pool.Close()
	return nil
}

// Position implements persistence.Handler.
func (b *Book) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	if err := b.Prepare(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	store, position, err := b.at(ctx, shard)
	if err == nil && store != b.identity.Store {
		err = b.left()
	}
	return position, err
}

// at reads where a shard stands, and in which incarnation of the journal.
func (b *Book) at(ctx context.Context, shard ident.Shard) (store ident.UUID, position uint64, err error) {
	var id [16]byte
	var at int64
	err = b.pool.QueryRow(ctx, sqlShard, int16(shard)).Scan(&id, &at)
	return id, uint64(at), err
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
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	if len(page.accounts) == 0 {
		err = b.pass(ctx, page)
	} else {
		err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return b.book(ctx, tx, page) })
	}
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, persistence.ErrMoved):
		return b.moved(ctx, shard)
	case errors.As(err, &refusal) && refusal.Code == checkViolation:
		return fmt.Errorf("%w: %w", ErrUnsound, err)
	}
	return err
}

// moved tells a position that has moved from a book that was emptied.
func (b *Book) moved(ctx context.Context, shard ident.Shard) error {
	store, at, err := b.at(ctx, shard)
	switch {
	case err != nil:
		return err
	case store != b.identity.Store:
		return b.left()
	}
	return fmt.Errorf("%w: it is %d", persistence.ErrMoved, at)
}

// pass moves the position over a page that has nothing to book, as most have beside swipes, in one round trip and without a sync: a
// server that crashes may take the move back, but not without all that came after it; the events are then handled again.
func (b *Book) pass(ctx context.Context, p *page) error {
	var one pgx.Batch
	one.Queue(postgres.Lazily)
	p.queueMove(&one, b.identity.Store)
	return b.pool.SendBatch(ctx, &one).Close()
}

// book moves the position and writes a page, in two round trips.
func (b *Book) book(ctx context.Context, tx pgx.Tx, p *page) error {
	var first pgx.Batch
	p.queueMove(&first, b.identity.Store)
	p.queueOpen(&first)
	if err := tx.SendBatch(ctx, &first).Close(); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	var second pgx.Batch
	p.queuePostings(&second)
	return tx.SendBatch(ctx, &second).Close()
}
