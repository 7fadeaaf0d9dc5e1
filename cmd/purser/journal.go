package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
)

// Place is where the stores of a deployment are. Every command that looks after them has it.
type Place struct {
	DataDir     string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Directory of the stores."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" secret:"" help:"Postgres that has the journal; the directory has it when unset."`
}

// journalUse is how a journal is opened.
type journalUse struct {
	deployment  ident.UUID // that it must be of; zero: any
	mustExist   bool
	migrate     bool // of a database: bring its schema up to date
	clock       func() time.Time
	entropy     io.Reader
	processors  int // of the program; 0: what Go's scheduler has
	openTables  int // of the store in the directory; 0: Pebble's default
	fatal, note func(error)
}

// openJournal opens the journal of a place. A journal that is missing beside an authorizer that is there is not made anew: it is
// lost, and with it what the authorizer's funds stand on. Nor is one made in a database while the directory still has one.
func (p Place) openJournal(ctx context.Context, use journalUse) (persistence.Journal, error) {
	use.mustExist = use.mustExist || authorizer.Exists(nil, authorizerDir(p.DataDir))
	if p.DatabaseURL == "" {
		return p.openDirectory(use)
	}
	use.mustExist = use.mustExist || pebblejournal.Exists(nil, journalDir(p.DataDir))
	return p.openDatabase(ctx, use)
}

func (p Place) openDirectory(use journalUse) (persistence.Journal, error) {
	journal, err := pebblejournal.Open(pebblejournal.Options{Dir: journalDir(p.DataDir), Deployment: use.deployment,
		MustExist: use.mustExist, OpenTables: use.openTables, Clock: use.clock, Entropy: use.entropy,
		Fatal: use.fatal, Note: use.note})
	switch {
	case errors.Is(err, pebblejournal.ErrNoStore) && authorizer.Exists(nil, authorizerDir(p.DataDir)):
		return nil, fmt.Errorf("%s is missing, but %s is there: put the journal back, or remove the whole data directory to begin anew (%w)",
			journalDir(p.DataDir), authorizerDir(p.DataDir), err)
	case err != nil:
		return nil, withRepair(err, journalDir(p.DataDir), repairJournal)
	}
	return journal, nil
}

func (p Place) openDatabase(ctx context.Context, use journalUse) (persistence.Journal, error) {
	journal, err := pgjournal.Open(ctx, pgjournal.Options{URL: p.DatabaseURL, Deployment: use.deployment,
		MustExist: use.mustExist, Migrate: use.migrate, Processors: use.processors, Clock: use.clock, Entropy: use.entropy,
		Note: use.note, Fatal: use.fatal})
	switch {
	case errors.Is(err, pgjournal.ErrForeign):
		return nil, fmt.Errorf("the database of DATABASE_URL is not that of %s, or a newer purser's: name the right one (%w)",
			p.DataDir, err)
	case errors.Is(err, pgjournal.ErrNoStore) && pebblejournal.Exists(nil, journalDir(p.DataDir)):
		return nil, fmt.Errorf("the database of DATABASE_URL has no journal, but %s is there: `purser migrate-journal` moves it, "+
			"or name the right database (%w)", journalDir(p.DataDir), err)
	case errors.Is(err, pgjournal.ErrNoStore) && authorizer.Exists(nil, authorizerDir(p.DataDir)):
		return nil, fmt.Errorf("the database of DATABASE_URL has no journal, but %s is there: name the right database, put its backup back, "+
			"or remove the whole data directory to begin anew (%w)", authorizerDir(p.DataDir), err)
	case errors.Is(err, pgjournal.ErrNoStore):
		return nil, fmt.Errorf("the database of DATABASE_URL has no journal: `purser migrate` or a start makes it (%w)", err)
	case errors.Is(err, pgjournal.ErrUnsafe):
		return nil, fmt.Errorf("the database of DATABASE_URL may lose what it has committed: switch its fsync and full_page_writes on (%w)", err)
	case err != nil:
		return nil, err
	}
	return journal, nil
}

// readJournal opens the journal of a place for a command that writes nothing.
func (p Place) readJournal(ctx context.Context, what string) (persistence.Journal, error) {
	if err := p.requireJournal(); err != nil {
		return nil, err
	}
	return p.openJournal(ctx, journalUse{mustExist: true, note: func(error) {},
		fatal: func(err error) { panic("BUG: " + what + " writes: " + err.Error()) }})
}

// final tells of an error that opening a journal again would meet again.
func final(err error) bool {
	for _, known := range []error{pgjournal.ErrForeign, pgjournal.ErrNoStore, pgjournal.ErrUnsafe} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
