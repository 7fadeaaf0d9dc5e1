package book

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"purser/persistence/ident"
	"purser/persistence/postgres"
)

const (
	// prepareLock and migrateLock are the keys of the advisory locks under which one process at a time prepares and migrates.
	prepareLock = 0x626f6f6b // "book"
	migrateLock = prepareLock + 1
	// migrateTries is how many seconds a process waits for migrateLock.
	migrateTries = 100
)

//go:embed migrations/*.sql
var files embed.FS

var migrations = postgres.Migrations{Files: files, Table: "book.version", Lock: migrateLock, Tries: migrateTries}

// readiness is what is known of the schema and of whose journal the book is of.
type readiness struct {
	done   atomic.Bool
	turn   chan struct{} // held by the one that prepares
	err    error         // of the last that failed; under turn
	failed time.Time     // under turn
}

// Prepare brings the schema up to date and takes the journal's incarnation, which empties a book of an earlier one. Handle and
// Position do so when they are first called, until it has succeeded once. The errors are ErrForeign, ErrRetired or the
// server's.
func (b *Book) Prepare(ctx context.Context) error {
	if b.ready.done.Load() {
		return nil
	}
	select {
	case b.ready.turn <- struct{}{}:
		defer func() { <-b.ready.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.ready.done.Load() {
		return nil
	}
	if time.Since(b.ready.failed) < preparePause {
		return b.ready.err
	}
	err := b.prepare(ctx)
	switch {
	case err == nil:
		b.ready.done.Store(true)
	case ctx.Err() == nil: // the server's fault, not the caller's
		b.ready.err, b.ready.failed = err, time.Now()
	}
	return err
}

func (b *Book) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.slack*prepareTimeout)
	defer cancel()
	if err := migrate(ctx, b.pool.Config().ConnConfig); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlPrepareLock, int64(prepareLock)); err != nil {
			return err
		}
		return b.follow(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("prepare the book: %w", err)
	}
	return nil
}

// Migrate brings the schema up to date and looks at nothing else, for who may change schemas where the server may not.
// Processes that do so at once wait for each other.
func Migrate(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("book: %w", err)
	}
	config.ConnectTimeout = postgres.ConnectTimeout
	return migrate(ctx, config)
}

func migrate(ctx context.Context, config *pgx.ConnConfig) (err error) {
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("make the book's schema: %w", err)
	}
	p, err := migrations.Provider(db)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the book: %w", err)
	}
	found, known, err := p.GetVersions(ctx)
	if err == nil && found > known {
		err = fmt.Errorf("%w: the schema is at %d, this program knows %d", ErrForeign, found, known)
	}
	return err
}

// createSchema makes the schema that has goose's table too, if it is not there.
func createSchema(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err = tx.ExecContext(ctx, sqlPrepareLock, int64(prepareLock)); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, sqlCreateSchema); err != nil {
		return err
	}
	return tx.Commit()
}

// follow makes the book one of this incarnation of the journal: a new book is stamped, one of an earlier incarnation begins
// again.
func (b *Book) follow(ctx context.Context, tx pgx.Tx) error {
	var deployment, store [16]byte
	err := tx.QueryRow(ctx, sqlStore).Scan(&deployment, &store)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return err
	case err == nil && deployment != b.identity.Deployment:
		return fmt.Errorf("%w: its deployment is %x, not %x", ErrForeign, deployment, b.identity.Deployment)
	case err == nil && store == b.identity.Store:
		return nil
	}
	return b.begin(ctx, tx)
}

// begin empties the book. TRUNCATE waits for every transaction that books something, and who comes after it finds a shard of
// another store.
func (b *Book) begin(ctx context.Context, tx pgx.Tx) error {
	store := [16]byte(b.identity.Store)
	took, err := tx.Exec(ctx, sqlTakeIncarnation, store)
	if err != nil {
		return err
	}
	if took.RowsAffected() == 0 {
		return ErrRetired
	}
	if _, err := tx.Exec(ctx, sqlEmpty); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sqlSetStore, [16]byte(b.identity.Deployment), store); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sqlSetShards, store, ident.Shards)
	return err
}
