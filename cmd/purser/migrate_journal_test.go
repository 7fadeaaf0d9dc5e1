package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/storecare"
	"purser/persistence"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// startOnDatabase starts a server whose journal is in a database, with the data key of the data
// directory, and waits until it is ready.
func startOnDatabase(t *testing.T, data, url string) *daemon {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(data, "data-key"))
	require.NoError(t, err)
	s := defaults(t)
	s.HTTPAddr, s.AuthorizerAddr, s.AdminAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s.DataDir, s.SandboxDelay, s.AuthorizerCache = data, "50ms", "16MiB"
	s.AnswerWithin, s.PasswordNice, s.Slack = patientAnswer, "0", mostSlack
	s.DatabaseURL, s.DataKey = url, strings.TrimSpace(string(key))
	c, err := s.Config()
	require.NoError(t, err)
	m := newDaemon(c, debugLogger())
	require.NoError(t, m.Start(t.Context()))
	p := m.adminClient()
	p.awaitReady(t)
	return m
}

// TestAJournalMovesToPostgres moves a journal from its directory to Postgres, and from there by a
// backup to another database and back into a directory.
func TestAJournalMovesToPostgres(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	database := pgtest.Own(t, "purser migrate-journal", true)
	if database == nil {
		return
	}
	data, answers := t.TempDir(), filepath.Join(t.TempDir(), "answers.json")
	m := startServer(t, data)
	passDemo(t, data, "--save", answers)
	url := createDatabase(t, database, "moved")
	require.ErrorIs(t, run([]string{"migrate-journal", "--data-dir", data, "--database-url", url}, io.Discard), datadir.ErrInUse)
	require.NoError(t, m.Close())
	before := openJournalOf(t, data)
	identity := before.Identity()
	require.NoError(t, before.Close())

	require.Contains(t, mustRun(t, "migrate-journal", "--data-dir", data, "--database-url", url),
		`the journal is now in the Postgres database "moved" at 127.`)
	err := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorIs(t, err, pebblejournal.ErrMoved)
	require.ErrorContains(t, err, "set DATABASE_URL")
	require.ErrorIs(t, run([]string{"migrate-journal", "--data-dir", data, "--database-url", url}, io.Discard),
		pebblejournal.ErrMoved)
	require.Contains(t, mustRun(t, "audit", "--data-dir", data, "--database-url", url), "agree to the cent")

	m = startOnDatabase(t, data, url)
	require.Equal(t, identity, m.journal.Identity(),
		"the moved journal has another identity, so consumers would start again")
	passDemo(t, data, "--check", answers)
	passDemo(t, data)
	backup := filepath.Join(t.TempDir(), "backup")
	mustRun(t, "backup", "--data-dir", data, "--database-url", url, backup)
	require.NoError(t, m.Close())
	require.Contains(t, mustRun(t, "audit", "--data-dir", data, "--database-url", url), "agree to the cent")

	restoreInto(t, data, backup, answers, createDatabase(t, database, "restored"))
	restoreInto(t, data, backup, answers, "")
	require.ErrorIs(t,
		run([]string{"restore", "--data-dir", filepath.Join(t.TempDir(), "x"), "--database-url", url, backup},
			io.Discard), pgjournal.ErrNotEmpty)
}

// restoreInto restores a backup into a new directory, and into a database unless url is empty, and
// compares the demo's answers with the saved ones. keyed is the data directory that has the
// secrets.
func restoreInto(t *testing.T, keyed, backup, answers, url string) {
	data := filepath.Join(t.TempDir(), "restored")
	place := []string{"--data-dir", data, "--database-url", url}
	mustRun(t, append([]string{"restore", backup}, place...)...)
	require.Contains(t, mustRun(t, append([]string{"audit"}, place...)...), "agree to the cent")
	copySecrets(t, keyed, data)
	var m *daemon
	if url == "" {
		m = startServer(t, data)
	} else {
		m = startOnDatabase(t, data, url)
	}
	passDemo(t, data, "--check", answers)
	require.NoError(t, m.Close())
	require.Contains(t, mustRun(t, append([]string{"audit"}, place...)...), "agree to the cent")
}

// TestRepeatingAnInterruptedMoveCompletesIt: after a crash, the same command completes the move. It
// refuses a database that holds another journal.
func TestRepeatingAnInterruptedMoveCompletesIt(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "an interrupted purser migrate-journal", true)
	if database == nil {
		return
	}
	data, _ := backUpFreshServer(t)
	url := createDatabase(t, database, "interrupted")
	move := &storecare.MigrateJournalCmd{DataDir: data, To: url}
	from := openJournalOf(t, data)
	require.NoError(t, move.Load(t.Context(), from), "the load, before the directory is marked as moved")
	require.NoError(t, from.Close())

	taken := createDatabase(t, database, "taken")
	other, _ := backUpFreshServer(t)
	require.NoError(t, pgjournal.Migrate(t.Context(), taken))
	stranger := openJournalOf(t, other)
	require.NoError(t, (&storecare.MigrateJournalCmd{DataDir: other, To: taken}).Load(t.Context(), stranger))
	require.NoError(t, stranger.Close())
	require.ErrorContains(t, run([]string{"migrate-journal", "--data-dir", data, "--database-url", taken}, io.Discard),
		"of another deployment")
	require.NoError(t, openJournalOf(t, data).Close(), "a refused move marked the directory as moved")

	mustRun(t, "migrate-journal", "--data-dir", data, "--database-url", url)
	_, err := pebblejournal.Open(pebblejournal.Options{Dir: datadir.JournalDir(data)})
	require.ErrorIs(t, err, pebblejournal.ErrMoved)
}

// TestAMoveIntoAUsedCopyIsRefused: a server wrote to the copy before the move was complete.
func TestAMoveIntoAUsedCopyIsRefused(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "purser migrate-journal into a copy in use", true)
	if database == nil {
		return
	}
	data, _ := backUpFreshServer(t)
	url := createDatabase(t, database, "used")
	from := openJournalOf(t, data)
	require.NoError(t, (&storecare.MigrateJournalCmd{DataDir: data, To: url}).Load(t.Context(), from))
	to, err := pgjournal.Open(t.Context(), pgjournal.Options{URL: url})
	require.NoError(t, err)
	_, err = to.Raise(t.Context(), 3)
	require.NoError(t, errors.Join(err, to.Close(), from.Close()))
	require.ErrorContains(t, run([]string{"migrate-journal", "--data-dir", data, "--database-url", url}, io.Discard),
		"it was used already")
	require.NoError(t, openJournalOf(t, data).Close())
}

// TestRepeatingAnInterruptedRestoreCompletesIt: a restore was interrupted after it had filled its
// database. Only the same restore completes it.
func TestRepeatingAnInterruptedRestoreCompletesIt(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "an interrupted purser restore", true)
	if database == nil {
		return
	}
	_, backup := backUpFreshServer(t)
	from, err := storecare.CheckBackup(backup)
	require.NoError(t, err)
	url := createDatabase(t, database, "filled")
	data := t.TempDir()
	s := &storecare.Restoration{Stores: datadir.Stores{DataDir: data, DatabaseURL: url}, From: from}
	plan, err := s.ReadPlan()
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.Begin(plan), s.BuildAuthorizer(),
		s.LoadJournal(t.Context(), persistence.Identity{Deployment: from.DeploymentID, Store: plan.Store})))
	require.ErrorIs(t,
		run([]string{"restore", "--data-dir", filepath.Join(t.TempDir(), "x"), "--database-url", url, backup},
			io.Discard), pgjournal.ErrNotEmpty)
	mustRun(t, "restore", "--data-dir", data, "--database-url", url, backup)
	require.Contains(t, mustRun(t, "audit", "--data-dir", data, "--database-url", url), "agree to the cent")
}
