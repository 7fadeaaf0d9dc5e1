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

// TestTheBookFollowsTheProgram walks the demo on Postgres: the book comes to the head, and the audit, of the running server and
// of the stores at rest, compares it and finds what is wrong in it.
func TestTheBookFollowsTheProgram(t *testing.T) {
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
	require.NoError(t, m.system.Settle(t.Context()))
	p.await(t, "the book", func() bool { return strings.Contains(runAudit(t, config.DataDir), "it is 0 events behind") })
	require.Contains(t, runAudit(t, config.DataDir), "authorizer and book agree to the cent")
	require.NoError(t, m.Close())
	requireCleanAudit(t, config)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `UPDATE book.account SET balance = balance + 1 WHERE name = 'usd'`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(context.Background()))
	require.ErrorIs(t, run([]string{"audit", "--data-dir", config.DataDir, "--database-url", url}, io.Discard), storecare.ErrUnsound)
}
