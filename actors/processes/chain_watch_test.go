package processes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/checkout"
	"purser/persistence"
	"purser/persistence/ident"
)

// watchFixture makes watches of sessions with small limits: 6 sessions, and 2 places that each
// workspace keeps.
func watchFixture(t *testing.T) (w *chainWatch, session func(workspace string, n int) checkout.Watch) {
	t.Helper()
	w = newChainWatch(nil, &Config{})
	w.max, w.kept = 6, 2
	return w, func(workspace string, n int) checkout.Watch {
		random := strings.NewReader(fmt.Sprintf("%-8.8s", workspace))
		u, err := ident.New(1, time.Unix(1_700_000_000+int64(n), 0), random)
		require.NoError(t, err)
		id := u.Format(ident.Checkout)
		return checkout.Watch{Session: id, Workspace: workspace, Pairs: []checkout.Pair{
			{Chain: "base", Address: "0x" + id}, {Chain: "polygon", Address: "0x" + id}}}
	}
}

// A workspace that fills all places leaves another one its own. Any workspace can take a place that
// is free again.
func TestEachWorkspaceKeepsPlacesOfWatchedSessions(t *testing.T) {
	w, session := watchFixture(t)
	for n := range 6 {
		require.NoError(t, w.watchChanged(session("many", n)))
	}
	require.ErrorIs(t, w.watchChanged(session("many", 7)), errTooManyWatched)
	require.NoError(t, w.watchChanged(session("many", 5)), "a session that is watched may change")
	for n := range 2 {
		require.NoError(t, w.watchChanged(session("few", n)))
	}
	require.ErrorIs(t, w.watchChanged(session("few", 2)), errTooManyWatched)
	require.Len(t, w.Addresses("base"), 8)
	for n := range 3 {
		gone := session("many", n).Session
		w.remove(gone)
		w.remove(gone) // a removal may be repeated
	}
	require.Len(t, w.Addresses("polygon"), 5)
	require.NoError(t, w.watchChanged(session("many", 7)))
}

// A start watches every stored session: a full pool must not keep all chains from being watched.
func TestStartWatchesMoreSessionsThanThereArePlaces(t *testing.T) {
	w, session := watchFixture(t)
	for n := range 9 {
		w.watchStored(session("many", n), nil)
	}
	require.Len(t, w.Addresses("base"), 9)
	require.ErrorIs(t, w.watchChanged(session("many", 9)), errTooManyWatched)
	require.NoError(t, w.watchChanged(session("few", 0)))
}

// slowRecords is a journal without records that answers a read only once many shards are being read.
type slowRecords struct {
	persistence.Journal
	reads atomic.Int64
	many  chan struct{}
}

func (j *slowRecords) Records(ctx context.Context, _ ident.Shard, _, _ string, _ int) ([]persistence.Record, error) {
	if j.reads.Add(1) == watchReaders {
		close(j.many)
	}
	select {
	case <-j.many:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A start does not read one shard after the other: with many open links on a slow database no
// payment would be seen for minutes.
func TestStartReadsTheWatchedSessionsOfManyShardsAtOnce(t *testing.T) {
	w, _ := watchFixture(t)
	journal := &slowRecords{many: make(chan struct{})}
	w.journal, w.runtime = journal, quietRuntime{}
	require.True(t, w.readAll(t.Context()))
	require.EqualValues(t, ident.Shards, journal.reads.Load())
}

// quietRuntime takes complaints and nothing else.
type quietRuntime struct{ Runtime }

func (quietRuntime) Complain(string, error, ...any) {}

// Every further question of a node prolongs the step.
func TestStepOfManyAddressesMayTakeLonger(t *testing.T) {
	w, _ := watchFixture(t)
	require.Equal(t, watchTimeout, w.stepTimeout("base"))
	w.addresses["base"] = map[string]watchedAddress{}
	for n := range 3 * watchTogether {
		w.addresses["base"][fmt.Sprint(n)] = watchedAddress{}
	}
	require.Equal(t, watchTimeout+3*watchLonger, w.stepTimeout("base"))
	require.Equal(t, watchTimeout, w.stepTimeout("polygon"), "of that chain")
}
