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

// lookupFixture is a journal with one reader, which can be blocked, and a count of its statements.
type lookupFixture struct {
	t     *testing.T
	j     *pgjournal.Journal
	conn  *pgx.Conn
	slots []ident.Slot // each has a record "a" of kind item
}

func newLookupFixture(t *testing.T) *lookupFixture {
	url := databases.Database(t)
	l := &lookupFixture{t: t, slots: []ident.Slot{0x010, 0x020, 0x030}}
	o := fastOptions(url)
	o.Lanes = 1
	l.j = open(t, o) // opened before the writes, so that it learns of heads only by lookups
	t.Cleanup(func() { require.NoError(t, l.j.Close()) })
	writer := open(t, fastOptions(url))
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

func (l *lookupFixture) exec(sql string) {
	l.t.Helper()
	_, err := l.conn.Exec(context.Background(), sql)
	require.NoError(l.t, err)
}

// statements returns how many statements have read records.
func (l *lookupFixture) statements() (n int) {
	l.t.Helper()
	require.NoError(l.t, l.conn.QueryRow(context.Background(), `SELECT last_value FROM asked`).Scan(&n))
	return n
}

// blockReader blocks the reader in a lookup until release has returned.
func (l *lookupFixture) blockReader() (release func()) {
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

// awaitQueued waits until n lookups are queued.
func (l *lookupFixture) awaitQueued(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.j.Lookups() == n }, bound, time.Millisecond)
}

// whileBlocked starts lookups while the reader is blocked, and returns when all have their answers.
func (l *lookupFixture) whileBlocked(asks ...func()) {
	l.t.Helper()
	release := l.blockReader()
	var work sync.WaitGroup
	for _, ask := range asks {
		work.Go(ask)
	}
	l.awaitQueued(len(asks))
	release()
	work.Wait()
}

func (l *lookupFixture) requireItem(slot ident.Slot) {
	record, err := l.j.Record(context.Background(), slot, "item", "a")
	assert.NoError(l.t, err)
	assert.Equal(l.t, fmt.Sprint(slot), string(record.Document))
	assert.Equal(l.t, persistence.Record{Kind: "item", Workspace: "ws_1", ID: "a", Slot: slot, Position: 1, Ordinal: 1,
		Document: record.Document}, record)
	assert.EqualValues(l.t, 1, l.j.Head(slot.Shard()).Position)
}

// Lookups that arrive while the reader is busy are read by one statement, and each gets its own
// answer.
func TestLookupsShareARoundTrip(t *testing.T) {
	const others = 50
	l := newLookupFixture(t)
	var more []func()
	for n := range others {
		slot := l.slots[n%len(l.slots)]
		more = append(more, func() { l.requireItem(slot) }, func() {
			_, err := l.j.Record(context.Background(), slot, "item", fmt.Sprint("none ", n))
			assert.ErrorIs(t, err, persistence.ErrNotFound)
		})
	}
	before := l.statements()
	l.whileBlocked(more...)
	require.LessOrEqual(t, l.statements()-before, 2)
}

// A lookup with a malformed id fails without an effect on the others of its round trip.
func TestMalformedLookupFailsAlone(t *testing.T) {
	l := newLookupFixture(t)
	good := func() { l.requireItem(l.slots[1]) }
	fails := func(id string, want error) func() {
		return func() {
			_, err := l.j.Record(context.Background(), l.slots[1], "item", id)
			assert.ErrorIs(t, err, want)
		}
	}
	l.whileBlocked(good, fails("none", persistence.ErrNotFound), fails("a\x00", persistence.ErrUnavailable),
		fails("none", persistence.ErrNotFound), good)
}

// A lookup ends with its context although the server does not answer.
func TestLookupEndsWithItsContext(t *testing.T) {
	l := newLookupFixture(t)
	release := l.blockReader()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := l.j.Record(ctx, l.slots[1], "item", "a")
		ended <- err
	}()
	l.awaitQueued(1)
	cancel()
	err := withinBound(t, func() error { return <-ended })
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
}
