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

// countingAuthorizer counts the calls of the expiry and the trim loops.
type countingAuthorizer struct {
	*reservingAuthorizer
	expireCalls, trimCalls atomic.Int64
}

func (r *countingAuthorizer) Expire(now time.Time) (int, error) {
	r.expireCalls.Add(1)
	return r.reservingAuthorizer.Expire(now)
}

func (r *countingAuthorizer) Trim(now time.Time) error {
	r.trimCalls.Add(1)
	return r.reservingAuthorizer.Trim(now)
}

// countingJournal counts calls of Sweep and of TimersDue.
type countingJournal struct {
	persistence.Journal
	sweepCalls, timerLooks atomic.Int64
}

func (s *countingJournal) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	s.sweepCalls.Add(1)
	return s.Journal.Sweep(ctx, now, limit)
}

func (s *countingJournal) TimersDue(shard ident.Shard, now time.Time) bool {
	s.timerLooks.Add(1)
	return s.Journal.TimersDue(shard, now)
}

// TestNothingExpiresWhileTheClockIsSuspect: while the clock is suspect no hold expires, nothing is
// trimmed or swept, and no timer fires except the repeating inquiries (Kind.AsksAgain).
func TestNothingExpiresWhileTheClockIsSuspect(t *testing.T) {
	var suspect atomic.Bool
	suspect.Store(true)
	swept := &countingJournal{}
	var outside *countingAuthorizer
	r := newCounterSystem(t, func(c *actors.Config) {
		outside = &countingAuthorizer{reservingAuthorizer: c.Authorizer.(*reservingAuthorizer)}
		swept.Journal = c.Journal
		c.Journal, c.Authorizer, c.ClockSuspect = swept, outside, suspect.Load
		c.ExpireEvery, c.HousekeepEvery = time.Millisecond, time.Millisecond
		c.Kinds[0].AsksAgain = func(key string) bool { return strings.HasPrefix(key, "ask") }
	})
	ends, asks := counterID(20), counterID(21)
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
	require.Eventually(t, func() bool { return fired(asks) == 1 }, eventuallyWithin, pollEvery)
	looks := swept.timerLooks.Load()
	require.Eventually(t, func() bool { return swept.timerLooks.Load() > looks+10*ident.Shards }, eventuallyWithin,
		pollEvery)
	require.Zero(t, fired(ends))
	require.Zero(t, outside.expireCalls.Load())
	require.Zero(t, outside.trimCalls.Load())
	require.Zero(t, swept.sweepCalls.Load())

	suspect.Store(false)
	require.Eventually(t, func() bool {
		return fired(ends) == 1 && outside.expireCalls.Load() > 0 && outside.trimCalls.Load() > 0 &&
			swept.sweepCalls.Load() > 0
	}, eventuallyWithin, pollEvery)
}
