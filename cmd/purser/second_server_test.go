package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/storecare"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// TestASecondServerEndsTheFirst starts a copy of a deployment on the same database. The first server ends, though nothing is
// asked of it, and does not take the journal back: two authorizers would spend the same money.
func TestASecondServerEndsTheFirst(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "two servers on one database", true)
	if database == nil {
		return
	}
	config := databaseConfig(t, t.TempDir(), database.URL("postgres"))
	_, p := startServerWithClient(t, config)
	p.awaitReady(t)
	require.NoError(t, p.stop())
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, storecare.CopyTree(config.DataDir, copied))

	m := newDaemon(config, debugLogger())
	ended := make(chan error, 1)
	m.Fatal = func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	require.NoError(t, m.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.Eventually(t, func() bool { return m.ready() == nil }, time.Minute, 10*time.Millisecond)
	config.DataDir = copied
	_, second := startServerWithClient(t, config)
	second.awaitReady(t)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, pgjournal.ErrTaken)
	case <-time.After(stateTimeout):
		require.Fail(t, "the first server goes on")
	}
	second.awaitReady(t)
}

// TestAnEmptyDatabaseBesideAJournalIsRefused sets DATABASE_URL on a deployment whose journal is in its directory, with and without its
// authorizer: that would begin an empty one beside all its money.
func TestAnEmptyDatabaseBesideAJournalIsRefused(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "a database beside a journal in the directory", true)
	if database == nil {
		return
	}
	data, _ := backUpFreshServer(t)
	for range 2 {
		m := newDaemon(databaseConfig(t, data, database.URL("postgres")), debugLogger())
		require.NoError(t, m.Start(t.Context()))
		select {
		case err := <-m.Failed():
			require.ErrorContains(t, err, "`purser migrate-journal` moves it")
		case <-time.After(stateTimeout):
			require.Fail(t, "it was begun")
		}
		require.NoError(t, m.Close())
		require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(data)))
	}
}
