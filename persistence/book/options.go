package book

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"purser/persistence"
	"purser/persistence/postgres"
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
	// MaxEntries is how many entries or accounts one read returns at most.
	MaxEntries = persistence.MaxPage

	// queryTimeout bounds a read and handleTimeout a Handle, in the server too.
	queryTimeout  = 30 * time.Second
	handleTimeout = 60 * time.Second
	// passTimeout bounds a write of passes, and closeTimeout the last one and the end of the connections.
	passTimeout  = 5 * time.Second
	closeTimeout = 2 * time.Second
	// heldPause is between the last writes while somebody holds a shard, and heldOften how many writes leave one until that is said.
	heldPause = 20 * time.Millisecond
	heldOften = 5
	// prepareTimeout bounds a Prepare; after one that failed the error stands for preparePause.
	prepareTimeout = 2 * time.Minute
	preparePause   = 500 * time.Millisecond
)

// Options of Open.
type Options struct {
	// URL is the database, as a URL or as keywords and values. It may be the journal's: the book has a schema of its own, "book".
	URL string
	// Identity is the journal's.
	Identity persistence.Identity
	// PoolSize is the number of connections at most; 0 is 8.
	PoolSize int
	// Slack multiplies the times after which something is given up, but for Close's and that of waiting for another's migration; 0 is
	// 1. It is there for tests, on machines that stand still for seconds.
	Slack int
	// Note is called when passes could not be written; nil ignores it. It may be called from any goroutine.
	Note func(error)
}

// EnsureDefaults fills in what is left zero.
func (o *Options) EnsureDefaults() {
	if o.PoolSize == 0 {
		o.PoolSize = postgres.DefaultPool
	}
	if o.Slack == 0 {
		o.Slack = 1
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
}

// Validate names what is wrong with options that have their defaults.
func (o *Options) Validate() error {
	switch {
	case o.URL == "":
		return errors.New("book: Options.URL is empty")
	case o.Identity.Deployment.IsZero() || o.Identity.Store.IsZero():
		return errors.New("book: Options.Identity is not a journal's")
	case o.Slack < 1 || o.Slack > postgres.MaxSlack:
		return fmt.Errorf("book: Options.Slack is %d, not 1 to %d", o.Slack, postgres.MaxSlack)
	case o.PoolSize < 1 || o.PoolSize > postgres.MaxPool:
		return fmt.Errorf("book: Options.PoolSize is %d, not 1 to %d", o.PoolSize, postgres.MaxPool)
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
	slack := time.Duration(o.Slack)
	config.PingTimeout = slack * postgres.ConnectTimeout
	config.ConnConfig.ConnectTimeout = slack * postgres.ConnectTimeout
	// A server that crashes must not take back what was booked: statements may have shown it.
	maps.Copy(config.ConnConfig.RuntimeParams, postgres.Settings("purser book", slack*handleTimeout, slack*handleTimeout,
		slack*postgres.IdleTimeout))
	return config, nil
}
