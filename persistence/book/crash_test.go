package book_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

const bound = time.Minute

// The server session of a Handle ends after it has moved the position and before it writes
// postings.
func TestACrashBetweenPositionAndPostings(t *testing.T) {
	url := databases.Database(t)
	b := open(t, url, journal)
	mustHandle(t, b, deposit(1, "ws_1", 100))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	execute := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	execute(`BEGIN`)
	execute(`LOCK TABLE book.posting IN SHARE MODE`)
	handled := make(chan error, 1)
	go func() { handled <- b.Handle(context.Background(), shard, []persistence.Event{deposit(2, "ws_1", 5)}) }()
	require.Eventually(t, func() bool {
		ended, err := queryLines(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'purser book' AND wait_event_type = 'Lock'`)
		return err == nil && len(ended) == 1
	}, bound, 10*time.Millisecond)
	require.Error(t, <-handled)
	execute(`ROLLBACK`)
	requirePosition(t, b, 1)
	requireSound(t, url)
	mustHandle(t, b, deposit(2, "ws_1", 5))
	require.Equal(t, map[string]money.Minor{"usd USD": 105, "bank USD": -105}, balances(t, b, "ws_1"))
	requireSound(t, url)
}

// The server commits and the answer is lost. The repeated delivery is not booked again.
func TestALostAnswerToCommit(t *testing.T) {
	const times = 20
	database := databases.Database(t)
	direct := open(t, database, journal)
	p, through := pgtest.StartProxy(t, database)
	b := open(t, through, journal)
	require.NoError(t, b.Prepare(t.Context()))
	var lost atomic.Int64
	for n := range uint64(times) {
		event := deposit(n+1, "ws_1", 10)
		p.OnCommit(func(c *pgtest.Commit) {
			lost.Add(1)
			c.LoseAnswer()
		})
		// A transaction may also fail before COMMIT, on a machine that stalls longer than the
		// server waits for a client.
		giveUp := time.Now().Add(bound)
		for at, err := n, error(nil); err != nil || at == n; at, err = direct.Position(t.Context(), shard) {
			require.True(t, time.Now().Before(giveUp), "event %d is not booked, though its COMMIT went through", n+1)
			require.Error(t, b.Handle(t.Context(), shard, []persistence.Event{event}))
		}
		p.OnCommit(nil)
		require.ErrorIs(t, b.Handle(t.Context(), shard, []persistence.Event{event}), consumer.ErrMoved)
	}
	require.GreaterOrEqual(t, lost.Load(), int64(times))
	require.Equal(t, map[string]money.Minor{"usd USD": 200, "bank USD": -200}, balances(t, b, "ws_1"))
	requireSound(t, database)
}

// A book that starts while its server is down, and follows a journal through another stop, ends
// complete.
func TestBookFollowsThroughServerStops(t *testing.T) {
	server := pgtest.Own(t, "the book while its server is away", false)
	if server == nil {
		return
	}
	database := server.URL("postgres")
	j, err := pgjournal.Open(t.Context(), pgjournal.Options{URL: database, Migrate: true, AllowUnsafe: true, Slack: 4})
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, server.Stop())
	b := open(t, database, j.Identity())
	subscription, err := consumer.Subscribe(consumer.Options{Journal: j, RetryMin: time.Millisecond,
		RetryMax: 20 * time.Millisecond})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- subscription.Run(ctx, b) }()
	const each = 30
	for round := range 2 {
		require.NoError(t, server.Restart())
		require.Eventually(t, func() bool { return deposits(j, round*each, each) == nil }, bound, 10*time.Millisecond)
		if round == 0 {
			require.NoError(t, server.Stop())
		}
	}
	require.Eventually(t, func() bool {
		lag, err := b.Lag(t.Context(), func(s ident.Shard) uint64 { return j.Head(s).Position })
		return err == nil && lag == 0
	}, bound, 10*time.Millisecond)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, map[string]money.Minor{"usd USD": 2 * each, "bank USD": -2 * each}, balances(t, b, "ws_1"))
	requireSound(t, database)
}

// deposits appends n events that deposit a cent each, after the given position.
func deposits(j persistence.Journal, after, n int) error {
	heads, err := j.Raise(context.Background(), shard)
	if err != nil {
		return err
	}
	batch := &persistence.Batch{Workspace: "ws_1", Slot: ident.Slot(shard) << 4}
	for i := heads[0].Position; i < uint64(after+n); i++ {
		e := deposit(i+1, "ws_1", 1)
		e.Version, e.Position = i+1, 0
		batch.Events = append(batch.Events, e)
	}
	if len(batch.Events) == 0 {
		return nil
	}
	outcomes, err := j.Append(context.Background(), shard, heads[0].Epoch, start, []*persistence.Batch{batch})
	if err != nil {
		return err
	}
	return outcomes[0].Err
}
