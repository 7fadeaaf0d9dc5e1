package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/cmd/purser/storecare"
	"purser/persistence/pgjournal/pgtest"
)

// TestAuditComparesTheBook runs the demo on Postgres. The book reaches the journal's head. The
// audit compares it, of a running server and of stopped stores, and finds a wrong balance in it.
func TestAuditComparesTheBook(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	database := pgtest.Own(t, "the book of the program", true)
	if database == nil {
		return
	}
	url := createDatabase(t, database, "book")
	config := databaseConfig(t, t.TempDir(), url)
	m := newDaemon(config, debugLogger())
	require.NoError(t, m.Start(t.Context()))
	p := m.adminClient()
	p.awaitReady(t)
	passDemo(t, config.DataDir)
	require.NoError(t, m.system.RelayAll(t.Context()))
	p.await(t, "the book", func() bool {
		return strings.Contains(runAudit(t, config.DataDir), "it is 0 events behind")
	})
	require.Contains(t, runAudit(t, config.DataDir), "authorizer and book agree to the cent")
	require.NoError(t, m.Close())
	requireCleanAudit(t, config)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `UPDATE book.account SET balance = balance + 1 WHERE name = 'usd'`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(context.Background()))
	err = run([]string{"audit", "--data-dir", config.DataDir, "--database-url", url}, io.Discard)
	require.ErrorIs(t, err, storecare.ErrUnsound)
}
