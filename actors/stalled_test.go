package actors_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

// stalled is an authorizer whose Follow can be held up, as a disk holds it up.
type stalled struct {
	*authorizer.Engine
	mu   sync.Mutex
	gate chan struct{}
}

func (s *stalled) Follow(shard ident.Shard, f authorizer.Follow) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return s.Engine.Follow(shard, f)
}

// stall holds Follow until the returned function is called, once or more.
func (s *stalled) stall() (release func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.gate = gate
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.gate = nil
		s.mu.Unlock()
		close(gate)
	})
}

// stallWorld is a world with a funded card and an authorizer that can be held up.
func stallWorld(t *testing.T, database string) (*world, *stalled, plastic) {
	w := newWorld(t, vfs.NewMem(), worldOptions{database: database, patient: database != ""})
	s := &stalled{Engine: w.engine}
	w.startAgain(func(c *actors.Config) { c.Authorizer = s })
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	return w, s, w.mint(ws, 90_000, 1_000)
}

// frozenInTheJournal freezes the card and returns when the journal has it; the answer waits for the authorizer, which is held up.
func (w *world) frozenInTheJournal(c plastic, key *actors.Key) {
	shard := slotOf(c.ws).Shard()
	before := w.journal.Head(shard).Position
	state := card.StateFrozen
	go func() { _, _ = w.ask("card", c.id, c.ws, card.Update{State: &state}, key) }()
	require.NoError(w.t, w.journal.Wait(context.Background(), shard, before))
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// No answer says frozen before the authorizer has applied it: neither a list, nor a look-up, nor the replay of the change.
func TestNothingSaysFrozenBeforeTheAuthorizerKnows(t *testing.T) {
	onEachJournal(t, freezeWhileStalled)
}

func freezeWhileStalled(t *testing.T, database string) {
	w, s, c := stallWorld(t, database)
	defer w.stop()
	release := s.stall()
	defer release()
	w.frozenInTheJournal(c, w.keyed("freeze"))

	_, err := w.system.List(soon(t), "card", c.ws, "", persistence.Page{Limit: 10})
	require.True(t, fault.Is(err, fault.Unavailable), "a list: %v", err)
	_, err = w.system.Record(soon(t), "card", c.ws, c.id)
	require.True(t, fault.Is(err, fault.Unavailable), "a look-up: %v", err)
	for _, key := range []*actors.Key{nil, w.keyed("freeze")} {
		reply, err := w.system.Ask(soon(t), actors.Envelope{Kind: "card", Stream: c.id, Workspace: c.ws, Command: decision.Read{},
			Key: key})
		require.Error(t, err, "answered %v", reply)
	}
	require.Equal(t, hold.Approved, w.submit(message(hold.Authorization, "before", c, 10)).Decision)

	release()
	_, err = w.system.List(t.Context(), "card", c.ws, "", persistence.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, hold.ReasonCardFrozen, w.submit(message(hold.Authorization, "after", c, 10)).Reason)
}

// Reads that give up leave nothing behind, however long the relay or the follower is stuck.
func TestReadsThatGiveUpAreForgotten(t *testing.T) {
	w, s, c := stallWorld(t, "")
	defer w.stop()
	release := s.stall()
	defer release()
	w.frozenInTheJournal(c, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		_, err := w.system.List(ended, "card", c.ws, "", persistence.Page{Limit: 10})
		require.Error(t, err)
	}
	require.LessOrEqual(t, w.system.Waiting(), 4)
}
