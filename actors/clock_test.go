package actors_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/persistence"
	"purser/persistence/ident"
)

// retiring counts what the loops ask of an authorizer on account of time.
type retiring struct {
	*books
	expired, trimmed atomic.Int64
}

func (r *retiring) Expire(now time.Time) (int, error) {
	r.expired.Add(1)
	return r.books.Expire(now)
}

func (r *retiring) Trim(now time.Time) error {
	r.trimmed.Add(1)
	return r.books.Trim(now)
}

// sweeps counts the sweeps of a journal and the looks for due timers.
type sweeps struct {
	persistence.Journal
	all, looks atomic.Int64
}

func (s *sweeps) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	s.all.Add(1)
	return s.Journal.Sweep(ctx, now, limit)
}

func (s *sweeps) Timers(ctx context.Context, shard ident.Shard, now time.Time, after persistence.Timer,
	limit int) ([]persistence.Timer, error) {
	s.looks.Add(1)
	return s.Journal.Timers(ctx, shard, now, after, limit)
}

// While the clock is suspect no hold expires, nothing is trimmed or swept and no timer fires but
// one that asks again.
func TestNothingEndsWhileTheClockIsSuspect(t *testing.T) {
	var suspect atomic.Bool
	suspect.Store(true)
	swept := &sweeps{}
	var outside *retiring
	r := newRig(t, func(c *actors.Config) {
		outside = &retiring{books: c.Authorizer.(*books)}
		swept.Journal = c.Journal
		c.Journal, c.Authorizer, c.ClockSuspect = swept, outside, suspect.Load
		c.ExpireEvery, c.HousekeepEvery = time.Millisecond, time.Millisecond
		c.Kinds[0].AsksAgain = func(key string) bool { return strings.HasPrefix(key, "ask") }
	})
	ends, asks := stream(20), stream(21)
	_, err := r.ask(ends, alarm{At: r.clock.now().Add(time.Hour)}, nil)
	require.NoError(t, err)
	_, err = r.ask(asks, alarm{At: r.clock.now().Add(time.Hour), Key: "ask"}, nil)
	require.NoError(t, err)
	fired := func(id string) int {
		reply, err := r.ask(id, decision.Read{}, nil)
		require.NoError(t, err)
		return reply.(counter).Fired
	}
	r.clock.turn(45 * 24 * time.Hour)
	require.Eventually(t, func() bool { return fired(asks) == 1 }, time.Minute, time.Millisecond)
	looks := swept.looks.Load()
	require.Eventually(t, func() bool { return swept.looks.Load() > looks+10*ident.Shards }, time.Minute,
		time.Millisecond)
	require.Zero(t, fired(ends))
	require.Zero(t, outside.expired.Load())
	require.Zero(t, outside.trimmed.Load())
	require.Zero(t, swept.all.Load())

	suspect.Store(false)
	require.Eventually(t, func() bool {
		return fired(ends) == 1 && outside.expired.Load() > 0 && outside.trimmed.Load() > 0 && swept.all.Load() > 0
	}, time.Minute, time.Millisecond)
}
