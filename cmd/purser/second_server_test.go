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

// TestASecondServerEndsTheFirst starts a copy of a deployment on the same database. The first
// server ends, even without any request, and does not take the journal back, because two
// authorizers would spend the same money.
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
		require.Fail(t, "the first server still runs")
	}
	second.awaitReady(t)
}

// TestAnEmptyDatabaseBesideAJournalIsRefused sets DATABASE_URL on a deployment whose journal is in
// its data directory, with and without its authorizer. The server refuses to start: a new, empty
// journal would lack all balances.
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
			require.Fail(t, "the server started on the empty database")
		}
		require.NoError(t, m.Close())
		require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(data)))
	}
}
