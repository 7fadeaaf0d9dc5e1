package actors_test

import (
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
	"purser/persistence/money"
)

// gatedAuthorizer is an authorizer whose relay or follower blocks until its channel is closed.
type gatedAuthorizer struct {
	*authorizer.Engine
	relay, follower chan struct{}
}

func openGate() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (g *gatedAuthorizer) OnSynced(call func(ident.Shard)) {
	g.Engine.OnSynced(func(shard ident.Shard) {
		go func() {
			<-g.relay
			call(shard)
		}()
	})
}

func (g *gatedAuthorizer) Follow(shard ident.Shard, f authorizer.Follow) error {
	<-g.follower
	return g.Engine.Follow(shard, f)
}

// gateAuthorizer restarts the actors over a gatedAuthorizer.
func (w *testStack) gateAuthorizer(relay, follower chan struct{}) {
	w.t.Helper()
	before := w.system
	w.restartActors(func(c *actors.Config) { c.Authorizer = &gatedAuthorizer{w.engine, relay, follower} })
	require.ErrorContains(w.t, before.Ready(), "stopping")
}

func (w *testStack) health() actors.Health {
	w.t.Helper()
	h, err := w.system.Health()
	require.NoError(w.t, err)
	return h
}

func TestHealthSumsUnrelayedCents(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(20)
	w.deposit(ws, 1_000_00)
	c := w.mintCard(ws, 1_000_00, 500_00)
	relay := make(chan struct{})
	w.gateAuthorizer(relay, openGate())
	require.Zero(t, w.health().RelayCents)
	w.submit(networkMessage(hold.Authorization, "n1", c, 10_00))
	w.clock.turn(3 * time.Second)
	w.submit(networkMessage(hold.Authorization, "n2", c, 5_00))
	w.submit(networkMessage(hold.Authorization, "n3", c, 900_00)) // declined: no money moves
	for range 2 {                                                 // a second call counts nothing twice
		h := w.health()
		require.Equal(t, money.Cents(15_00), h.RelayCents)
		require.Equal(t, 3*time.Second, h.RelayAge)
	}
	close(relay)
	require.Eventually(t, func() bool { h := w.health(); return h.RelayCents == 0 && h.RelayAge == 0 },
		eventuallyWithin, pollEvery)
	w.submit(networkMessage(hold.Authorization, "n4", c, 20_00))
	require.Eventually(t, func() bool { return w.health().RelayCents == 0 && w.engine.Backlog() == 0 },
		eventuallyWithin, pollEvery)
	w.requireCleanAudit()
}

func TestHealthCountsReservations(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
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

// TestNotReadyWhenTheFollowerStalls: the server is not ready once the follower has been behind one
// position for longer than the tolerance; a busy follower stays ready.
func TestNotReadyWhenTheFollowerStalls(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	c := w.mintCard(w.newWorkspace(20), 100_00, 100_00)
	follower := make(chan struct{})
	w.gateAuthorizer(openGate(), follower)
	require.NoError(t, w.system.Ready())
	frozen, done := card.StateFrozen, make(chan error, 1)
	go func() {
		_, err := w.ask("card", c.id, c.ws, card.Update{State: &frozen}, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return w.health().FollowerLag == 1 }, eventuallyWithin, pollEvery)
	require.NoError(t, w.system.Ready(), "the lag is not older than the tolerance")
	w.clock.turn(2 * time.Second)
	require.NoError(t, w.system.Ready())
	w.clock.turn(time.Millisecond)
	require.ErrorContains(t, w.system.Ready(), "behind the journal")
	require.Greater(t, w.health().FollowerLate, 2*time.Second)
	// A reaction that runs at the start may have a request pending too.
	require.Eventually(t, func() bool { return w.health().Pending == 1 }, eventuallyWithin, pollEvery)
	require.Empty(t, done, "the answer waits until the authorizer enforces the rule")
	close(follower)
	require.NoError(t, <-done)
	require.NoError(t, w.system.Ready())
	require.Zero(t, w.health().FollowerLate)
}

// TestNotReadyWhileAShardIsLost: a shard with an unresolved commit makes the server not ready.
func TestNotReadyWhileAShardIsLost(t *testing.T) {
	r := newCounterSystem(t, func(c *actors.Config) { c.FenceWithin = time.Millisecond })
	down := errors.New("the store is away")
	r.journal.configure(func(f *faultyJournal) {
		f.onAppend = func(func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return nil, persistence.ErrAmbiguous
		}
		f.onRaise = func() error { return down }
	})
	_, err := r.ask(counterID(1), add{By: 1}, nil)
	require.Error(t, err)
	require.ErrorContains(t, r.system.Ready(), "1 shards")
	h, err := r.system.Health()
	require.NoError(t, err)
	require.Equal(t, 1, h.LostShards)
	r.journal.configure(func(f *faultyJournal) { f.onAppend, f.onRaise = nil, nil })
	require.Eventually(t, func() bool { return r.system.Ready() == nil }, eventuallyWithin, pollEvery)
}
