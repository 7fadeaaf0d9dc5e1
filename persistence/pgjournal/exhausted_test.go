package pgjournal_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/postgres"
)

// refuseCommits makes the server refuse the journal's commits with a SQLSTATE, by a trigger.
func refuseCommits(t *testing.T, conn *pgx.Conn, code string) {
	t.Helper()
	for _, sql := range []string{
		`CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
RAISE EXCEPTION 'could not extend file' USING ERRCODE = '` + code + `'; END $$`,
		`CREATE OR REPLACE TRIGGER fill BEFORE UPDATE ON journal_shard FOR EACH ROW EXECUTE FUNCTION fill()`} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// While the server's disk is full, each commit fails with an error that names the disk. The log has
// only the first.
func TestFullDiskIsNamedAndLoggedOnce(t *testing.T) {
	o := fastOptions(databases.Database(t))
	var mu sync.Mutex
	var noted []error
	clock := time.Now()
	o.Note = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		noted = append(noted, err)
	}
	o.Clock = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return clock
	}
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	heads, err := j.Raise(t.Context(), 2)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), o.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(t.Context())) })
	commit := func(stream string) error {
		_, err := j.Append(t.Context(), 2, heads[0].Epoch, journaltest.Start,
			[]*persistence.Batch{payloadBatch(0x020, stream, `{}`)})
		return err
	}
	require.NoError(t, commit("before"))
	require.NoError(t, j.Exhausted())
	refuseCommits(t, conn, "53100")
	for range 3 {
		err = commit("refused")
		require.ErrorIs(t, err, persistence.ErrUnavailable)
		require.ErrorIs(t, err, postgres.ErrFullDisk)
	}
	require.ErrorIs(t, j.Exhausted(), postgres.ErrFullDisk)
	mu.Lock()
	require.Len(t, noted, 1)
	require.ErrorContains(t, noted[0], "the journal is not written: ")
	clock = clock.Add(pgjournal.ExhaustedFor + 1)
	mu.Unlock()
	require.NoError(t, j.Exhausted(), "no commit was tried since")
	refuseCommits(t, conn, "53200")
	require.ErrorIs(t, commit("refused"), postgres.ErrExhausted)
	require.ErrorContains(t, j.Exhausted(), "its memory")
	_, err = conn.Exec(t.Context(), `DROP TRIGGER fill ON journal_shard`)
	require.NoError(t, err)
	require.NoError(t, commit("after"))
	require.NoError(t, j.Exhausted())
}
