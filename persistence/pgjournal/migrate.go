package pgjournal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	// versionTable is goose's table of the migrations that were applied.
	versionTable = "journal_version"
	// migrateLock is the key of the advisory lock under which migrations run, one process at a time.
	migrateLock = 0x707572736572 // "purser"
	// A process waits for the lock by trying once in migrateRetrySeconds, migrateTries times.
	migrateRetrySeconds = 1
	migrateTries        = 300
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the database to the schema of this program. Processes that do so at once wait for each other.
func Migrate(ctx context.Context, url string) error {
	return withProvider(url, func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate the journal: %w", err)
		}
		return nil
	})
}

// schema is the number of the newest migration.
func schema() (int64, error) {
	newest := int64(0)
	files, err := migrations.ReadDir("migrations")
	for _, file := range files {
		number, err := goose.NumericComponent(file.Name())
		if err != nil {
			return 0, err
		}
		newest = max(newest, number)
	}
	return newest, err
}

// withProvider runs f with what knows the migrations, over one connection of its own.
func withProvider(url string, f func(*goose.Provider) error) (err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("pgjournal: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = application + " migrate"
	config.RuntimeParams["synchronous_commit"] = "on"
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := provider(db)
	if err != nil {
		return err
	}
	return f(p)
}

func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrateLock),
		lock.WithLockTimeout(migrateRetrySeconds, migrateTries))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}

// Schema returns the version of the database's schema, 0 for none, and that of this program.
func Schema(ctx context.Context, url string) (found, newest int64, err error) {
	err = withProvider(url, func(p *goose.Provider) error {
		found, err = p.GetDBVersion(ctx)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("schema of the journal: %w", err)
	}
	newest, err = schema()
	return found, newest, err
}
