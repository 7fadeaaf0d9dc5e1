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

// cursorTable is the table of cursors, seen from beside the journal.
type cursorTable struct {
	t    *testing.T
	conn *pgx.Conn
}

// watchCursors notes every statement that writes cursors, with its synchronous_commit; tries counts those that were refused too.
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

func (c *cursorTable) number(sql string, args ...any) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.conn.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// at is the place of a name in shard 3 that is in the table.
func (c *cursorTable) at(name string) int {
	c.t.Helper()
	return c.number(`SELECT COALESCE(max(position), 0) FROM journal_cursor WHERE shard = 3 AND name = $1`, name)
}

// hold lets no statement write cursors until the transaction ends.
func (c *cursorTable) hold() { c.exec(`BEGIN; LOCK TABLE journal_cursor IN EXCLUSIVE MODE`) }

// awaitHeld waits until a statement stands before hold.
func (c *cursorTable) awaitHeld() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return c.number(`SELECT count(*) FROM pg_locks WHERE relation = 'journal_cursor'::regclass AND NOT granted`) > 0
	}, bound, time.Millisecond)
}

func (c *cursorTable) await(name string, position int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.at(name) == position }, bound, 10*time.Millisecond)
}

func requireCursor(t *testing.T, j persistence.Journal, name string, want uint64) {
	t.Helper()
	got, err := j.Cursor(t.Context(), name, 3)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestCursorsAreWrittenBehind: the first save of each place is in the table when it is answered. What comes later is read back at
// once, though the table can not be written, and becomes a few statements.
func TestCursorsAreWrittenBehind(t *testing.T) {
	const shards, names, saves = 160, 8, 20 // more places than one statement takes
	url := databases.Database(t)
	j := open(t, fast(url))
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
	require.Equal(t, shards*names, table.number(`SELECT count(*) FROM journal_cursor WHERE position = 1`))
	require.Equal(t, shards*names, table.number(`SELECT count(*) FROM written`), "each at once")

	table.hold()
	for i := range uint64(saves) {
		for n := range names {
			for shard := range ident.Shard(shards) {
				require.NoError(t, j.SaveCursor(t.Context(), fmt.Sprint("reaction/", n), shard, i+2))
			}
		}
		requireCursor(t, j, "reaction/7", i+2)
	}
	table.awaitHeld()
	requireCursor(t, j, "reaction/7", saves+1)
	stored, err := j.Cursor(persistence.AsStored(t.Context()), "reaction/7", 3)
	require.NoError(t, err)
	require.EqualValues(t, 1, stored, "an audit's read was answered from memory")
	table.exec(`COMMIT`)
	require.Eventually(t, func() bool {
		return table.number(`SELECT count(*) FROM journal_cursor WHERE position = $1`, saves+1) == shards*names
	}, bound, 10*time.Millisecond)
	statements := table.number(`SELECT count(*) FROM written`) - shards*names
	require.GreaterOrEqual(t, statements, 2, "a statement is bounded")
	require.LessOrEqual(t, statements, 4, "the round that was held, and the one of what came meanwhile")
	require.Zero(t, table.number(`SELECT count(*) FROM written WHERE synchronous <> 'off'`), "a cursor waits for no sync")
}

// TestWritesOfCursorsAreFarApart: however often a place moves, the server hears of it once a second.
func TestWritesOfCursorsAreFarApart(t *testing.T) {
	const writes = 2
	url := databases.Database(t)
	j := open(t, fast(url))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	table := watchCursors(t, url)
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 1))
	begun, position := time.Now(), uint64(1)
	require.Eventually(t, func() bool {
		position++
		return j.SaveCursor(t.Context(), "relay", 3, position) == nil && table.number(`SELECT count(*) FROM written`) > writes
	}, bound, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(begun), writes*time.Second)
}

// TestAPlaceIsReadBackAtOnce saves and reads while places go from memory to the table all the time.
func TestAPlaceIsReadBackAtOnce(t *testing.T) {
	const rounds = 20
	j := open(t, fast(databases.Database(t)))
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

// TestCloseWritesCursors closes the journal as soon as a place was kept.
func TestCloseWritesCursors(t *testing.T) {
	url := databases.Database(t)
	j := open(t, fast(url))
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 1))
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 2))
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.SaveCursor(t.Context(), "relay", 3, 3), persistence.ErrUnavailable)
	_, err := j.Cursor(t.Context(), "relay", 3)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.Equal(t, 2, watchCursors(t, url).at("relay"))
}

// TestASnapshotHasTheCursors: what is archived is not behind what Cursor has answered.
func TestASnapshotHasTheCursors(t *testing.T) {
	j := open(t, fast(databases.Database(t)))
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

// notes are what a journal has told.
type notes struct {
	mu   sync.Mutex
	said []string
}

func (n *notes) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, err.Error())
}

func (n *notes) count(what string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, said := range n.said {
		if strings.Contains(said, what) {
			count++
		}
	}
	return count
}

// TestARefusedWriteIsTriedAgain: while cursors cannot be written, who saves hears of it, the log once, and nothing is forgotten.
func TestARefusedWriteIsTriedAgain(t *testing.T) {
	url, said := databases.Database(t), &notes{}
	table := watchCursors(t, url)
	o := fast(url)
	o.Note = said.note
	j := open(t, o)
	save := func(name string, position uint64) error { return j.SaveCursor(t.Context(), name, 3, position) }
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, save(name, 1))
	}
	table.exec(`ALTER TABLE refusing ADD x int; INSERT INTO refusing VALUES (1)`)
	require.ErrorIs(t, save("first", 1), persistence.ErrUnavailable, "the first save of a place waits for the server")
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
	position-- // what is refused is not kept: its subscriber does not go on
	tries := table.number(`SELECT last_value FROM tries`)
	require.Eventually(t, func() bool { return table.number(`SELECT last_value FROM tries`) >= tries+2 }, bound, 10*time.Millisecond)
	require.Equal(t, 1, said.count("cannot write cursors"))
	requireCursor(t, j, "relay", position)
	requireCursor(t, j, "kafka", 2)
	require.Equal(t, 1, table.at("relay"))

	table.exec(`DELETE FROM refusing`)
	table.await("relay", int(position))
	table.await("kafka", 2)
	require.Eventually(t, func() bool { return save("relay", position+1) == nil }, bound, 10*time.Millisecond)

	table.exec(`INSERT INTO refusing VALUES (1)`)
	if err := save("relay", position+2); err != nil { // what was kept before has been refused meanwhile
		require.ErrorIs(t, err, persistence.ErrUnavailable)
	}
	require.NoError(t, j.Close())
	require.Equal(t, 1, said.count("closes without its last cursors"))
}

// TestWhatIsSavedDuringAWriteSurvivesItsFailure breaks a write off after its place was saved anew.
func TestWhatIsSavedDuringAWriteSurvivesItsFailure(t *testing.T) {
	url, said := databases.Database(t), &notes{}
	table := watchCursors(t, url)
	o := fast(url)
	o.Note = said.note
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, j.SaveCursor(t.Context(), name, 3, 1))
	}
	table.hold()
	for _, name := range []string{"relay", "kafka"} {
		require.NoError(t, j.SaveCursor(t.Context(), name, 3, 2))
	}
	table.awaitHeld()
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 3))
	table.exec(`SELECT pg_cancel_backend(pid) FROM pg_locks WHERE relation = 'journal_cursor'::regclass AND NOT granted`)
	require.Eventually(t, func() bool { return said.count("cannot write") == 1 }, bound, time.Millisecond)
	requireCursor(t, j, "relay", 3)
	requireCursor(t, j, "kafka", 2)
	table.exec(`COMMIT`)
	table.await("relay", 3)
	table.await("kafka", 2)
	requireCursor(t, j, "relay", 3)
}

// TestCursorsOutliveTheServer: what is saved while the server is away is known, and written when it is back. Who asks for what is
// stored hears that it is away.
func TestCursorsOutliveTheServer(t *testing.T) {
	server := pgtest.Own(t, "cursors while the server is away", false)
	if server == nil {
		return
	}
	o := fast(server.URL("postgres"))
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
	position-- // what is refused is not kept
	requireCursor(t, j, "relay", position)
	_, err := j.Cursor(persistence.AsStored(t.Context()), "relay", 3)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool {
		stored, err := j.Cursor(persistence.AsStored(t.Context()), "relay", 3)
		return err == nil && stored == position
	}, bound, 10*time.Millisecond)
}

// TestWhoWasSucceededPutsBackNoPlace: what a journal has kept when another process has its shard is not written, whether it has
// heard of that or not.
func TestWhoWasSucceededPutsBackNoPlace(t *testing.T) {
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
			first, head, fatal := claimStands(t, fast(url), slot)
			require.NoError(t, first.SaveCursor(t.Context(), "relay", 3, 1))
			second, _, quiet := claimStands(t, fast(url), slot)
			require.NoError(t, second.SaveCursor(t.Context(), "relay", 3, 7))
			hear(first, head.Epoch)
			require.NoError(t, first.Close())
			requireFatal(t, fatal, pgjournal.ErrTaken)
			require.Equal(t, 7, table.at("relay"))
			require.Zero(t, table.at("another"))
			require.Empty(t, quiet)
		})
	}
}

// TestABackupThatIsGivenUp fails no save: that its context has ended says nothing of the server.
func TestABackupThatIsGivenUp(t *testing.T) {
	url, said := databases.Database(t), &notes{}
	table := watchCursors(t, url)
	o := fast(url)
	o.Note = said.note
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	for position := range uint64(2) {
		require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, position+1))
	}
	table.hold()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		s, err := j.Snapshot(ctx)
		if err == nil {
			err = s.Close()
		}
		ended <- err
	}()
	table.awaitHeld()
	cancel()
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 3))
	table.exec(`COMMIT`)
	require.Error(t, <-ended)
	require.NoError(t, j.SaveCursor(t.Context(), "relay", 3, 4))
	table.await("relay", 4)
	require.Zero(t, said.count("cannot write"))
}
