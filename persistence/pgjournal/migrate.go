package pgjournal

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"purser/persistence/postgres"
)

const (
	// migrateLock is the key of the advisory lock that one migrating process holds at a time.
	migrateLock = 0x707572736572 // "purser"
	// migrateTries is how many seconds a process waits for the lock.
	migrateTries = 300
)

//go:embed migrations/*.sql
var files embed.FS

var migrations = postgres.Migrations{Files: files, Table: "journal_version", Lock: migrateLock, Tries: migrateTries}

// Migrate applies the migrations of this program to a database. Concurrent calls wait for each
// other. It fails for a URL that does not parse, and with the server's error.
func Migrate(ctx context.Context, url string) error { return migrateSchema(ctx, url, 1) }

func migrateSchema(ctx context.Context, url string, slack int) error {
	return withProvider(url, slack, func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate the journal: %w", err)
		}
		return nil
	})
}

// newestSchema returns the number of the newest embedded migration. It fails only for a misnamed
// file.
func newestSchema() (int64, error) {
	newest := int64(0)
	found, err := files.ReadDir("migrations")
	for _, file := range found {
		number, err := goose.NumericComponent(file.Name())
		if err != nil {
			return 0, err
		}
		newest = max(newest, number)
	}
	return newest, err
}

// withProvider runs f with the goose provider, over one connection of its own. slack is
// Options.Slack. It fails with the error of f, for a URL that does not parse, and with the server's
// error.
func withProvider(url string, slack int, f func(*goose.Provider) error) (err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("pgjournal: %w", err)
	}
	config.ConnectTimeout = time.Duration(slack) * postgres.ConnectTimeout
	config.RuntimeParams["application_name"] = application + " migrate"
	config.RuntimeParams["synchronous_commit"] = "on"
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := migrations.Provider(db)
	if err != nil {
		return err
	}
	return f(p)
}

// Schema returns the schema version of the database, 0 without one, and that of this program. It
// fails for a URL that does not parse, and with the server's error.
func Schema(ctx context.Context, url string) (found, newest int64, err error) {
	err = withProvider(url, 1, func(p *goose.Provider) error {
		found, err = p.GetDBVersion(ctx)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("schema of the journal: %w", err)
	}
	newest, err = newestSchema()
	return found, newest, err
}
