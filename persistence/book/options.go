package book

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"purser/persistence"
)

// Errors that a program tells its operator apart. All others are the server's, and a retry may mend them.
var (
	// ErrForeign: the book is of another deployment's journal, or its schema of a newer program.
	ErrForeign = errors.New("not this book")
	// ErrRetired: the book has left this incarnation of the journal for a newer one.
	ErrRetired = errors.New("book follows a newer incarnation of the journal")
	// ErrNoBook: the database has no book. Prepare makes one.
	ErrNoBook = errors.New("no book in this database")
	// ErrUnsound: an event's postings cannot be read, do not sum to zero, or bring an account out of range.
	ErrUnsound = errors.New("event cannot be booked")
)

const (
	defaultPool = 8
	maxPool     = 256

	// MaxEntries is how many entries or accounts one read returns at most.
	MaxEntries = persistence.MaxPage

	// connectTimeout bounds one attempt to connect, queryTimeout a read and handleTimeout a Handle, in the server too.
	connectTimeout = 2 * time.Second
	queryTimeout   = 30 * time.Second
	handleTimeout  = 60 * time.Second
	// prepareTimeout bounds a Prepare; after one that failed the error stands for preparePause.
	prepareTimeout = 2 * time.Minute
	preparePause   = 500 * time.Millisecond
	// idleTimeout is after how long the server ends a transaction whose client says nothing.
	idleTimeout = 10 * time.Second
)

// Options of Open.
type Options struct {
	// URL is the database, as a URL or as keywords and values. It may be the journal's: the book has a schema of its own, "book".
	URL string
	// Identity is the journal's.
	Identity persistence.Identity
	// PoolSize is the number of connections at most; 0 is 8.
	PoolSize int
}

// EnsureDefaults fills in what is left zero.
func (o *Options) EnsureDefaults() {
	if o.PoolSize == 0 {
		o.PoolSize = defaultPool
	}
}

// Validate names what is wrong with options that have their defaults.
func (o *Options) Validate() error {
	switch {
	case o.URL == "":
		return errors.New("book: Options.URL is empty")
	case o.Identity.Deployment.IsZero() || o.Identity.Store.IsZero():
		return errors.New("book: Options.Identity is not a journal's")
	case o.PoolSize < 1 || o.PoolSize > maxPool:
		return fmt.Errorf("book: Options.PoolSize is %d, not 1 to %d", o.PoolSize, maxPool)
	}
	return nil
}

// configure returns how to connect.
func (o *Options) configure() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	config.MaxConns = int32(o.PoolSize)
	config.PingTimeout = connectTimeout
	config.ConnConfig.ConnectTimeout = connectTimeout
	// The subscription remembers what was handled: a server that crashes must not take it back.
	for name, value := range map[string]string{
		"application_name":                    "purser book",
		"timezone":                            "UTC",
		"client_encoding":                     "UTF8",
		"synchronous_commit":                  "on",
		"default_transaction_read_only":       "off",
		"statement_timeout":                   milliseconds(handleTimeout),
		"lock_timeout":                        milliseconds(handleTimeout),
		"idle_in_transaction_session_timeout": milliseconds(idleTimeout),
		"client_connection_check_interval":    milliseconds(idleTimeout),
		"jit":                                 "off",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
