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
	"purser/persistence/ident"
	"purser/persistence/pgjournal/pgtest"
	"purser/persistence/postgres"
)

// positions is the table of positions, seen from beside the book.
type positions struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

// watchPositions notes every move with its synchronous_commit, and every statement that moves; while refusing has a row it is
// refused.
func watchPositions(t *testing.T, url string) *positions {
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
	return &positions{t, url, conn}
}

// moves are those of the shard, as position|synced.
func (p *positions) moves() []string {
	return query(p.t, p.url, `SELECT position, synced FROM public.moves WHERE shard = 18 ORDER BY n`)
}

// stored is the position that is in the table.
func (p *positions) stored() string {
	return query(p.t, p.url, `SELECT position FROM book.shard WHERE id = 18`)[0]
}

func (p *positions) await(position string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.stored() == position }, bound, 10*time.Millisecond)
}

// hold lets nobody move a position until release.
func (p *positions) hold() {
	_, err := p.conn.Exec(p.t.Context(), `BEGIN; LOCK TABLE book.shard IN EXCLUSIVE MODE`)
	require.NoError(p.t, err)
}

// awaitHeld waits until a statement stands before hold.
func (p *positions) awaitHeld() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		return len(query(p.t, p.url, `SELECT 1 FROM pg_locks WHERE relation = 'book.shard'::regclass AND NOT granted`)) > 0
	}, bound, time.Millisecond)
}

func (p *positions) release() {
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
	require.ErrorIs(t, b.Handle(t.Context(), shard, events), persistence.ErrMoved)
}

// The first page of a shard that books nothing moves the position at once, later ones do behind, and a booking goes over them:
// the moves of passes wait for no sync, and a wrong place is refused all the same.
func TestWhatBooksNothingIsPassedWithoutASync(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	b, other := open(t, url, journal), open(t, url, journal)
	handle(t, b, frozen(1), frozen(2))
	table.hold()
	handle(t, b, frozen(3))
	handle(t, b, frozen(4), frozen(5))
	for _, wrong := range []uint64{1, 3, 5, 7} {
		requireMoved(t, b, frozen(wrong))
		requireMoved(t, b, deposit(wrong, "ws_1", 10))
	}
	requirePosition(t, b, 5)
	requireLag(t, b, 6, 1)
	standing, err := b.Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{Position: 5}, standing)
	requirePosition(t, other, 2) // a moment late
	requireLag(t, other, 6, 4)
	table.awaitHeld()
	handle(t, b, frozen(6))
	table.release()
	table.await("6")
	handle(t, b, frozen(7))
	handle(t, b, deposit(8, "ws_1", 10))
	require.Equal(t, "8", table.stored())
	handle(t, b, frozen(9))
	requirePosition(t, b, 9)
	require.NoError(t, b.Close())
	require.Error(t, b.Handle(t.Context(), shard, []persistence.Event{frozen(10)}))
	moves := table.moves()
	require.Contains(t, moves, "8|on")
	require.Equal(t, []string{"2|off", "9|off"}, []string{moves[0], moves[len(moves)-1]})
	for _, move := range moves {
		require.True(t, move == "8|on" || strings.HasSuffix(move, "|off"), moves)
	}
	requirePosition(t, other, 9)
	requireSound(t, url)
}

// Passes of all shards are one statement, once a second.
func TestPassesAreWrittenTogether(t *testing.T) {
	const writes = 2
	url := databases.Database(t)
	watchPositions(t, url)
	b := open(t, url, journal)
	pass := func(position uint64) {
		var work sync.WaitGroup
		errs := make([]error, ident.Shards)
		for s := range errs {
			work.Go(func() {
				errs[s] = b.Handle(context.Background(), ident.Shard(s), []persistence.Event{frozen(position)})
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
	// A write may take half of a pass; the next one takes the rest.
	require.Eventually(t, func() bool {
		return len(query(t, url, fmt.Sprint(`SELECT id FROM book.shard WHERE position = `, position))) == ident.Shards
	}, bound, 10*time.Millisecond)
	written := statements() - ident.Shards
	require.GreaterOrEqual(t, time.Since(begun), time.Duration(written)*postgres.WriteBehindInterval, "%d writes", written)
}

// Another process that has booked what comes next is believed: what this one has passed is not put back, and it goes on from
// there.
func TestAnotherProcessHasMovedOn(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	one, other := open(t, url, journal), open(t, url, journal)
	handle(t, one, frozen(1))
	table.hold()
	handle(t, one, frozen(2))
	table.awaitHeld()
	// One writes what it has passed, and finds that other has gone by, over 2 to 4.
	_, err := table.conn.Exec(t.Context(), `UPDATE book.shard SET position = 4 WHERE id = 18`)
	require.NoError(t, err)
	table.release()
	handle(t, other, deposit(5, "ws_1", 10))
	requireMoved(t, one, deposit(3, "ws_1", 10))
	requirePosition(t, one, 5)
	handle(t, one, frozen(6))
	handle(t, one, frozen(7))
	requireMoved(t, other, frozen(7)) // it has heard of 5
	require.NoError(t, one.Close())
	requirePosition(t, other, 7)
	require.NotContains(t, table.moves(), "2|off")
	requireSound(t, url)
}

// What another process has passed, or a crash of the server has taken away of what this one has, is no hindrance: it books
// nothing.
func TestABookingGoesOverWhateverWasPassed(t *testing.T) {
	for stored, moved := range map[uint64]bool{1: true, 2: false, 3: false, 4: false, 5: true} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			url := databases.Database(t)
			b := open(t, url, journal)
			handle(t, b, deposit(1, "ws_1", 1), deposit(2, "ws_1", 1))
			handle(t, b, frozen(3))
			handle(t, b, frozen(4))
			query(t, url, fmt.Sprintf(`UPDATE book.shard SET position = %d WHERE id = 18`, stored))
			shown := max(stored, 4)
			if stored < 2 {
				shown = stored
			}
			requireLag(t, b, 5, 5-shown)
			if moved {
				requireMoved(t, b, deposit(5, "ws_1", 1))
				requirePosition(t, b, stored)
				handle(t, b, frozen(stored+1)) // it goes on from there
				requirePosition(t, b, stored+1)
				return
			}
			requirePosition(t, b, 4)
			handle(t, b, deposit(5, "ws_1", 1))
			requirePosition(t, open(t, url, journal), 5)
			requireSound(t, url)
		})
	}
}

// TestPassesThatCannotBeWritten: who hands over more hears of it, the log once, and nothing is forgotten.
func TestPassesThatCannotBeWritten(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	var mu sync.Mutex
	var said []string
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack, Note: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, err.Error())
	}})
	require.NoError(t, err)
	handle(t, b, frozen(1))
	query(t, url, `INSERT INTO public.refusing VALUES (1)`)
	position := uint64(1)
	refused := func() bool {
		err = b.Handle(t.Context(), shard, []persistence.Event{frozen(position + 1)})
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
	table.await(fmt.Sprint(position))
	require.Eventually(t, func() bool { return !refused() }, bound, 10*time.Millisecond)
	mu.Lock()
	require.Len(t, said, 1)
	mu.Unlock()

	query(t, url, `INSERT INTO public.refusing VALUES (1)`)
	_ = refused() // what was kept before has been written meanwhile, or refused
	require.NoError(t, b.Close())
	last := len(said) - 1
	require.Contains(t, []int{1, 2}, last, said)
	for _, s := range said[:last] {
		require.True(t, strings.HasPrefix(s, "book cannot write"), said)
	}
	require.True(t, strings.HasPrefix(said[last], "book closes without"), said)
}

// TestABookThatWasLeftPassesNoMore: what a process of before a restore has passed is not written into the book of after it, and
// it hears of that within a moment.
func TestABookThatWasLeftPassesNoMore(t *testing.T) {
	url := databases.Database(t)
	before := open(t, url, journal)
	handle(t, before, frozen(1))
	after := open(t, url, persistence.Identity{Deployment: journal.Deployment, Store: ident.UUID{3}})
	requirePosition(t, after, 0)
	position := uint64(1)
	var err error
	require.Eventually(t, func() bool {
		position++
		err = before.Handle(t.Context(), shard, []persistence.Event{frozen(position)})
		return err != nil
	}, bound, 10*time.Millisecond)
	require.ErrorIs(t, err, book.ErrRetired)
	standing, err := before.Standing(t.Context(), shard)
	require.NoError(t, err)
	require.Equal(t, book.Standing{}, standing)
	requirePosition(t, after, 0)
	handle(t, after, deposit(1, "ws_1", 30))
	requireSound(t, url)
}

// TestAShardThatIsHeldIsPassedLater: the passes of other shards do not wait for whoever holds one, and those of that one are
// written once it is free, without another event.
func TestAShardThatIsHeldIsPassedLater(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	b := open(t, url, journal)
	pass := func(s ident.Shard, position uint64) {
		require.NoError(t, b.Handle(t.Context(), s, []persistence.Event{frozen(position)}))
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
	table.await("2")
	pass(shard, 3)
	table.await("3")
}

// TestAShardThatStaysHeldIsSaid, while the book runs and when it closes; nothing else notices it.
func TestAShardThatStaysHeldIsSaid(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	notes := make(chan string, 8)
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack,
		Note: func(err error) { notes <- err.Error() }})
	require.NoError(t, err)
	handle(t, b, frozen(1))
	_, err = table.conn.Exec(t.Context(), `BEGIN; SELECT FROM book.shard WHERE id = 18 FOR NO KEY UPDATE`)
	require.NoError(t, err)
	handle(t, b, frozen(2))
	require.Equal(t, "position of shard 18 stays at 0 or after: held by another session", <-notes)
	require.NoError(t, b.Close())
	require.Contains(t, <-notes, "book closes without the last of what it has passed over: held by another session")
	table.release()
	require.Equal(t, "1", table.stored())
}

// TestCloseCutsAWrite that stands, by which it is told from one that ends by itself.
func TestCloseCutsAWrite(t *testing.T) {
	url := databases.Database(t)
	table := watchPositions(t, url)
	var said error
	b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal, Slack: slack, Note: func(err error) { said = err }})
	require.NoError(t, err)
	handle(t, b, frozen(1))
	table.hold()
	handle(t, b, frozen(2))
	table.awaitHeld()
	require.NoError(t, b.Close())
	require.ErrorIs(t, said, context.Canceled)
	table.release()
}

// TestCloseDoesNotWaitForAFrozenServer: neither for a last write, nor for a connection's end.
func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	const moment = 8 * time.Second // the client alone would take fifteen to give up a connection
	server := pgtest.Own(t, "a book whose server stands still", false)
	if server == nil {
		return
	}
	url := server.URL("postgres")
	require.NoError(t, book.Migrate(t.Context(), url))
	for name, kept := range map[string]bool{"with something to write": true, "with nothing": false} {
		t.Run(name, func(t *testing.T) {
			b, err := book.Open(t.Context(), book.Options{URL: url, Identity: journal})
			require.NoError(t, err)
			at, err := b.Position(t.Context(), shard)
			require.NoError(t, err)
			handle(t, b, frozen(at+1))
			if kept {
				handle(t, b, frozen(at+2))
			}
			require.NoError(t, server.Pause())
			begun := time.Now()
			require.NoError(t, b.Close())
			took := time.Since(begun)
			require.NoError(t, server.Resume())
			require.Less(t, took, moment)
		})
	}
}
