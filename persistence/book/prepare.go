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

	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

const (
	// prepareLock and migrateLock are the keys of advisory locks: one process at a time prepares,
	// and one migrates.
	prepareLock = 0x626f6f6b // "book"
	migrateLock = prepareLock + 1
	// migrateTries is how many seconds a process waits for migrateLock.
	migrateTries = 100
)

//go:embed migrations/*.sql
var files embed.FS

var migrations = postgres.Migrations{Files: files, Table: "book.version", Lock: migrateLock, Tries: migrateTries}

// readiness records whether Prepare has succeeded since the last ErrRetired.
type readiness struct {
	done   atomic.Bool
	turn   chan struct{} // holds one token while a call prepares
	err    error         // of the last failed Prepare; guarded by turn
	failed time.Time     // time of that failure; guarded by turn
}

// Prepare migrates the schema and takes the incarnation of the journal, which empties a book of an
// earlier incarnation. Handle and Position call it until it has succeeded once, and the server at
// its start. It fails with ErrForeign, ErrRetired, and the errors of the server. For preparePause
// after a failure it returns the same error.
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
	err := b.prepareBook(ctx)
	switch {
	case err == nil:
		b.ready.done.Store(true)
	case ctx.Err() == nil: // the server's fault, not the caller's
		b.ready.err, b.ready.failed = err, time.Now()
	}
	return err
}

// prepareBook makes one attempt of Prepare, within prepareTimeout. It fails as Prepare does.
func (b *Book) prepareBook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.slack*prepareTimeout)
	defer cancel()
	if err := migrateSchema(ctx, b.pool.Config().ConnConfig); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlPrepareLock, int64(prepareLock)); err != nil {
			return err
		}
		return b.adoptIncarnation(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("prepare the book: %w", err)
	}
	return nil
}

// Migrate migrates the schema and checks nothing else. It is for operators whose server role may
// not change schemas; `purser migrate` calls it. Concurrent calls wait for each other. It fails for
// a URL that does not parse, with ErrForeign for a schema of a newer program, and with the server's
// error.
func Migrate(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("book: %w", err)
	}
	config.ConnectTimeout = postgres.ConnectTimeout
	return migrateSchema(ctx, config)
}

// migrateSchema makes the schema "book" and applies the missing migrations. It fails with
// ErrForeign for a schema of a newer program, and with the server's error.
func migrateSchema(ctx context.Context, config *pgx.ConnConfig) (err error) {
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
		err = fmt.Errorf("%w: %w", ErrForeign, dataformat.Require("its schema", found, known, ""))
	}
	return err
}

// createSchema makes the schema "book", which also holds the table of the migrations, unless it
// exists. It fails only with the server's error.
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

// adoptIncarnation stamps a new book with the incarnation of the journal, and empties a book of an
// earlier one. It fails with ErrForeign for the book of another deployment, as resetBook does, and
// with the server's error.
func (b *Book) adoptIncarnation(ctx context.Context, tx pgx.Tx) error {
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
	return b.resetBook(ctx, tx)
}

// resetBook empties the book for the incarnation of the journal. It fails with ErrRetired when the
// book has left that incarnation, and with the server's error. TRUNCATE waits for every booking
// under way; a later booking finds a shard of another incarnation.
func (b *Book) resetBook(ctx context.Context, tx pgx.Tx) error {
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
