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

// Errors that a program reports to its operator each in its own way. Every other error comes from
// the server, and a retry may succeed.
var (
	// ErrForeign: the book belongs to the journal of another deployment, or a newer program made
	// its schema.
	ErrForeign = errors.New("not this book")
	// ErrRetired: the book has left this incarnation of the journal for a newer one.
	ErrRetired = errors.New("book follows a newer incarnation of the journal")
	// ErrNoBook: the database has no book. Prepare makes one.
	ErrNoBook = errors.New("no book in this database")
	// ErrUnsound: an event's postings cannot be read, do not sum to zero, or bring an account out of range.
	ErrUnsound = errors.New("event cannot be booked")
)

const (
	// MaxEntries is the largest number of entries or accounts that one read returns.
	MaxEntries = persistence.MaxPage

	// queryTimeout bounds a read and handleTimeout a Handle, in the client and in the server.
	queryTimeout  = 30 * time.Second
	handleTimeout = 60 * time.Second
	// skippedTimeout bounds one write of skipped positions.
	skippedTimeout      = 5 * time.Second
	defaultCloseTimeout = 2 * time.Second // Options.CloseTimeout
	// lockedPause is the pause between the last writes while another session holds a shard. After
	// lockedRoundsNoted writes in a row that could not lock a shard, the book reports it.
	lockedPause       = 20 * time.Millisecond
	lockedRoundsNoted = 5
	// prepareTimeout bounds a Prepare. For preparePause after a failure, Prepare returns the same
	// error without a new attempt.
	prepareTimeout = 2 * time.Minute
	preparePause   = 500 * time.Millisecond
)

// Options of Open.
type Options struct {
	// URL is the database, as a URL or as keywords and values. It may be that of the journal: the
	// book has a schema of its own, "book".
	URL string
	// Identity is that of the journal.
	Identity persistence.Identity
	// PoolSize is the largest number of connections; 0 means 8.
	PoolSize int
	// Slack multiplies all timeouts, except that of Close and that of waiting for another process
	// to migrate; 0 means 1. It is for tests on machines that stall for seconds.
	Slack int
	// SkippedInterval is how long a skipped position stays in memory before it is written; 0 means
	// postgres.WriteBehindInterval.
	SkippedInterval time.Duration
	// CloseTimeout bounds the last write of skipped positions and the end of the connections in
	// Close; 0 means 2 s.
	CloseTimeout time.Duration
	// Note receives errors of writing skipped positions; nil ignores them. The book calls it from
	// any goroutine.
	Note func(error)
}

// EnsureDefaults replaces zero values by defaults.
func (o *Options) EnsureDefaults() {
	if o.PoolSize == 0 {
		o.PoolSize = postgres.DefaultPool
	}
	if o.Slack == 0 {
		o.Slack = 1
	}
	if o.SkippedInterval == 0 {
		o.SkippedInterval = postgres.WriteBehindInterval
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
}

// Validate returns an error that names the first invalid option. EnsureDefaults must run before.
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

// configure returns the configuration of the pool. It fails only for a URL that does not parse.
func (o *Options) configure() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	config.MaxConns = int32(o.PoolSize)
	slack := time.Duration(o.Slack)
	config.PingTimeout = slack * postgres.ConnectTimeout
	config.ConnConfig.ConnectTimeout = slack * postgres.ConnectTimeout
	// Commits are synchronous: statements may have shown a posting that a crash would otherwise
	// undo.
	maps.Copy(config.ConnConfig.RuntimeParams, postgres.Settings("purser book", slack*handleTimeout, slack*handleTimeout,
		slack*postgres.IdleTimeout))
	return config, nil
}
