package pgjournal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
)

// lookups is a journal of one reader, which can be held up, and which counts its statements.
type lookups struct {
	t     *testing.T
	j     *pgjournal.Journal
	conn  *pgx.Conn
	slots []ident.Slot // each has a record of its own, item "a"
}

func newLookups(t *testing.T) *lookups {
	url := databases.Database(t)
	l := &lookups{t: t, slots: []ident.Slot{0x010, 0x020, 0x030}}
	o := fast(url)
	o.Lanes = 1
	l.j = open(t, o) // before anything is written: only a lookup tells it of the heads
	t.Cleanup(func() { require.NoError(t, l.j.Close()) })
	writer := open(t, fast(url))
	for _, slot := range l.slots {
		heads, err := writer.Raise(t.Context(), slot.Shard())
		require.NoError(t, err)
		item := persistence.Record{Kind: "item", ID: "a", Document: json.RawMessage(fmt.Sprint(slot))}
		b := &persistence.Batch{Workspace: "ws_1", Slot: slot, Records: []persistence.Record{item},
			Events: []persistence.Event{{ID: "evt_1", Kind: "card", Stream: "a", Version: 1, At: journaltest.Start}}}
		outcomes, err := writer.Append(t.Context(), slot.Shard(), heads[0].Epoch, journaltest.Start, []*persistence.Batch{b})
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
	}
	require.NoError(t, writer.Close())
	var err error
	l.conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.conn.Close(context.Background())) })
	l.exec(`CREATE SEQUENCE asked; ALTER TABLE journal_record RENAME TO record_table;
CREATE VIEW journal_record AS WITH once AS MATERIALIZED (SELECT nextval('asked')) SELECT r.* FROM record_table r, once`)
	return l
}

func (l *lookups) exec(sql string) {
	l.t.Helper()
	_, err := l.conn.Exec(context.Background(), sql)
	require.NoError(l.t, err)
}

// statements is how many have read records.
func (l *lookups) statements() (n int) {
	l.t.Helper()
	require.NoError(l.t, l.conn.QueryRow(context.Background(), `SELECT last_value FROM asked`).Scan(&n))
	return n
}

// hold keeps the reader waiting for the server with a lookup, until release has returned.
func (l *lookups) hold() (release func()) {
	l.t.Helper()
	l.exec(`BEGIN; LOCK TABLE record_table IN ACCESS EXCLUSIVE MODE`)
	var first sync.WaitGroup
	first.Go(func() { l.requireItem(l.slots[0]) })
	require.Eventually(l.t, func() bool {
		var waiting int
		err := l.conn.QueryRow(context.Background(),
			`SELECT count(*) FROM pg_locks WHERE relation = 'record_table'::regclass AND NOT granted`).Scan(&waiting)
		return err == nil && waiting > 0
	}, bound, time.Millisecond)
	return func() {
		l.exec(`COMMIT`)
		first.Wait()
	}
}

// await waits until so many lookups wait for the reader.
func (l *lookups) await(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.j.Lookups() == n }, bound, time.Millisecond)
}

// held has records asked for while the reader is held up, and returns when all have their answers.
func (l *lookups) held(asks ...func()) {
	l.t.Helper()
	release := l.hold()
	var work sync.WaitGroup
	for _, ask := range asks {
		work.Go(ask)
	}
	l.await(len(asks))
	release()
	work.Wait()
}

func (l *lookups) requireItem(slot ident.Slot) {
	record, err := l.j.Record(context.Background(), slot, "item", "a")
	assert.NoError(l.t, err)
	assert.Equal(l.t, fmt.Sprint(slot), string(record.Document))
	assert.Equal(l.t, persistence.Record{Kind: "item", Workspace: "ws_1", ID: "a", Slot: slot, Position: 1, Ordinal: 1,
		Document: record.Document}, record)
	assert.EqualValues(l.t, 1, l.j.Head(slot.Shard()).Position)
}

// TestLookupsShareARoundTrip: what is asked for while the reader is under way is read by one statement, each for who asked.
func TestLookupsShareARoundTrip(t *testing.T) {
	const others = 50
	l := newLookups(t)
	var more []func()
	for n := range others {
		slot := l.slots[n%len(l.slots)]
		more = append(more, func() { l.requireItem(slot) }, func() {
			_, err := l.j.Record(context.Background(), slot, "item", fmt.Sprint("none ", n))
			assert.ErrorIs(t, err, persistence.ErrNotFound)
		})
	}
	before := l.statements()
	l.held(more...)
	require.LessOrEqual(t, l.statements()-before, 2)
}

// TestABadLookupFailsAlone: what the server can not be asked for spoils nobody else's answer.
func TestABadLookupFailsAlone(t *testing.T) {
	l := newLookups(t)
	good := func() { l.requireItem(l.slots[1]) }
	fails := func(id string, want error) func() {
		return func() {
			_, err := l.j.Record(context.Background(), l.slots[1], "item", id)
			assert.ErrorIs(t, err, want)
		}
	}
	l.held(good, fails("none", persistence.ErrNotFound), fails("a\x00", persistence.ErrUnavailable),
		fails("none", persistence.ErrNotFound), good)
}

// TestALookupEndsWithItsCaller, though the server does not answer.
func TestALookupEndsWithItsCaller(t *testing.T) {
	l := newLookups(t)
	release := l.hold()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := l.j.Record(ctx, l.slots[1], "item", "a")
		ended <- err
	}()
	l.await(1)
	cancel()
	err := within(t, func() error { return <-ended })
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}
