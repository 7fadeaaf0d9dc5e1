// Package postgres holds the parts that all stores in Postgres share: session settings, schema
// migrations, write-behind values and the names of exhausted resources.
package postgres

import (
	"database/sql"
	"io/fs"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Bounds of every store's connections.
const (
	// ConnectTimeout bounds one attempt to connect.
	ConnectTimeout = 2 * time.Second
	// IdleTimeout is the time after which the server ends a transaction whose client is silent.
	IdleTimeout = 10 * time.Second
	// DefaultPool is the number of connections of a pool by default, MaxPool the largest number.
	DefaultPool = 8
	MaxPool     = 256
	// MaxSlack is the largest factor by which tests may multiply timeouts.
	MaxSlack = 100
)

// AsyncCommit makes COMMIT of the current transaction return before the disk has it, despite
// Settings. A crash of the server may undo such a transaction.
const AsyncCommit = `SELECT set_config('synchronous_commit', 'off', true)`

// Settings returns the parameters of every session of a store. Application is the session name that
// the server shows. Statement and lockWait bound a statement and its wait for a lock in the server.
// Idle bounds the silence of a client within a transaction. Commits survive a crash of the server.
// The journal and the book connect with them.
func Settings(application string, statement, lockWait, idle time.Duration) map[string]string {
	return map[string]string{
		"application_name":                    application,
		"timezone":                            "UTC",
		"client_encoding":                     "UTF8",
		"synchronous_commit":                  "on",
		"default_transaction_read_only":       "off",
		"statement_timeout":                   milliseconds(statement),
		"lock_timeout":                        milliseconds(lockWait),
		"idle_in_transaction_session_timeout": milliseconds(idle),
		"client_connection_check_interval":    milliseconds(IdleTimeout),
		"jit":                                 "off",
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Migrations describes the schema of a store: goose files, applied in the order of their numbers.
type Migrations struct {
	Files fs.FS  // has the directory "migrations"
	Table string // goose's table of applied migrations
	// Lock is the key of the advisory lock that one migrating process holds at a time. Another
	// process tries to take it once a second, Tries times.
	Lock  int64
	Tries uint64
}

// Provider returns the migrator (goose) of these migrations for a database. It fails only for
// embedded files that are malformed.
func (m Migrations) Provider(db *sql.DB) (*goose.Provider, error) {
	const retrySeconds = 1
	files, err := fs.Sub(m.Files, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(m.Lock), lock.WithLockTimeout(retrySeconds, m.Tries))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(m.Table), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}
