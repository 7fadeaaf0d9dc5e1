package actors_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// disconnectableJournal is a journal whose connection a test can break. It still answers cursors
// that it has cached.
type disconnectableJournal struct {
	persistence.Journal
	mu   sync.Mutex
	lost error
}

func (u *disconnectableJournal) setError(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lost = err
}

func (u *disconnectableJournal) currentError() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

func (u *disconnectableJournal) Cursor(ctx context.Context, name string, shard ident.Shard) (uint64, error) {
	if err := u.currentError(); err != nil && persistence.IsAsStored(ctx) {
		return 0, err
	}
	return u.Journal.Cursor(ctx, name, shard)
}

// TimersDue has the timers of all shards read while the connection is lost.
func (u *disconnectableJournal) TimersDue(shard ident.Shard, now time.Time) bool {
	return u.currentError() != nil || u.Journal.TimersDue(shard, now)
}

func (u *disconnectableJournal) Timers(
	ctx context.Context, shard ident.Shard, now time.Time, after persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	if err := u.currentError(); err != nil {
		return nil, err
	}
	return u.Journal.Timers(ctx, shard, now, after, limit)
}

// countedLog is a log whose lines a test counts.
type countedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *countedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *countedLog) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// TestAnOutageIsDetectedAndLoggedOnce: an outage is detected without a request. Each operation that
// fails logs one line, whatever the number of shards, and the return of the journal logs one.
func TestAnOutageIsDetectedAndLoggedOnce(t *testing.T) {
	log, journal := &countedLog{}, &disconnectableJournal{}
	r := newCounterSystem(t, func(c *actors.Config) {
		journal.Journal = c.Journal
		c.Journal, c.Logger = journal, slog.New(slog.NewTextHandler(log, nil))
	})
	require.NoError(t, r.system.Ready())
	require.True(t, r.system.JournalUp())
	journal.setError(errors.New("connection refused\n\tby its server"))
	require.Eventually(t, func() bool { return !r.system.JournalUp() }, eventuallyWithin, pollEvery)
	require.EqualError(t, r.system.Ready(), "the journal does not answer: connection refused by its server")
	require.Eventually(t, func() bool { return log.count("msg=timers") > 0 }, eventuallyWithin, pollEvery)
	journal.setError(nil)
	require.Eventually(t, func() bool { return log.count("the journal answers again") == 1 }, eventuallyWithin,
		pollEvery)
	require.True(t, r.system.JournalUp())
	require.NoError(t, r.system.Ready())
	require.Equal(t, 1, log.count("msg=timers"), "one line for the 256 shards, as the clock stands still")
	require.Equal(t, 1, log.count("the journal does not answer"))
	r.clock.turn(time.Minute)
	journal.setError(errors.New("again"))
	require.Eventually(t, func() bool { return log.count("msg=timers") == 2 }, eventuallyWithin, pollEvery)
	require.NotZero(t, log.count("left_out="))
}

// TestUnstorableCommitsAreRefusedForGood: a commit that the journal refuses for good is not
// retried, and the actor answers the next command.
func TestUnstorableCommitsAreRefusedForGood(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(1)
	r.journal.configure(func(f *faultyJournal) {
		f.onAppend = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return []persistence.Outcome{{Err: persistence.ErrRefused}}, nil
		}
	})
	_, err := r.ask(id, add{By: 7}, nil)
	require.True(t, fault.Is(err, fault.Internal), "%v", err)
	require.ErrorContains(t, err, "nothing changed")
	require.EqualValues(t, 1, r.journal.appends.Load(), "the commit was retried")
	r.journal.configure(func(f *faultyJournal) { f.onAppend = nil })
	_, err = r.ask(id, add{By: 3}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.readTotal(id))
}
