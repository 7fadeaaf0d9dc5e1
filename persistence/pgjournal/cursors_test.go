package pgjournal_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// cursorTable observes the table of cursors, past the journal.
type cursorTable struct {
	t    *testing.T
	conn *pgx.Conn
}

// watchCursors records every statement that writes cursors, with its synchronous_commit. The
// sequence tries also counts refused ones.
func watchCursors(t *testing.T, url string) *cursorTable {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	c := &cursorTable{t, conn}
	c.exec(`CREATE SEQUENCE tries; CREATE TABLE refusing (); CREATE TABLE written (synchronous text);
CREATE FUNCTION on_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM nextval('tries');
    IF EXISTS (SELECT FROM refusing) THEN RAISE 'refused'; END IF;
    INSERT INTO written VALUES (current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER on_write BEFORE INSERT ON journal_cursor EXECUTE FUNCTION on_write()`)
	return c
}

func (c *cursorTable) exec(sql string) {
	c.t.Helper()
	_, err := c.conn.Exec(context.Background(), sql)
	require.NoError(c.t, err)
}

func (c *cursorTable) queryInt(sql string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.conn.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// stored returns the stored position of a cursor of shard 3.
func (c *cursorTable) stored(name string) int {
	c.t.Helper()
	return c.queryInt(`SELECT COALESCE(max(position), 0) FROM journal_cursor WHERE shard = 3 AND name = $1`, name)
}

// blockWrites blocks all writes of cursors until the transaction ends.
func (c *cursorTable) blockWrites() { c.exec(`BEGIN; LOCK TABLE journal_cursor IN EXCLUSIVE MODE`) }

// awaitBlocked waits until blockWrites blocks a statement.
func (c *cursorTable) awaitBlocked() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return c.queryInt(`SELECT count(*) FROM pg_locks WHERE relation = 'journal_cursor'::regclass AND NOT granted`) > 0
	}, bound, time.Millisecond)
}

func (c *cursorTable) awaitStored(name string, position int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.stored(name) == position }, bound, 10*time.Millisecond)
}

func requireCursor(t *testing.T, j persistence.Journal, name string, want uint64) {
	t.Helper()
	got, err := j.Cursor(t.Context(), name, 3)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// The first save of each cursor is stored when SaveCursor returns. Later positions are visible at
// once although the table cannot be written, and take a few statements.
func TestCursorsAreWrittenBehind(t *testing.T) {
	const shards, names, saves = 160, 8, 20 // more cursors than one statement takes
	url := databases.Database(t)
	j := open(t, fastOptions(url))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	table := watchCursors(t, url)
	var work sync.WaitGroup
	for n := range names {
		work.Go(func() {
			for shard := range ident.Shard(shards) {
				assert.NoError(t, j.SaveCursor(t.Context(), fmt.Sprint("reaction/", n), shard, 1))
			}
		})
	}
	work.Wait()
	require.Equal(t, shards*names, table.queryInt(`SELECT count(*) FROM journal_cursor WHERE position = 1`))
	require.Equal(t, shards*names, table.queryInt(`SELECT count(*) FROM written`), "each at once")

	table.blockWrites()
	for i := range uint64(saves) {
		for n := range names {
			for shard := range ident.Shard(shards) {
				require.NoError(t, j.SaveCursor(t.Context(), fmt.Sprint("reaction/", n), shard, i+2))
			}
		}
		requireCursor(t, j, "reaction/7", i+2)
	}
	table.awaitBlocked()
	requireCursor(t, j, "reaction/7", saves+1)
	stored, err := j.Cursor(persistence.AsStored(t.Context()), "reaction/7", 3)
	require.NoError(t, err)
	require.EqualValues(t, 1, stored, "an audit's read was answered from memory")
	table.exec(`COMMIT`)
	require.Eventually(t, func() bool {
		return table.queryInt(`SELECT count(*) FROM journal_cursor WHERE position = $1`, saves+1) == shards*names
	}, bound, 10*time.Millisecond)
	statements := table.queryInt(`SELECT count(*) FROM written`) - shards*names
	require.GreaterOrEqual(t, statements, 2, "a statement is bounded")
	require.LessOrEqual(t, statements, 4, "the round that was held, and the one of what came meanwhile")
	require.Zero(t, table.queryInt(`SELECT count(*) FROM written WHERE synchronous <> 'off'`), "a cursor waits for no sync")
}

// However often a cursor moves, it is written once per interval.
func TestCursorsAreWrittenOncePerInterval(t *testing.T) {
	const writes, interval = 2, 50 * time.Millisecond
	url := databases.Database(t)
	o := fastOptions(url)
	o.CursorInterval = interval
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	table := watchCursors(t, url)
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 1))
	begun, position := time.Now(), uint64(1)
	require.Eventually(t, func() bool {
		position++
		return j.SaveCursor(t.Context(), "relay", 3, position) == nil && table.queryInt(`SELECT count(*) FROM written`) > writes
	}, bound, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(begun), writes*interval)
}

// A saved cursor is visible at once while the journal writes cursors all the time.
func TestSavedCursorIsVisibleAtOnce(t *testing.T) {
	const rounds = 20
	j := open(t, fastOptions(databases.Database(t)))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() {
			name := fmt.Sprint("reaction/", n)
			for position := uint64(1); ctx.Err() == nil; position++ {
				if !assert.NoError(t, j.SaveCursor(t.Context(), name, 3, position)) {
					return
				}
				for range 3 {
					got, err := j.Cursor(t.Context(), name, 3)
					if !assert.NoError(t, err) || !assert.Equal(t, position, got) {
						return
					}
				}
			}
		})
	}
	for range rounds {
		s, err := j.Snapshot(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	stop()
	work.Wait()
}

// openWithoutWriteBehind opens a journal that writes a cursor's later saves only in Snapshot and
// Close.
func openWithoutWriteBehind(t *testing.T, url string, note func(error)) *pgjournal.Journal {
	t.Helper()
	o := fastOptions(url)
	o.CursorInterval, o.Note = never, note
	return open(t, o)
}

// Close writes a cursor that was saved just before.
func TestCloseWritesCursors(t *testing.T) {
	url := databases.Database(t)
	j := openWithoutWriteBehind(t, url, nil)
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 1))
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 2))
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.SaveCursor(t.Context(), "relay", 3, 3), persistence.ErrUnavailable)
	_, err := j.Cursor(t.Context(), "relay", 3)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.Equal(t, 2, watchCursors(t, url).stored("relay"))
}

// A snapshot is not behind Cursor.
func TestSnapshotHasSavedCursors(t *testing.T) {
	j := openWithoutWriteBehind(t, databases.Database(t), nil)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	for position := range uint64(10) {
		require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, position+1))
		s, err := j.Snapshot(t.Context())
		require.NoError(t, err)
		var found []persistence.Cursor
		for part, err := range s.Content(t.Context()) {
			require.NoError(t, err)
			if c, ok := part.(*persistence.Cursor); ok {
				found = append(found, *c)
			}
		}
		require.NoError(t, s.Close())
		require.Equal(t, []persistence.Cursor{{Name: "relay", Position: position + 1}}, found)
	}
}

// reportedErrors collects the errors reported to Options.Note.
type reportedErrors struct {
	mu     sync.Mutex
	errors []string
}

func (n *reportedErrors) report(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.errors = append(n.errors, err.Error())
}

func (n *reportedErrors) count(substring string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.errors {
		if strings.Contains(text, substring) {
			count++
		}
	}
	return count
}

// While cursors cannot be written, SaveCursor fails, the log has the error once, and no saved
// position is lost.
func TestFailedWriteOfCursorsIsRetried(t *testing.T) {
	url, noted := databases.Database(t), &reportedErrors{}
	table := watchCursors(t, url)
	o := fastOptions(url)
	o.Note = noted.report
	j := open(t, o)
	save := func(name string, position uint64) error { return j.SaveCursor(t.Context(), name, 3, position) }
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, save(name, 1))
	}
	table.exec(`ALTER TABLE refusing ADD x int; INSERT INTO refusing VALUES (1)`)
	require.ErrorIs(t, save("first", 1), persistence.ErrUnavailable, "the first save of a cursor waits for the server")
	requireCursor(t, j, "first", 0)
	require.NoError(t, save("kafka", 2))
	position := uint64(1)
	var err error
	require.Eventually(t, func() bool {
		position++
		err = save("relay", position)
		return err != nil
	}, bound, 10*time.Millisecond)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	position-- // a refused save changes nothing
	tries := table.queryInt(`SELECT last_value FROM tries`)
	require.Eventually(t, func() bool { return table.queryInt(`SELECT last_value FROM tries`) >= tries+2 }, bound, 10*time.Millisecond)
	require.Equal(t, 1, noted.count("cannot write cursors"))
	requireCursor(t, j, "relay", position)
	requireCursor(t, j, "kafka", 2)
	require.Equal(t, 1, table.stored("relay"))

	table.exec(`DELETE FROM refusing`)
	table.awaitStored("relay", int(position))
	table.awaitStored("kafka", 2)
	require.Eventually(t, func() bool { return save("relay", position+1) == nil }, bound, 10*time.Millisecond)

	table.exec(`INSERT INTO refusing VALUES (1)`)
	if err := save("relay", position+2); err != nil { // the write of an earlier save may have failed by now
		require.ErrorIs(t, err, persistence.ErrUnavailable)
	}
	require.NoError(t, j.Close())
	require.Equal(t, 1, noted.count("closes without its last cursors"))
}

// A write fails after a cursor in it was saved anew.
func TestSaveDuringAFailedWriteIsKept(t *testing.T) {
	url, noted := databases.Database(t), &reportedErrors{}
	table := watchCursors(t, url)
	o := fastOptions(url)
	o.Note = noted.report
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, j.SaveCursor(t.Context(), name, 3, 1))
	}
	table.blockWrites()
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, j.SaveCursor(t.Context(), name, 3, 2))
	}
	table.awaitBlocked()
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 3))
	table.exec(`SELECT pg_cancel_backend(pid) FROM pg_locks WHERE relation = 'journal_cursor'::regclass AND NOT granted`)
	require.Eventually(t, func() bool { return noted.count("cannot write") == 1 }, bound, time.Millisecond)
	requireCursor(t, j, "relay", 3)
	requireCursor(t, j, "kafka", 2)
	table.exec(`COMMIT`)
	table.awaitStored("relay", 3)
	table.awaitStored("kafka", 2)
	requireCursor(t, j, "relay", 3)
}

// Positions saved during an outage of the server are visible, and written after it. An AsStored
// read fails meanwhile.
func TestCursorsSurviveAServerOutage(t *testing.T) {
	server := pgtest.Own(t, "cursors while the server is away", false)
	if server == nil {
		return
	}
	o := fastOptions(server.URL("postgres"))
	o.Migrate = true
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 1))
	require.NoError(t, server.Crash())
	position := uint64(1)
	require.Eventually(t, func() bool {
		position++
		return j.SaveCursor(t.Context(), "relay", 3, position) != nil
	}, bound, 10*time.Millisecond)
	position-- // a refused save changes nothing
	requireCursor(t, j, "relay", position)
	_, err := j.Cursor(persistence.AsStored(t.Context()), "relay", 3)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool {
		stored, err := j.Cursor(persistence.AsStored(t.Context()), "relay", 3)
		return err == nil && stored == position
	}, bound, 10*time.Millisecond)
}

// A fenced process does not write its cursors, whether it knows of its successor or not.
func TestFencedProcessWritesNoCursor(t *testing.T) {
	const slot = ident.Slot(0x30)
	for name, hear := range map[string]func(first *pgjournal.Journal, epoch uint64){
		"it has heard": func(first *pgjournal.Journal, epoch uint64) {
			require.NoError(t, first.SaveCursor(t.Context(), "relay", 3, 8))
			require.ErrorIs(t, appendOne(first, slot, epoch, 1), pgjournal.ErrTaken)
			for _, name := range []string{"relay", "another"} {
				require.ErrorIs(t, first.SaveCursor(t.Context(), name, 3, 9), persistence.ErrFenced)
			}
		},
		"it has not": func(first *pgjournal.Journal, _ uint64) {
			require.NoError(t, first.SaveCursor(t.Context(), "relay", 3, 9))
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := databases.Database(t)
			table := watchCursors(t, url)
			o := fastOptions(url)
			o.CursorInterval = never
			first, head, fatal := openAndRaise(t, o, slot)
			require.NoError(t, first.SaveCursor(t.Context(), "relay", 3, 1))
			second, _, quiet := openAndRaise(t, fastOptions(url), slot)
			require.NoError(t, second.SaveCursor(t.Context(), "relay", 3, 7))
			hear(first, head.Epoch)
			require.NoError(t, first.Close())
			requireFatal(t, fatal, pgjournal.ErrTaken)
			require.Equal(t, 7, table.stored("relay"))
			require.Zero(t, table.stored("another"))
			require.Empty(t, quiet)
		})
	}
}

// A cancelled backup fails no save: its context says nothing of the server.
func TestCancelledBackupFailsNoSave(t *testing.T) {
	url, noted := databases.Database(t), &reportedErrors{}
	table := watchCursors(t, url)
	j := openWithoutWriteBehind(t, url, noted.report)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	for position := range uint64(2) {
		require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, position+1))
	}
	table.blockWrites()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		s, err := j.Snapshot(ctx)
		if err == nil {
			err = s.Close()
		}
		ended <- err
	}()
	table.awaitBlocked()
	cancel()
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 3))
	table.exec(`COMMIT`)
	require.Error(t, <-ended)
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 4))
	s, err := j.Snapshot(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, 4, table.stored("relay"))
	require.Zero(t, noted.count("cannot write"))
}
