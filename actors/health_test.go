package actors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/card"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

const (
	comesWithin = time.Minute
	lookEvery   = time.Millisecond
)

// gated is an authorizer whose relay, or follower, stands still until the test opens its gate.
type gated struct {
	*authorizer.Engine
	relay, follower chan struct{}
}

func opened() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (g *gated) WaitSynced(ctx context.Context, shard ident.Shard, past uint64) error {
	select {
	case <-g.relay:
		return g.Engine.WaitSynced(ctx, shard, past)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gated) Follow(shard ident.Shard, f authorizer.Follow) error {
	<-g.follower
	return g.Engine.Follow(shard, f)
}

// gate starts the world's actors anew, over a gated authorizer.
func (w *world) gate(relay, follower chan struct{}) {
	w.t.Helper()
	before := w.system
	w.startAgain(func(c *actors.Config) { c.Authorizer = &gated{w.engine, relay, follower} })
	require.ErrorContains(w.t, before.Ready(), "stopping")
}

func (w *world) health() actors.Health {
	w.t.Helper()
	h, err := w.system.Health()
	require.NoError(w.t, err)
	return h
}

func TestHealthCountsWhatTheRelayOwes(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(20)
	w.deposit(ws, 1_000_00)
	c := w.mint(ws, 1_000_00, 500_00)
	relay := make(chan struct{})
	w.gate(relay, opened())
	require.Zero(t, w.health().RelayCents)
	w.submit(message(hold.Authorization, "n1", c, 10_00))
	w.clock.turn(3 * time.Second)
	w.submit(message(hold.Authorization, "n2", c, 5_00))
	w.submit(message(hold.Authorization, "n3", c, 900_00)) // declined: moves nothing
	for range 2 {                                          // a second look counts nothing twice
		h := w.health()
		require.Equal(t, int64(15_00), h.RelayCents)
		require.Equal(t, 3*time.Second, h.RelayAge)
	}
	close(relay)
	require.Eventually(t, func() bool { h := w.health(); return h.RelayCents == 0 && h.RelayAge == 0 }, comesWithin, lookEvery)
	w.submit(message(hold.Authorization, "n4", c, 20_00))
	require.Eventually(t, func() bool { return w.health().RelayCents == 0 && w.engine.Backlog() == 0 }, comesWithin, lookEvery)
	w.requireClean()
}

func TestHealthCountsReservations(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(20)
	w.deposit(ws, 100_00)
	id := ident.Derive(slotOf(ws), w.clock.now(), "a payout")
	ok, err := w.engine.Reserve(mustParse(ident.Workspace, ws), id, 40_00)
	require.NoError(t, err)
	require.True(t, ok)
	w.clock.turn(90 * time.Second)
	require.Equal(t, 1, w.health().Reservations)
	require.Equal(t, 90*time.Second, w.health().ReservationAge)
	require.NoError(t, w.engine.Release(mustParse(ident.Workspace, ws), id))
	require.Zero(t, w.health().Reservations)
	require.Zero(t, w.health().ReservationAge)
}

// A follower that does not get on makes the server not ready, but only after the tolerance; a busy one does not.
func TestNotReadyWhenTheFollowerStandsStill(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	c := w.mint(w.newWorkspace(20), 100_00, 100_00)
	follower := make(chan struct{})
	w.gate(opened(), follower)
	require.NoError(t, w.system.Ready())
	frozen, done := card.StateFrozen, make(chan error, 1)
	go func() {
		_, err := w.ask("card", c.id, c.ws, card.Update{State: &frozen}, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return w.health().FollowerLag == 1 }, comesWithin, lookEvery)
	require.NoError(t, w.system.Ready(), "it is behind, but has been for no time")
	w.clock.turn(2 * time.Second)
	require.NoError(t, w.system.Ready())
	w.clock.turn(time.Millisecond)
	require.ErrorContains(t, w.system.Ready(), "behind the journal")
	require.Greater(t, w.health().FollowerLate, 2*time.Second)
	// Reactions of the start may be asking something too.
	require.Eventually(t, func() bool { return w.health().Pending == 1 }, comesWithin, lookEvery)
	require.Empty(t, done, "the answer waits for the rule to be enforced")
	close(follower)
	require.NoError(t, <-done)
	require.NoError(t, w.system.Ready())
	require.Zero(t, w.health().FollowerLate)
}

// A shard whose commit nobody can resolve makes the server not ready until it is resolved.
func TestNotReadyWhileAShardIsLost(t *testing.T) {
	r := newRig(t, func(c *actors.Config) { c.FenceWithin = time.Millisecond })
	down := errors.New("the store is away")
	r.journal.set(func(f *faults) {
		f.append = func(func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return nil, persistence.ErrAmbiguous
		}
		f.raise = func() error { return down }
	})
	_, err := r.ask(stream(1), add{By: 1}, nil)
	require.Error(t, err)
	require.ErrorContains(t, r.system.Ready(), "1 shards")
	h, err := r.system.Health()
	require.NoError(t, err)
	require.Equal(t, 1, h.LostShards)
	r.journal.set(func(f *faults) { f.append, f.raise = nil, nil })
	require.Eventually(t, func() bool { return r.system.Ready() == nil }, comesWithin, lookEvery)
}
