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

// unplugged is a journal whose server can be lost. It remembers cursors.
type unplugged struct {
	persistence.Journal
	mu   sync.Mutex
	lost error
}

func (u *unplugged) plug(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lost = err
}

func (u *unplugged) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

func (u *unplugged) Cursor(ctx context.Context, name string, shard ident.Shard) (uint64, error) {
	if err := u.err(); err != nil && persistence.IsAsStored(ctx) {
		return 0, err
	}
	return u.Journal.Cursor(ctx, name, shard)
}

func (u *unplugged) Timers(
	ctx context.Context, shard ident.Shard, now time.Time, after persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	if err := u.err(); err != nil {
		return nil, err
	}
	return u.Journal.Timers(ctx, shard, now, after, limit)
}

// lines is a log that is counted.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// A journal that is lost while nobody asks for anything is noticed, said in one line for each thing that meets it, whatever the
// number of shards, and its return too.
func TestAnOutageIsNoticedAndSaidOnce(t *testing.T) {
	log, journal := &lines{}, &unplugged{}
	r := newRig(t, func(c *actors.Config) {
		journal.Journal = c.Journal
		c.Journal, c.Logger = journal, slog.New(slog.NewTextHandler(log, nil))
	})
	require.NoError(t, r.system.Ready())
	require.True(t, r.system.JournalUp())
	journal.plug(errors.New("connection refused\n\tby its server"))
	require.Eventually(t, func() bool { return !r.system.JournalUp() }, comesWithin, lookEvery)
	require.EqualError(t, r.system.Ready(), "the journal does not answer: connection refused by its server")
	require.Eventually(t, func() bool { return log.count("msg=timers") > 0 }, comesWithin, lookEvery)
	journal.plug(nil)
	require.Eventually(t, func() bool { return log.count("the journal answers again") == 1 }, comesWithin, lookEvery)
	require.True(t, r.system.JournalUp())
	require.NoError(t, r.system.Ready())
	require.Equal(t, 1, log.count("msg=timers"), "the clock stands still, and 256 shards have failed")
	require.Equal(t, 1, log.count("the journal does not answer"))
	r.clock.turn(time.Minute)
	journal.plug(errors.New("again"))
	require.Eventually(t, func() bool { return log.count("msg=timers") == 2 }, comesWithin, lookEvery)
	require.NotZero(t, log.count("left_out="))
}

// What the journal will never keep is refused once and for all, and the actor goes on.
func TestWhatCannotBeKeptIsRefusedForGood(t *testing.T) {
	r := newRig(t, nil)
	id := stream(1)
	r.journal.set(func(f *faults) {
		f.append = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return []persistence.Outcome{{Err: persistence.ErrRefused}}, nil
		}
	})
	_, err := r.ask(id, add{By: 7}, nil)
	require.True(t, fault.Is(err, fault.Internal), "%v", err)
	require.ErrorContains(t, err, "nothing changed")
	require.EqualValues(t, 1, r.journal.appends.Load(), "it is not tried again")
	r.journal.set(func(f *faults) { f.append = nil })
	_, err = r.ask(id, add{By: 3}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.total(id))
}
