package book_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/book"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/pgjournal/pgtest"
)

// positionTable observes the table of positions, past the book.
type positionTable struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

// watchPositions records every move with its synchronous_commit, and every statement that moves.
// While the table refusing has a row, such statements fail.
func watchPositions(t *testing.T, url string) *positionTable {
	t.Helper()
	query(t, url, `CREATE TABLE public.refusing (x int); CREATE TABLE public.statements (n int);
CREATE TABLE public.moves (n int GENERATED ALWAYS AS IDENTITY, shard int, position bigint, synced text);
CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.moves (shard, position, synced) VALUES (NEW.id, NEW.position, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE FUNCTION public.count() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM public.refusing) THEN RAISE 'refused'; END IF;
    INSERT INTO public.statements VALUES (1);
    RETURN NULL;
END $$;
CREATE TRIGGER see AFTER UPDATE ON book.shard FOR EACH ROW EXECUTE FUNCTION public.see();
CREATE TRIGGER count BEFORE UPDATE ON book.shard FOR EACH STATEMENT EXECUTE FUNCTION public.count()`)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return &positionTable{t, url, conn}
}

// recordedMoves returns the moves of the shard, as position|synced.
func (p *positionTable) recordedMoves() []string {
	return query(p.t, p.url, `SELECT position, synced FROM public.moves WHERE shard = 18 ORDER BY n`)
}

// stored returns the position in the table.
func (p *positionTable) stored() string {
	return query(p.t, p.url, `SELECT position FROM book.shard WHERE id = 18`)[0]
}

func (p *positionTable) awaitStored(position string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.stored() == position }, bound, 10*time.Millisecond)
}

// blockMoves blocks all moves until release.
func (p *positionTable) blockMoves() {
	_, err := p.conn.Exec(p.t.Context(), `BEGIN; LOCK TABLE book.shard IN EXCLUSIVE MODE`)
	require.NoError(p.t, err)
}

// awaitBlocked waits until blockMoves blocks a statement.
func (p *positionTable) awaitBlocked() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		return len(query(p.t, p.url, `SELECT 1 FROM pg_locks WHERE relation = 'book.shard'::regclass AND NOT granted`)) > 0
	}, bound, time.Millisecond)
}

func (p *positionTable) release() {
	_, err := p.conn.Exec(p.t.Context(), `COMMIT`)
	require.NoError(p.t, err)
}

func requireLag(t *testing.T, b *book.Book, head, want uint64) {
	t.Helper()
	lag, err := b.Lag(t.Context(), func(s ident.Shard) uint64 { return map[ident.Shard]uint64{shard: head}[s] })
	require.NoError(t, err)
	require.Equal(t, want, lag)
}

func requireMoved(t *testing.T, b *book.Book, events ...persistence.Event) {
	t.Helper()
	require.ErrorIs(t, b.Handle(t.Context(), shard, events), consumer.ErrMoved)
}

// A page without postings only moves the shard's position, without a sync. The first such page is
// written at once, later pages in the background. A later booking writes its own position. A wrong
// position is still refused.
func TestPagesWithoutPostingsAreSkippedWithoutASync(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	b, other := open(t, url, journal), open(t, url, journal)
	mustHandle(t, b, eventWithoutPostings(1), eventWithoutPostings(2))
	table.blockMoves()
	mustHandle(t, b, eventWithoutPostings(3))
	mustHandle(t, b, eventWithoutPostings(4), eventWithoutPostings(5))
	for _, wrong := range []uint64{1, 3, 5, 7} {
		requireMoved(t, b, eventWithoutPostings(wrong))
		requireMoved(t, b, deposit(wrong, "ws_1", 10))
	}
	requirePosition(t, b, 5)
	requireLag(t, b, 6, 1)
	standing, err := b.Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{Position: 5}, standing)
	requirePosition(t, other, 2) // a moment late
	requireLag(t, other, 6, 4)
	table.awaitBlocked()
	mustHandle(t, b, eventWithoutPostings(6))
	table.release()
	table.awaitStored("6")
	mustHandle(t, b, eventWithoutPostings(7))
	mustHandle(t, b, deposit(8, "ws_1", 10))
	require.Equal(t, "8", table.stored())
	mustHandle(t, b, eventWithoutPostings(9))
	requirePosition(t, b, 9)
	require.NoError(t, b.Close())
	require.Error(t, b.Handle(t.Context(), shard, []persistence.Event{eventWithoutPostings(10)}))
	moves := table.recordedMoves()
	require.Contains(t, moves, "8|on")
	require.Equal(t, []string{"2|off", "9|off"}, []string{moves[0], moves[len(moves)-1]})
	for _, move := range moves {
		require.True(t, move == "8|on" || strings.HasSuffix(move, "|off"), moves)
	}
	requirePosition(t, other, 9)
	requireSound(t, url)
}

// Skips of all shards are one statement per interval.
func TestSkippedPositionsAreWrittenTogether(t *testing.T) {
	const writes, interval = 2, 100 * time.Millisecond
	url := databases.Database(t)
	watchPositions(t, url)
	b := openWriting(t, url, journal, interval)
	pass := func(position uint64) {
		var work sync.WaitGroup
		errs := make([]error, ident.Shards)
		for s := range errs {
			work.Go(func() {
				errs[s] = b.Handle(context.Background(), ident.Shard(s), []persistence.Event{eventWithoutPostings(position)})
			})
		}
		work.Wait()
		require.NoError(t, errors.Join(errs...))
	}
	statements := func() int { return len(query(t, url, `SELECT n FROM public.statements`)) }
	pass(1)
	require.Equal(t, ident.Shards, statements(), "the first of each at once")
	begun, position := time.Now(), uint64(1)
	require.Eventually(t, func() bool {
		position++
		pass(position)
		return statements() >= ident.Shards+writes
	}, bound, 10*time.Millisecond)
	// A write may fall into the middle of a round; the next one has the rest.
	require.Eventually(t, func() bool {
		return len(query(t, url, fmt.Sprint(`SELECT id FROM book.shard WHERE position = `, position))) == ident.Shards
	}, bound, 10*time.Millisecond)
	written := statements() - ident.Shards
	require.GreaterOrEqual(t, time.Since(begun), time.Duration(written)*interval, "%d writes", written)
}

// When another process has booked the next events, this process does not move the position back and
// continues from the new one.
func TestSkipsYieldToAnotherProcess(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	one, other := open(t, url, journal), open(t, url, journal)
	mustHandle(t, one, eventWithoutPostings(1))
	table.blockMoves()
	mustHandle(t, one, eventWithoutPostings(2))
	table.awaitBlocked()
	// The write of this process finds that the other one has moved past 2 to 4.
	_, err := table.conn.Exec(t.Context(), `UPDATE book.shard SET position = 4 WHERE id = 18`)
	require.NoError(t, err)
	table.release()
	mustHandle(t, other, deposit(5, "ws_1", 10))
	requireMoved(t, one, deposit(3, "ws_1", 10))
	requirePosition(t, one, 5)
	mustHandle(t, one, eventWithoutPostings(6))
	mustHandle(t, one, eventWithoutPostings(7))
	requireMoved(t, other, eventWithoutPostings(7)) // position 5 was read before
	require.NoError(t, one.Close())
	requirePosition(t, other, 7)
	require.NotContains(t, table.recordedMoves(), "2|off")
	requireSound(t, url)
}

// A booking moves over skips of another process, and over skips of its own that a crash of the
// server has undone: none of them has postings.
func TestBookingMovesOverAnySkippedPosition(t *testing.T) {
	for stored, moved := range map[uint64]bool{1: true, 2: false, 3: false, 4: false, 5: true} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			url := databases.Database(t)
			b := openWriting(t, url, journal, never)
			mustHandle(t, b, deposit(1, "ws_1", 1), deposit(2, "ws_1", 1))
			mustHandle(t, b, eventWithoutPostings(3))
			mustHandle(t, b, eventWithoutPostings(4))
			query(t, url, fmt.Sprintf(`UPDATE book.shard SET position = %d WHERE id = 18`, stored))
			shown := max(stored, 4)
			if stored < 2 {
				shown = stored
			}
			requireLag(t, b, 5, 5-shown)
			if moved {
				requireMoved(t, b, deposit(5, "ws_1", 1))
				requirePosition(t, b, stored)
				mustHandle(t, b, eventWithoutPostings(stored+1)) // the book continues from the stored position
				requirePosition(t, b, stored+1)
				return
			}
			requirePosition(t, b, 4)
			mustHandle(t, b, deposit(5, "ws_1", 1))
			requirePosition(t, open(t, url, journal), 5)
			requireSound(t, url)
		})
	}
}

// While skips cannot be written, Handle returns the error, the log has it once, and no skip is
// lost.
func TestFailedWriteOfSkipsIsReportedAndRetried(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	var mu sync.Mutex
	var reported []string
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack,
		SkippedInterval: skippedInterval, CloseTimeout: bound, Note: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err.Error())
		}})
	require.NoError(t, err)
	mustHandle(t, b, eventWithoutPostings(1))
	query(t, url, `INSERT INTO public.refusing VALUES (1)`)
	position := uint64(1)
	refused := func() bool {
		err = b.Handle(t.Context(), shard, []persistence.Event{eventWithoutPostings(position + 1)})
		if err == nil {
			position++
		}
		return err != nil
	}
	require.Eventually(t, refused, bound, 10*time.Millisecond)
	require.ErrorContains(t, err, "refused")
	requirePosition(t, b, position)
	require.Equal(t, "1", table.stored())
	require.Error(t, b.Handle(t.Context(), shard, []persistence.Event{deposit(position+1, "ws_1", 10)}))
	query(t, url, `DELETE FROM public.refusing`)
	table.awaitStored(fmt.Sprint(position))
	require.Eventually(t, func() bool { return !refused() }, bound, 10*time.Millisecond)
	mu.Lock()
	require.Len(t, reported, 1)
	mu.Unlock()

	query(t, url, `INSERT INTO public.refusing VALUES (1)`)
	_ = refused() // earlier skips may be written by now, or refused
	require.NoError(t, b.Close())
	last := len(reported) - 1
	require.Contains(t, []int{1, 2}, last, reported)
	for _, s := range reported[:last] {
		require.True(t, strings.HasPrefix(s, "book cannot write"), reported)
	}
	require.True(t, strings.HasPrefix(reported[last], "book closes without"), reported)
}

// A process from before a restore does not write its skips into the new book, and soon gets
// ErrRetired.
func TestRetiredBookWritesNoSkips(t *testing.T) {
	url := databases.Database(t)
	before := open(t, url, journal)
	mustHandle(t, before, eventWithoutPostings(1))
	after := open(t, url, persistence.Identity{Deployment: journal.Deployment, Store: ident.UUID{3}})
	requirePosition(t, after, 0)
	position := uint64(1)
	var err error
	require.Eventually(t, func() bool {
		position++
		err = before.Handle(t.Context(), shard, []persistence.Event{eventWithoutPostings(position)})
		return err != nil
	}, bound, 10*time.Millisecond)
	require.ErrorIs(t, err, book.ErrRetired)
	standing, err := before.Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{}, standing)
	requirePosition(t, after, 0)
	mustHandle(t, after, deposit(1, "ws_1", 30))
	requireSound(t, url)
}

// The skips of other shards do not wait for a locked shard. Its own are written once it is free,
// without another event.
func TestLockedShardIsWrittenLater(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	b := open(t, url, journal)
	pass := func(s ident.Shard, position uint64) {
		require.NoError(t, b.Handle(t.Context(), s, []persistence.Event{eventWithoutPostings(position)}))
	}
	others := func() []string {
		return query(t, url, fmt.Sprintf(`SELECT position FROM book.shard WHERE id IN (%d, %d)`, shard-1, shard+1))
	}
	for s := shard - 1; s <= shard+1; s++ {
		pass(s, 1)
	}
	_, err := table.conn.Exec(t.Context(), `BEGIN; SELECT FROM book.shard WHERE id = 18 FOR NO KEY UPDATE`)
	require.NoError(t, err)
	for s := shard - 1; s <= shard+1; s++ {
		pass(s, 2)
	}
	require.Eventually(t, func() bool { return slices.Equal(others(), []string{"2", "2"}) }, bound, 10*time.Millisecond)
	require.Equal(t, "1", table.stored())
	requirePosition(t, b, 2)
	table.release()
	table.awaitStored("2")
	pass(shard, 3)
	table.awaitStored("3")
}

// A shard that stays locked is reported while the book runs and when it closes.
func TestLockedShardIsReported(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	notes := make(chan string, 8)
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack,
		SkippedInterval: skippedInterval, CloseTimeout: shortClose, Note: func(err error) { notes <- err.Error() }})
	require.NoError(t, err)
	mustHandle(t, b, eventWithoutPostings(1))
	_, err = table.conn.Exec(t.Context(), `BEGIN; SELECT FROM book.shard WHERE id = 18 FOR NO KEY UPDATE`)
	require.NoError(t, err)
	mustHandle(t, b, eventWithoutPostings(2))
	require.Equal(t, "book cannot move the position of shard 18 beyond 0: locked by another session", <-notes)
	require.NoError(t, b.Close())
	require.Contains(t, <-notes, "book closes without its last skipped positions: locked by another session")
	table.release()
	require.Equal(t, "1", table.stored())
}

// Close cancels a blocked write, which then returns context.Canceled.
func TestCloseCancelsABlockedWrite(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	var reported error
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack,
		SkippedInterval: skippedInterval, CloseTimeout: shortClose, Note: func(err error) { reported = err }})
	require.NoError(t, err)
	mustHandle(t, b, eventWithoutPostings(1))
	table.blockMoves()
	mustHandle(t, b, eventWithoutPostings(2))
	table.awaitBlocked()
	require.NoError(t, b.Close())
	require.ErrorIs(t, reported, context.Canceled)
	table.release()
}

// Close waits neither for a last write nor for the end of a connection. After a blocked write it
// returns while the pool still has the connection, which pgx abandons 15 s later.
func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	server := pgtest.Own(t, "a book whose server is paused", false)
	if server == nil {
		return
	}
	url := server.URL("postgres")
	require.NoError(t, book.Migrate(t.Context(), url))
	for name, kept := range map[string]bool{"with something to write": true, "with nothing": false} {
		t.Run(name, func(t *testing.T) {
			b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, SkippedInterval: never, CloseTimeout: shortClose})
			require.NoError(t, err)
			at, err := b.Position(t.Context(), shard)
			require.NoError(t, err)
			mustHandle(t, b, eventWithoutPostings(at+1))
			if kept {
				mustHandle(t, b, eventWithoutPostings(at+2))
			}
			require.NoError(t, server.Pause())
			require.NoError(t, b.Close())
			waited := b.Disconnected()
			require.NoError(t, server.Resume())
			require.False(t, waited && kept)
			require.Eventually(t, b.Disconnected, bound, time.Millisecond)
		})
	}
}
