package audit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// slowStores advances a clock by a fixed time for every read.
type slowStores struct {
	Journal
	persistence.Snapshot
	AuthorizerSnapshot
	now   time.Time
	takes time.Duration
}

func (s *slowStores) Events(context.Context, ident.Shard, uint64, int) ([]persistence.Event, error) {
	s.now = s.now.Add(s.takes)
	return nil, nil
}

func (s *slowStores) Records(context.Context, ident.Shard, string, string, int) ([]persistence.Record, error) {
	s.now = s.now.Add(s.takes)
	return nil, nil
}

func (s *slowStores) WalkHolds(visit func(Hold) error) error {
	for range 10 * visitsPerRun {
		s.now = s.now.Add(s.takes / visitsPerRun)
		if err := visit(Hold{}); err != nil {
			return err
		}
	}
	return nil
}

// slowJournal and slowAuthorizer take snapshots of slow stores.
type (
	slowJournal    struct{ *slowStores }
	slowAuthorizer struct{ *slowStores }
)

func (j slowJournal) Snapshot(context.Context) (persistence.Snapshot, error) {
	return j.slowStores, nil
}
func (a slowAuthorizer) Snapshot() AuthorizerSnapshot { return a.slowStores }

func (s *slowStores) Close() error { return nil }

// An audit beside a server pauses three times as long as it reads, and no pause is longer than the
// longest.
func TestAnAuditBesideSwipesPauses(t *testing.T) {
	f := func(takes, want time.Duration) {
		t.Helper()
		stores := &slowStores{now: time.Unix(0, 0), takes: takes}
		var paused time.Duration
		p := &pacer{ctx: t.Context(), clock: func() time.Time { return stores.now }, began: stores.now,
			sleep: func(_ context.Context, d time.Duration) error {
				paused += d
				stores.now = stores.now.Add(d)
				return nil
			}}
		s := Sources{Journal: slowJournal{stores}, Authorizer: slowAuthorizer{stores}}.withPauses(p)
		journal, err := s.Journal.Snapshot(t.Context())
		require.NoError(t, err)
		for range 10 {
			_, err := journal.Events(t.Context(), 0, 0, eventsPerRead)
			require.NoError(t, err)
		}
		for range 10 {
			_, err := journal.Records(t.Context(), 0, "card", "", recordsPerRead)
			require.NoError(t, err)
		}
		require.NoError(t, s.Authorizer.Snapshot().WalkHolds(func(Hold) error { return nil }))
		require.Equal(t, want, paused)
	}
	f(256*10*time.Microsecond, 30*pauseShare*256*10*time.Microsecond)
	f(time.Second, 29*longestPause) // the first read has no work before it
	f(time.Microsecond, 0)
}

// A cancelled context ends a pause at once.
func TestACancelledAuditDoesNotFinishItsPause(t *testing.T) {
	stores := &slowStores{now: time.Unix(0, 0), takes: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := Sources{Journal: slowJournal{stores}, Authorizer: slowAuthorizer{stores}}.withPauses(&pacer{ctx: ctx,
		clock: func() time.Time { return stores.now },
		began: stores.now, sleep: sleep})
	require.ErrorIs(t, s.Authorizer.Snapshot().WalkHolds(func(Hold) error { return nil }), context.Canceled)
}
