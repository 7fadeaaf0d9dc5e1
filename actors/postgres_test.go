package actors_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// onEachJournal runs a test on a journal in memory and on one in Postgres. database is the URL of
// the Postgres database, or empty.
func onEachJournal(t *testing.T, test func(t *testing.T, database string)) {
	t.Run("embedded", func(t *testing.T) { test(t, "") })
	t.Run("postgres", func(t *testing.T) {
		if server := pgtest.Own(t, t.Name(), false); server != nil {
			test(t, server.URL("postgres"))
		}
	})
}

// segmentBytes is the length of the files of the stores' logs, which lie in memory.
const segmentBytes = 256 << 10

// openJournal opens the journal in the Postgres database, or on the file system when database is
// empty.
func openJournal(database string, o pebblejournal.Options) (persistence.Journal, error) {
	if database == "" {
		o.SegmentBytes = segmentBytes
		return pebblejournal.Open(o)
	}
	return pgjournal.Open(context.Background(), pgjournal.Options{URL: database, Migrate: true,
		AllowUnsafe: true, Slack: 12,
		Deployment: o.Deployment, Clock: o.Clock, Entropy: o.Entropy})
}

func createDatabase(t *testing.T, server *pgtest.Server, name string) (url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return server.URL(name)
}

// TestRandomLivesAddUpOnPostgres runs models in parallel on databases of one server: a single model
// mostly waits.
func TestRandomLivesAddUpOnPostgres(t *testing.T) {
	ops, lives := modelOps(t, 200), 2
	if ops > longModelOps {
		lives = 10
	}
	server := pgtest.Own(t, "random lives on Postgres", false)
	if server == nil {
		return
	}
	seen, each := &stepCounts{times: map[string]int{}}, ops/lives
	t.Run("lives", func(t *testing.T) {
		for i := range lives {
			database, seed := createDatabase(t, server, fmt.Sprint("life_", i)), rand.Uint64()
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d", seed)
				seen.add(runWorkspaceModel(t, t, drawSeeded(seed), stackOptions{database: database,
					retryUnavailable: true, loopInterval: postgresLoopInterval}, each))
			})
		}
	})
	seen.logAndCheck(t, lives*each)
}

// TestNothingAnsweredIsLostWhenPostgresCrashesToo cuts the power of the authorizer and of Postgres
// during a storm of swipes. Every answer is given again, byte for byte, and the audit is clean.
func TestNothingAnsweredIsLostWhenPostgresCrashesToo(t *testing.T) {
	crashes := atFullLength(1, 2)
	server := pgtest.Own(t, "a power failure with Postgres", true)
	if server == nil {
		return
	}
	repeated := 0
	for i := range crashes {
		c := crashStackAndPostgres(t, server, createDatabase(t, server, fmt.Sprint("crash_", i)))
		require.Empty(t, c.recoverAndCheck(t, false), "power failure after %d answers", len(c.answered))
		repeated += len(c.answered)
	}
	t.Logf("%d power failures, %d answers repeated", crashes, repeated)
}

// crashStackAndPostgres crashes Postgres while clients work, and captures the authorizer's disk
// right after. The capture must not be older than the journal, which has relayed entries of it.
func crashStackAndPostgres(t *testing.T, server *pgtest.Server, database string) *powerFailure {
	notes, disk := &answerLog{}, vfs.NewCrashableMem()
	w := newTestStack(t, disk, stackOptions{database: database, retryUnavailable: true})
	cards := w.newStormCards()
	w.options.retryUnavailable = false // the journal goes away
	working := w.startClients(notes, cards)
	least := 50 + rand.N(crashClients*crashOps/4)
	require.Eventually(t, func() bool { return len(notes.snapshot()) >= least }, eventuallyWithin, pollEvery)
	c := &powerFailure{answered: notes.snapshot(), database: database}
	require.NoError(t, server.Crash())
	c.fs = disk.CrashClone(vfs.CrashCloneCfg{})
	notes.stopping.Store(true)
	working.Wait()
	w.stop()
	require.NoError(t, server.Restart())
	return c
}
