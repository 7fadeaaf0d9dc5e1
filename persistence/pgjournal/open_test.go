package pgjournal_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

func executeSQL(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, errors.Join(err, conn.Close(context.Background())))
}

func TestOpenRefuses(t *testing.T) {
	mine, theirs := ident.UUID{1}, ident.UUID{2}
	unsafe, other := fastOptions(""), fastOptions("")
	other.Deployment = theirs
	for name, c := range map[string]struct {
		sql  string
		o    pgjournal.Options
		want error
		says string
	}{
		"another deployment": {`SELECT 1`, other, pgjournal.ErrForeign, ""},
		"an older format": {`UPDATE journal_store SET format = 1`, unsafe, pgjournal.ErrForeign,
			"its format is 1, this program reads 2: start with an empty database"},
		"a newer format": {`UPDATE journal_store SET format = 3`, unsafe, pgjournal.ErrForeign,
			"its format is 3, this program reads 2: run the newer program"},
		"other shards":  {`UPDATE journal_store SET shards = 32`, unsafe, pgjournal.ErrForeign, ""},
		"nothing there": {`DROP TABLE journal_version`, unsafe, pgjournal.ErrNoStore, ""},
		"an old schema": {`DELETE FROM journal_version`, unsafe, pgjournal.ErrNoStore, "a start migrates it"},
		"a newer schema": {`UPDATE journal_version SET version_id = 999`, unsafe, pgjournal.ErrForeign,
			"its schema is 999, this program reads "},
	} {
		t.Run(name, func(t *testing.T) {
			o := fastOptions(databases.Database(t))
			o.Deployment = mine
			j := open(t, o)
			require.Equal(t, mine, j.Identity().Deployment)
			require.NoError(t, j.Close())
			executeSQL(t, o.URL, c.sql)
			c.o.URL = o.URL
			_, err := pgjournal.Open(t.Context(), c.o)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestUnsafeServerIsRefused(t *testing.T) {
	server := pgtest.Own(t, "a journal on a server without fsync", false)
	if server == nil {
		return
	}
	o := pgjournal.Options{URL: server.URL("postgres"), Migrate: true, Slack: slack}
	_, err := pgjournal.Open(t.Context(), o)
	require.ErrorIs(t, err, pgjournal.ErrUnsafe)
	o.AllowUnsafe = true
	require.NoError(t, open(t, o).Close())
}

func TestOptionsAreChecked(t *testing.T) {
	for said, o := range map[string]pgjournal.Options{
		"URL is empty":     {},
		"Lanes is -1":      {URL: "host=localhost", Lanes: -1},
		"Lanes is 1000":    {URL: "host=localhost", Lanes: 1000},
		"Slack is -1":      {URL: "host=localhost", Slack: -1},
		"Slack is 101":     {URL: "host=localhost", Slack: 101},
		"PoolSize is 1":    {URL: "host=localhost", PoolSize: 1},
		"PoolSize is 1000": {URL: "host=localhost", PoolSize: 1000},
		"cannot parse":     {URL: "postgres://host:port:port"},
	} {
		_, err := pgjournal.Open(t.Context(), o)
		require.ErrorContains(t, err, said)
	}
}

// Several processes that open an empty database at once find one store.
func TestConcurrentOpensMakeOneStore(t *testing.T) {
	const processes = 4
	o := fastOptions(databases.Empty(t))
	o.Migrate = true
	var work sync.WaitGroup
	journals, errs := make([]*pgjournal.Journal, processes), make([]error, processes)
	for i := range processes {
		work.Go(func() { journals[i], errs[i] = pgjournal.Open(context.Background(), o) })
	}
	work.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, j := range journals {
		require.Equal(t, journals[0].Identity(), j.Identity())
		require.NoError(t, j.Close())
	}
}

// Long payloads are compressed by lz4 in every partition, if the server supports it.
func TestLongPayloadsAreCompressedByLz4(t *testing.T) {
	url := databases.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var has bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'`).
		Scan(&has))
	want := ""
	if has {
		want = "l"
	}
	rows, err := conn.Query(t.Context(), `SELECT DISTINCT replace(attcompression::text, E'\001', '') FROM pg_attribute
WHERE attname = 'payload' AND attrelid IN (SELECT relid FROM pg_partition_tree('journal_event'))`)
	require.NoError(t, err)
	by, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{want}, by)
}
