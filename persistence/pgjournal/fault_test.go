package pgjournal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// bound is far longer than any call may take.
const bound = 3 * time.Minute

// withinBound returns the result of f, or an error when f does not end.
func withinBound(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(bound):
		return errors.New("a call does not end")
	}
}

// stepUntilError runs the workload and returns its first error. It calls stop after some steps, or
// after an earlier error.
func stepUntilError(load *journaltest.Load, stop func()) error {
	const steps = 20
	for n := 0; ; n++ {
		if n == steps {
			go stop()
		}
		if err := load.Step(); err != nil {
			if n < steps {
				go stop()
			}
			return err
		}
	}
}

// retryUnavailable repeats f while the journal is unavailable, which may outlast the outage of its
// server.
func retryUnavailable(t *testing.T, f func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = f()
		return !errors.Is(err, persistence.ErrUnavailable) && !errors.Is(err, persistence.ErrAmbiguous)
	}, bound, 10*time.Millisecond)
	require.NoError(t, err)
}

// The server fails under load in every way and returns. Calls end with an error of the contract, no
// acknowledged commit is lost, and the same journal continues.
func TestJournalSurvivesServerFailures(t *testing.T) {
	server := pgtest.Own(t, "the journal while its server fails", true)
	if server == nil {
		return
	}
	t.Parallel() // it mostly waits
	// Calls wait for a paused server. A call that a slow machine cuts off is repeated.
	require.NoError(t, pgjournal.Migrate(t.Context(), server.URL("postgres")))
	var j *pgjournal.Journal
	require.Eventually(t, func() (opened bool) {
		var err error
		j, err = pgjournal.Open(t.Context(), pgjournal.Options{URL: server.URL("postgres"), Timeout: time.Second})
		return err == nil
	}, bound, 10*time.Millisecond)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	load := &journaltest.Load{}
	retryUnavailable(t, func() error { return load.Use(j) })
	ways := []struct {
		name       string
		stop, give func() error
	}{
		{"crash", server.Crash, server.Restart},
		{"stop", server.Stop, server.Restart},
		{"pause", server.Pause, server.Resume},
		{"crash again", server.Crash, server.Restart},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			gone := make(chan error, 1)
			err := withinBound(t, func() error { return stepUntilError(load, func() { gone <- way.stop() }) })
			require.True(t, errors.Is(err, persistence.ErrUnavailable) || errors.Is(err, persistence.ErrAmbiguous), "%v", err)
			require.NoError(t, <-gone)
			requireUnavailable(t, j)
			told := load.Told()
			require.NoError(t, way.give())
			retryUnavailable(t, func() error { return load.Continue(j) })
			retryUnavailable(t, func() error { return load.Verify(j, told) })
			retryUnavailable(t, func() error {
				if err := load.Continue(j); err != nil {
					return err
				}
				return load.Step()
			})
		})
	}
	told := load.Told()
	again := open(t, pgjournal.Options{URL: server.URL("postgres"), Slack: slack})
	require.NoError(t, load.Verify(again, told))
	require.NoError(t, again.Close())
}

// requireUnavailable requires that every kind of call ends with ErrUnavailable while the server is
// away. Calls that memory can answer succeed.
func requireUnavailable(t *testing.T, j *pgjournal.Journal) {
	t.Helper()
	ctx, shard, slot := context.Background(), ident.Shard(0x55), ident.Slot(0x550)
	var work sync.WaitGroup
	for name, call := range map[string]func() error{
		"raise":  func() error { _, err := j.Raise(ctx, shard); return err },
		"record": func() error { _, err := j.Record(ctx, slot, "card", "a"); return err },
		"append": func() error { return appendOne(j, slot, 1, 1) },
		"cursor": func() error { _, err := j.Cursor(ctx, "a", shard); return err },
		"sweep":  func() error { _, err := j.Sweep(ctx, journaltest.Start, 1); return err },
	} {
		work.Go(func() { assert.ErrorIs(t, withinBound(t, call), persistence.ErrUnavailable, name) })
	}
	work.Wait()
	// No timer of this shard is due, so the server is not queried.
	timers, err := j.Timers(ctx, shard, journaltest.Start, persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, timers)
	require.Zero(t, j.Head(shard).Position)
}

// A durable server crashes in the middle of the workload, again and again, each time with a new
// journal.
func TestCrashLosesNothing(t *testing.T) {
	const crashes = 5
	server := pgtest.Own(t, "the journal after its server crashed", true)
	if server == nil {
		return
	}
	t.Parallel() // it mostly waits
	o := pgjournal.Options{URL: server.URL("postgres"), Migrate: true, Slack: slack}
	load := &journaltest.Load{}
	for range crashes {
		j := open(t, o)
		require.NoError(t, load.Continue(j))
		gone := make(chan error, 1)
		err := withinBound(t, func() error { return stepUntilError(load, func() { gone <- server.Crash() }) })
		require.Error(t, err)
		require.NoError(t, <-gone)
		told := load.Told()
		require.NoError(t, j.Close())
		require.NoError(t, server.Restart())
		again := open(t, o)
		require.NoError(t, load.Verify(again, told))
		require.NoError(t, again.Close())
	}
}
