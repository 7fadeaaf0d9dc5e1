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

// onEachJournal runs a test on a journal in memory and on one in a database. A database without a name is none.
func onEachJournal(t *testing.T, test func(t *testing.T, database string)) {
	t.Run("embedded", func(t *testing.T) { test(t, "") })
	t.Run("postgres", func(t *testing.T) {
		if server := pgtest.Own(t, t.Name(), false); server != nil {
			test(t, server.URL("postgres"))
		}
	})
}

// openJournal opens the journal in the database, or on the file system when there is none.
func openJournal(database string, o pebblejournal.Options) (persistence.Journal, error) {
	if database == "" {
		return pebblejournal.Open(o)
	}
	return pgjournal.Open(context.Background(), pgjournal.Options{URL: database, Migrate: true, AllowUnsafe: true, Slack: 12,
		Deployment: o.Deployment, Clock: o.Clock, Entropy: o.Entropy})
}

func makeDatabase(t *testing.T, server *pgtest.Server, name string) (url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return server.URL(name)
}

// The random lives, on databases of one server: a few at a time, for one alone mostly waits.
func TestRandomLivesAddUpOnPostgres(t *testing.T) {
	ops, lives := modelOps(t, 200), 2
	if ops >= longModel {
		lives = 10
	}
	server := pgtest.Own(t, "random lives on Postgres", false)
	if server == nil {
		return
	}
	seen, each := &happened{times: map[string]int{}}, ops/lives
	t.Run("lives", func(t *testing.T) {
		for i := range lives {
			database, seed := makeDatabase(t, server, fmt.Sprint("life_", i)), rand.Uint64()
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d", seed)
				seen.add(live(t, t, seeded(seed), worldOptions{database: database, patient: true, pace: postgresPace}, each))
			})
		}
	})
	seen.told(t, lives*each)
}

// The machine of the authorizer and Postgres's lose power in the middle of a storm. Whatever was answered is answered again,
// to the letter, and every sum agrees.
func TestNothingAnsweredIsLostWhenPostgresCrashesToo(t *testing.T) {
	const crashes = 2
	server := pgtest.Own(t, "a power failure with Postgres", true)
	if server == nil {
		return
	}
	told := 0
	for i := range crashes {
		c := crashBoth(t, server, makeDatabase(t, server, fmt.Sprint("crash_", i)))
		require.Empty(t, c.survives(t, false), "power failure after %d answers", len(c.told))
		told += len(c.told)
	}
	t.Logf("%d power failures, %d answers repeated", crashes, told)
}

// crashBoth lets clients work until Postgres crashes, and photographs the authorizer's disk at that moment: it must not be
// older than the journal, which has what the relay has read of it.
func crashBoth(t *testing.T, server *pgtest.Server, database string) *crash {
	notes, disk := &notebook{}, vfs.NewCrashableMem()
	w := newWorld(t, disk, worldOptions{database: database, patient: true})
	cards := w.stormCards()
	w.options.patient = false // with a journal that is gone
	working := w.clients(notes, cards)
	least := 50 + rand.N(crashClients*crashOps/4)
	require.Eventually(t, func() bool { return len(notes.copy()) >= least }, comesWithin, lookEvery)
	c := &crash{told: notes.copy(), database: database}
	require.NoError(t, server.Crash())
	c.fs = disk.CrashClone(vfs.CrashCloneCfg{})
	notes.over.Store(true)
	working.Wait()
	w.stop()
	require.NoError(t, server.Restart())
	return c
}
