// Package postgres is what the stores in Postgres have in common: what their sessions run with, and how their schemas are brought
// up to date.
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
	// IdleTimeout is after how long the server ends a transaction whose client says nothing.
	IdleTimeout = 10 * time.Second
	// DefaultPool is the number of connections of a pool when none is named, MaxPool the most that can be.
	DefaultPool = 8
	MaxPool     = 256
	// MaxSlack is the most by which tests may multiply the times after which something is given up.
	MaxSlack = 100
)

// Lazily lets the transaction it begins with commit without waiting for the disk, against what Settings say: a crash of the server may
// take it back.
const Lazily = `SELECT set_config('synchronous_commit', 'off', true)`

// Settings are what every session of a store runs with. Application is the name under which its connections are seen; statement
// and lockWait are how long the server takes for a statement, and for a lock, at most, and idle how long it waits for the client
// in a transaction. What is committed survives the server's crash.
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

// Migrations are a store's: files of goose, in the order of their numbers.
type Migrations struct {
	Files fs.FS  // has the directory "migrations"
	Table string // goose's, of the migrations that were applied
	// Lock is the key of the advisory lock under which they run, one process at a time. Another one tries once a second, Tries
	// times.
	Lock  int64
	Tries uint64
}

// Provider is what knows a database's migrations.
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
