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

// bound is far above what any call may take, and far below for ever.
const bound = 3 * time.Minute

// within returns what f returned, or an error of its own when f does not end.
func within(t *testing.T, f func() error) error {
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

// stepUntilError runs the workload; stop is called when it has done some steps, or a step has failed before. It returns the first
// error.
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

// available calls f again as long as the journal is unavailable, which it may be for a while after its server has come back.
func available(t *testing.T, f func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = f()
		return !errors.Is(err, persistence.ErrUnavailable) && !errors.Is(err, persistence.ErrAmbiguous)
	}, bound, 10*time.Millisecond)
	require.NoError(t, err)
}

// TestServerFails takes the server away under load in every way, and gives it back. Calls end with an error of the contract,
// nothing that was answered is lost, and the same journal goes on.
func TestServerFails(t *testing.T) {
	server := pgtest.Own(t, "the journal while its server fails", true)
	if server == nil {
		return
	}
	j := open(t, pgjournal.Options{URL: server.URL("postgres"), Migrate: true, Slack: 2}) // a server that is paused is waited for
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	load := &journaltest.Load{}
	available(t, func() error { return load.Use(j) })
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
			err := within(t, func() error { return stepUntilError(load, func() { gone <- way.stop() }) })
			require.True(t, errors.Is(err, persistence.ErrUnavailable) || errors.Is(err, persistence.ErrAmbiguous), "%v", err)
			require.NoError(t, <-gone)
			requireUnavailable(t, j)
			told := load.Told()
			require.NoError(t, way.give())
			available(t, func() error { return load.Continue(j) })
			available(t, func() error { return load.Verify(j, told) })
			available(t, func() error {
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

// requireUnavailable requires of every kind of call that it ends, and says that nothing was changed, while the server is away.
// What is in memory is told all the same.
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
		work.Go(func() { assert.ErrorIs(t, within(t, call), persistence.ErrUnavailable, name) })
	}
	work.Wait()
	// No timer of this shard is due: the server is not asked.
	timers, err := j.Timers(ctx, shard, journaltest.Start, persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, timers)
	require.Zero(t, j.Head(shard).Position)
}

// TestCrashLosesNothing crashes a durable server in the middle of the workload, again and again, each time opening the journal
// anew.
func TestCrashLosesNothing(t *testing.T) {
	const crashes = 5
	server := pgtest.Own(t, "the journal after its server crashed", true)
	if server == nil {
		return
	}
	o := pgjournal.Options{URL: server.URL("postgres"), Migrate: true, Slack: slack}
	load := &journaltest.Load{}
	for range crashes {
		j := open(t, o)
		require.NoError(t, load.Continue(j))
		gone := make(chan error, 1)
		err := within(t, func() error { return stepUntilError(load, func() { gone <- server.Crash() }) })
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
