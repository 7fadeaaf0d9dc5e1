package storecare

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
)

// MigrateJournalCmd moves the journal of a data directory to Postgres. It is the same journal after
// that, identity, positions and all cursors included, so that consumers, topic and authorizer go on
// as if nothing had happened. What stays in the directory is marked as moved, and a start that
// would go on with it is refused: two histories can not be brought together again.
type MigrateJournalCmd struct {
	DataDir string        `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Directory of the stores."`
	To      string        `name:"database-url" env:"DATABASE_URL" secret:"" help:"Postgres that shall have the journal; a database without one."`
	Slack   datadir.Slack `name:"slack" env:"PURSER_SLACK" default:"1" help:"1 to 100: how many times as long as usual Postgres may take, for slow machines."`
}

// Run is `purser migrate-journal`: it moves the journal to Postgres while no server has the
// directory. It can be run again after any interruption. It fails when a server runs, for a
// database with another content, and with an error of either store.
func (m *MigrateJournalCmd) Run(out io.Writer) error {
	if m.To == "" {
		return errors.New("DATABASE_URL is not set: it names the Postgres that shall have the journal")
	}
	place, err := placeName(m.To)
	if err != nil {
		return err
	}
	unlock, err := datadir.LockUsed(m.DataDir)
	if err != nil {
		return err
	}
	sum, err := m.migrate(context.Background(), place)
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	fmt.Fprintf(out, "the journal is now in the %s: %s\n", place, sum.Counts)
	fmt.Fprintf(out, "start with DATABASE_URL, and with the contents of %s/data-key as PURSER_DATA_KEY\n", m.DataDir)
	return nil
}

// placeName names a database without its password, for messages. It fails for a text that is not a
// Postgres URL.
func placeName(url string) (string, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return "", errors.New("DATABASE_URL is neither a postgres:// URL nor keywords and values")
	}
	return fmt.Sprintf("Postgres database %q at %s:%d", config.Database, config.Host, config.Port), nil
}

// migrate loads the database, compares both journals byte by byte, and only then marks the old one
// as moved. It fails like Load and compare.
func (m *MigrateJournalCmd) migrate(ctx context.Context, place string) (sum archive.Sum, err error) {
	if err := (datadir.Stores{DataDir: m.DataDir}).RequireJournal(); err != nil {
		return sum, err
	}
	from, err := pebblejournal.Open(pebblejournal.Options{Dir: datadir.JournalDir(m.DataDir), MustExist: true})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := m.Load(ctx, from); err != nil {
		return sum, err
	}
	if sum, err = m.compare(ctx, from); err != nil {
		return sum, err
	}
	return sum, from.MarkMoved(ctx, "the "+place+"; set DATABASE_URL")
}

// Load fills the database with the journal's content, in one transaction. A database with content
// is left as it is, and compare judges it. It fails with an error of either store.
func (m *MigrateJournalCmd) Load(ctx context.Context, from *pebblejournal.Journal) (err error) {
	if err := pgjournal.Migrate(ctx, m.To); err != nil {
		return err
	}
	snapshot, err := from.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	err = pgjournal.Load(ctx, pgjournal.Options{URL: m.To, Slack: int(m.Slack)}, from.Identity(), snapshot.Content(ctx))
	if errors.Is(err, pgjournal.ErrNotEmpty) {
		return nil // compare finds its owner
	}
	return err
}

// compare reads both journals whole and compares their checksums. It fails when the database has
// another deployment's journal or another content.
func (m *MigrateJournalCmd) compare(ctx context.Context, from *pebblejournal.Journal) (archive.Sum, error) {
	want, err := sumOf(ctx, from)
	if err != nil {
		return want, err
	}
	to, err := pgjournal.Open(ctx, pgjournal.Options{URL: m.To, Slack: int(m.Slack)})
	if err != nil {
		return want, err
	}
	if to.Identity() != from.Identity() {
		return want, errors.Join(errors.New("the database has the journal of another deployment: name an empty one"), to.Close())
	}
	got, err := sumOf(ctx, to)
	if err = errors.Join(err, to.Close()); err != nil {
		return want, err
	}
	if got != want {
		return want, fmt.Errorf("the database has this journal, and another content (%s there, %s here): it was used already, or is damaged; "+
			"name an empty database", got.Counts, want.Counts)
	}
	return want, nil
}

// sumOf reads a whole journal and returns the sum that its archive would have. It fails with the
// journal's error. compare calls it for both journals.
func sumOf(ctx context.Context, j persistence.Journal) (archive.Sum, error) {
	snapshot, err := j.(persistence.Archiver).Snapshot(ctx)
	if err != nil {
		return archive.Sum{}, err
	}
	sum, err := archive.Write(io.Discard, j.Identity(), snapshot.Content(ctx))
	return sum, errors.Join(err, snapshot.Close())
}
