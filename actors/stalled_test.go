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
	"purser/persistence/journaltest"
)

// stallableAuthorizer is an authorizer whose Follow a test can delay, as a slow disk does.
type stallableAuthorizer struct {
	*authorizer.Engine
	mu   sync.Mutex
	gate chan struct{}
}

func (s *stallableAuthorizer) Follow(shard ident.Shard, f authorizer.Follow) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return s.Engine.Follow(shard, f)
}

// stall blocks Follow until release is called. A further call of release does nothing.
func (s *stallableAuthorizer) stall() (release func()) {
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

// newStallableStack returns a stack with a funded card and an authorizer that can be stalled.
func newStallableStack(t *testing.T, database string) (*testStack, *stallableAuthorizer, testCard) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{database: database, retryUnavailable: database != ""})
	s := &stallableAuthorizer{Engine: w.engine}
	w.restartActors(func(c *actors.Config) { c.Authorizer = s })
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	return w, s, w.mintCard(ws, 90_000, 1_000)
}

// freezeInJournal freezes the card and returns once the journal has the event. The answer waits for
// the stalled authorizer.
func (w *testStack) freezeInJournal(c testCard, key *actors.Key) {
	shard := slotOf(c.ws).Shard()
	before := w.journal.Head(shard).Position
	state := card.StateFrozen
	go func() { _, _ = w.ask("card", c.id, c.ws, card.Update{State: &state}, key) }()
	require.NoError(w.t, journaltest.AwaitHead(context.Background(), w.journal, shard, before))
}

func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestNoAnswerShowsAFreezeBeforeTheAuthorizerAppliesIt covers a list, a look-up, a read and the
// repeat of the change.
func TestNoAnswerShowsAFreezeBeforeTheAuthorizerAppliesIt(t *testing.T) {
	onEachJournal(t, freezeWhileStalled)
}

func freezeWhileStalled(t *testing.T, database string) {
	w, s, c := newStallableStack(t, database)
	defer w.stop()
	release := s.stall()
	defer release()
	w.freezeInJournal(c, w.idempotencyKey("freeze"))

	_, err := w.system.List(shortContext(t), "card", c.ws, "", persistence.Page{Limit: 10})
	require.True(t, fault.Is(err, fault.Unavailable), "a list: %v", err)
	_, err = w.system.Record(shortContext(t), "card", c.ws, c.id)
	require.True(t, fault.Is(err, fault.Unavailable), "a look-up: %v", err)
	for _, key := range []*actors.Key{nil, w.idempotencyKey("freeze")} {
		reply, err := w.system.Ask(shortContext(t), actors.Envelope{Kind: "card", Stream: c.id, Workspace: c.ws,
			Command: decision.Read{},
			Key:     key})
		require.Error(t, err, "answered %v", reply)
	}
	require.Equal(t, hold.Approved, w.submit(networkMessage(hold.Authorization, "before", c, 10)).Decision)

	release()
	_, err = w.system.List(t.Context(), "card", c.ws, "", persistence.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, hold.ReasonCardFrozen, w.submit(networkMessage(hold.Authorization, "after", c, 10)).Reason)
}

// TestReadsThatTimeOutLeaveNoWaiter: reads that end before the follower moves remove their waiters.
func TestReadsThatTimeOutLeaveNoWaiter(t *testing.T) {
	w, s, c := newStallableStack(t, "")
	defer w.stop()
	release := s.stall()
	defer release()
	w.freezeInJournal(c, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		_, err := w.system.List(ended, "card", c.ws, "", persistence.Page{Limit: 10})
		require.Error(t, err)
	}
	require.LessOrEqual(t, w.system.Waiting(), 4)
}
