package datadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
	"purser/persistence/postgres"
)

// Stores names where the stores of a deployment are. Commands that maintain the stores embed it for
// its flags.
type Stores struct {
	DataDir     string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Directory of the stores."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" secret:"" help:"Postgres that has the journal; the directory has it when unset."`
	Slack       Slack  `name:"slack" env:"PURSER_SLACK" default:"1" help:"1 to 100: how many times as long as usual Postgres may take, for slow machines."`
}

// Slack multiplies the timeouts of Postgres: 1 to 100. The empty text is 1.
type Slack int

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Slack) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(cmp.Or(string(text), "1"))
	if err != nil || n < 1 || n > postgres.MaxSlack {
		return fmt.Errorf("PURSER_SLACK: an integer from 1 to %d", postgres.MaxSlack)
	}
	*s = Slack(n)
	return nil
}

// JournalOptions are the options of OpenJournal.
type JournalOptions struct {
	Deployment  ident.UUID // required deployment; zero: any
	MustExist   bool
	Migrate     bool // bring the schema of a database up to date
	Clock       func() time.Time
	Entropy     io.Reader
	Processors  int // available to this process; 0: GOMAXPROCS
	OpenTables  int // open files of the journal in the directory; 0: Pebble's default
	Fatal, Note func(error)
}

// OpenJournal opens the journal. It creates none beside an existing authorizer's store, because the
// missing journal holds the events behind the authorizer's funds. It creates none in a database
// while the directory has one. It fails then with the store's ErrNoStore and the repair in the
// text, for a damaged or foreign store, and with the database's error.
func (s Stores) OpenJournal(ctx context.Context, use JournalOptions) (persistence.Journal, error) {
	use.MustExist = use.MustExist || authorizer.Exists(nil, AuthorizerDir(s.DataDir))
	if s.DatabaseURL == "" {
		return s.openDirectory(use)
	}
	use.MustExist = use.MustExist || pebblejournal.Exists(nil, JournalDir(s.DataDir))
	return s.openDatabase(ctx, use)
}

// openDirectory opens the journal in the data directory. It fails for a missing one where one must
// exist, and for a damaged one; the error names the repair.
func (s Stores) openDirectory(use JournalOptions) (persistence.Journal, error) {
	journal, err := pebblejournal.Open(pebblejournal.Options{Dir: JournalDir(s.DataDir), Deployment: use.Deployment,
		MustExist: use.MustExist, OpenTables: use.OpenTables, Clock: use.Clock, Entropy: use.Entropy,
		Fatal: use.Fatal, Note: use.Note})
	switch {
	case errors.Is(err, pebblejournal.ErrNoStore) && authorizer.Exists(nil, AuthorizerDir(s.DataDir)):
		return nil, fmt.Errorf(
			"%s is missing, but %s is there: put the journal back, or remove the whole data directory to begin anew (%w)",
			JournalDir(s.DataDir),
			AuthorizerDir(s.DataDir),
			err,
		)
	case err != nil:
		return nil, WithRepair(err, JournalDir(s.DataDir), repairJournal)
	}
	return journal, nil
}

// openDatabase opens the journal in Postgres. Its error names the repair of a foreign, missing or
// unsafe database; other errors are the database's.
func (s Stores) openDatabase(ctx context.Context, use JournalOptions) (persistence.Journal, error) {
	journal, err := pgjournal.Open(ctx, pgjournal.Options{
		URL:        s.DatabaseURL,
		Deployment: use.Deployment,
		MustExist:  use.MustExist,
		Migrate:    use.Migrate,
		Processors: use.Processors,
		Clock:      use.Clock,
		Entropy:    use.Entropy,
		Note:       use.Note,
		Fatal:      use.Fatal,
		Slack:      int(s.Slack),
	})
	_, other := errors.AsType[*dataformat.Other](err)
	switch {
	case other:
		return nil, fmt.Errorf("the database of DATABASE_URL: %w", err)
	case errors.Is(err, pgjournal.ErrForeign):
		return nil, fmt.Errorf(
			"the database of DATABASE_URL is not that of %s: name the right one (%w)",
			s.DataDir,
			err,
		)
	case errors.Is(err, pgjournal.ErrNoStore) && pebblejournal.Exists(nil, JournalDir(s.DataDir)):
		return nil, fmt.Errorf(
			"the database of DATABASE_URL has no journal, but %s is there: `purser migrate-journal` moves it, "+
				"or name the right database (%w)",
			JournalDir(s.DataDir),
			err,
		)
	case errors.Is(err, pgjournal.ErrNoStore) && authorizer.Exists(nil, AuthorizerDir(s.DataDir)):
		return nil, fmt.Errorf(
			"the database of DATABASE_URL has no journal, but %s is there: name the right database, put its backup back, "+
				"or remove the whole data directory to begin anew (%w)",
			AuthorizerDir(s.DataDir),
			err,
		)
	case errors.Is(err, pgjournal.ErrNoStore):
		return nil, fmt.Errorf(
			"the database of DATABASE_URL has no journal: `purser migrate` or a start makes it (%w)",
			err,
		)
	case errors.Is(err, pgjournal.ErrUnsafe):
		return nil, fmt.Errorf(
			"the database of DATABASE_URL may lose what it has committed: switch its fsync and full_page_writes on (%w)",
			err,
		)
	case err != nil:
		return nil, err
	}
	return journal, nil
}

// ReadJournal opens an existing journal for a command that writes nothing. The caller's name is
// part of the message of a write. It fails for a missing journal, and like OpenJournal.
func (s Stores) ReadJournal(ctx context.Context, caller string) (persistence.Journal, error) {
	if err := s.RequireJournal(); err != nil {
		return nil, err
	}
	return s.OpenJournal(ctx, JournalOptions{MustExist: true, Note: func(error) {},
		Fatal: func(err error) { panic("BUG: " + caller + " writes: " + err.Error()) }})
}

// IsPermanent reports whether a repeated OpenJournal would return the same error.
func IsPermanent(err error) bool {
	for _, known := range []error{pgjournal.ErrForeign, pgjournal.ErrNoStore, pgjournal.ErrUnsafe} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
