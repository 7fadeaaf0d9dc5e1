package pgjournal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// fences is how many commits of each kind are lost; each has a lane and a shard of its own.
const fences = 50

// oneEventBatch returns a batch of one event and the state after it.
func oneEventBatch(slot ident.Slot, version uint64) *persistence.Batch {
	document := json.RawMessage(fmt.Sprintf(`{"version":%d}`, version))
	return &persistence.Batch{
		Workspace: "ws_1", Slot: slot,
		Events: []persistence.Event{{ID: fmt.Sprintf("evt_%d_%d", slot, version), Kind: "card", Stream: "card_1",
			Version: version, Type: "card.frozen.v1", At: journaltest.Start, Payload: document}},
		Records: []persistence.Record{{Kind: "card", ID: "card_1", Version: version, Document: document}},
		Timers:  []persistence.Timer{{Kind: "card", Stream: "card_1", Key: "t", Due: journaltest.Start}},
	}
}

func appendOne(j persistence.Journal, slot ident.Slot, epoch, version uint64) error {
	outcomes, err := j.Append(context.Background(), slot.Shard(), epoch, journaltest.Start,
		[]*persistence.Batch{oneEventBatch(slot, version)})
	if err != nil {
		return err
	}
	return outcomes[0].Err
}

// requireTruth requires that batch 1 of the shard is stored whole or not at all, as the head says.
func requireTruth(t *testing.T, j persistence.Journal, slot ident.Slot, head uint64) {
	t.Helper()
	ctx := persistence.AsStored(context.Background())
	events, err := j.Events(ctx, slot.Shard(), 0, 10)
	require.NoError(t, err)
	require.Len(t, events, int(head))
	_, err = j.Record(ctx, slot, "card", "card_1")
	timers, timersErr := j.Timers(ctx, slot.Shard(), journaltest.Start, persistence.Timer{}, 10)
	require.NoError(t, timersErr)
	require.Len(t, timers, int(head))
	if head == 0 {
		require.ErrorIs(t, err, persistence.ErrNotFound)
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, head, j.Head(slot.Shard()).Position)
}

// awaitNoTransaction waits until no transaction of a journal is open in the database, so that none
// can commit any more.
func awaitNoTransaction(t *testing.T, database string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.Eventually(t, func() bool {
		var open int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`).Scan(&open)
		return err == nil && open == 0
	}, time.Minute, 10*time.Millisecond)
}

// After the outcome of a commit is lost and the epoch is raised, the stored state does not change
// again.
func TestRaiseFencesLostCommits(t *testing.T) {
	for name, c := range map[string]fenceCase{
		"the answer is lost": {
			fate:       func(c *pgtest.Commit, _, _ <-chan struct{}) { c.LoseAnswer() },
			want:       func(head uint64) bool { return head <= 1 },
			evictAfter: never,
		},
		"COMMIT comes while Raise waits": { // and ends no session
			fate:       func(c *pgtest.Commit, raising, _ <-chan struct{}) { c.CutThen(raising) },
			want:       func(head uint64) bool { return head == 1 },
			evictAfter: never,
		},
		"COMMIT comes after Raise": { // which has ended the blocking session
			fate:       func(c *pgtest.Commit, _, raised <-chan struct{}) { c.CutThen(raised) },
			want:       func(head uint64) bool { return head == 0 },
			evictAfter: 50 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) { runFence(t, c) })
	}
}

type fenceCase struct {
	fate       func(c *pgtest.Commit, raising, raised <-chan struct{})
	want       func(head uint64) bool
	evictAfter time.Duration // Options.EvictAfter of the Raise
}

func runFence(t *testing.T, c fenceCase) {
	database := databases.Database(t)
	p, through := pgtest.StartProxy(t, database)
	o := fastOptions(through)
	o.Lanes = fences
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	o = fastOptions(database)
	o.PoolSize = 2 * fences // Raise uses half of them
	o.Timeout, o.LockTimeout, o.EvictAfter = never, never, c.evictAfter
	next := open(t, o)
	t.Cleanup(func() { require.NoError(t, next.Close()) })

	shards := make([]ident.Shard, fences)
	for i := range shards {
		shards[i] = ident.Shard(i)
	}
	old, err := j.Raise(t.Context(), shards...)
	require.NoError(t, err)
	raising, raised := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(raised) })
	defer release()
	p.OnCommit(func(held *pgtest.Commit) { c.fate(held, raising, raised) })
	loseAllCommits(t, j, shards, old)
	p.OnCommit(nil)

	heads := raiseAll(t, next, database, shards, raising)
	release()
	awaitNoTransaction(t, database)
	for i, shard := range shards {
		slot := ident.Slot(shard) << 4
		require.True(t, c.want(heads[i].Position), "head %d", heads[i].Position)
		requireTruth(t, next, slot, heads[i].Position)
		require.ErrorIs(t, appendOne(j, slot, old[i].Epoch, 1), persistence.ErrFenced)
		require.NoError(t, appendOne(next, slot, heads[i].Epoch, heads[i].Position+1))
	}
}

// loseAllCommits appends to every shard at once, through a proxy that loses every outcome.
func loseAllCommits(t *testing.T, j *pgjournal.Journal, shards []ident.Shard, heads []persistence.Head) {
	t.Helper()
	var work sync.WaitGroup
	errs := make([]error, len(shards))
	for i, shard := range shards {
		work.Go(func() { errs[i] = appendOne(j, ident.Slot(shard)<<4, heads[i].Epoch, 1) })
	}
	work.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, persistence.ErrAmbiguous)
		require.NotErrorIs(t, err, persistence.ErrUnavailable)
	}
}

// raiseAll raises every shard by a Raise of its own, and signals when one waits or all are done.
func raiseAll(t *testing.T, j *pgjournal.Journal, database string, shards []ident.Shard,
	raising chan struct{}) []persistence.Head {
	t.Helper()
	var work sync.WaitGroup
	heads, errs := make([]persistence.Head, len(shards)), make([]error, len(shards))
	for i, shard := range shards {
		work.Go(func() {
			raised, err := j.Raise(context.Background(), shard)
			if errs[i] = err; err == nil {
				heads[i] = raised[0]
			}
		})
	}
	awaitWaiting(t, database, raising)
	work.Wait()
	require.NoError(t, errors.Join(errs...))
	return heads
}

// awaitWaiting closes raising when a session waits for a lock, or all Raises are done.
func awaitWaiting(t *testing.T, database string, raising chan struct{}) {
	t.Helper()
	defer close(raising)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.Eventually(t, func() bool {
		var waiting, open int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(xact_start)
			FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&waiting, &open)
		return err == nil && (waiting > 0 || open == 0)
	}, time.Minute, time.Millisecond)
}
