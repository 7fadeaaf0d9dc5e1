package actors_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// knownIssuer remembers the agents it is told of. It fails as often as it is told to, and refuses agents of one name.
type knownIssuer struct {
	sandbox.Issuer
	mu     sync.Mutex
	known  map[string]partner.Agent
	told   int
	silent int
}

func (i *knownIssuer) Mirror(_ context.Context, workspaceID string, agents []partner.Agent) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.told++
	if i.silent > 0 {
		i.silent--
		return errors.New("no answer")
	}
	for _, a := range agents {
		if a.Name == "Refused" {
			return partner.ErrRefused
		}
		i.known[a.ID] = a
	}
	return nil
}

func (i *knownIssuer) get(id string) (a partner.Agent, told int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[id], i.told
}

// awaits waits until the issuer knows an agent in a state.
func (i *knownIssuer) awaits(t *testing.T, id, state string) (a partner.Agent) {
	t.Helper()
	require.Eventually(t, func() bool {
		a, _ = i.get(id)
		return a.State == state
	}, time.Minute, time.Millisecond, "%s is not %s to the issuer", id, state)
	return a
}

// newAgent registers an agent whose key is made of its number.
func (w *world) newAgent(ws, name string, number byte) (id string, key string) {
	w.t.Helper()
	id = w.newID(ident.Agent, slotOf(ws))
	private, err := intent.NewKey(repeated(number))
	require.NoError(w.t, err)
	key = intent.PublicKeyPEM(intent.PublicKey(private))
	w.must("agent", id, ws, agent.Register{ID: id, Workspace: ws, AgentName: name, PublicKeyPem: key})
	return id, key
}

// repeated is entropy that is one byte for ever.
type repeated byte

func (r repeated) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r)
	}
	return len(b), nil
}

// An agent of a live workspace is bound to the issuing partner, and its changes of state follow, across a restart and while the
// partner does not answer. One it refuses holds up no other.
func TestAgentsOfLiveWorkspacesAreMirrored(t *testing.T) {
	issuer := &knownIssuer{known: map[string]partner.Agent{}}
	w := newWorld(t, vfs.NewMem(), worldOptions{issuer: issuer})
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	w.must("workspace", ws, ws, workspace.SetMode{Mode: workspace.Live})
	w.reacted("agents", slotOf(ws).Shard()) // it had no agent to tell of
	id, key := w.newAgent(ws, "Travel agent", 1)
	bound := issuer.awaits(t, id, agent.StateActive)
	require.Equal(t, partner.Agent{ID: id, Name: "Travel agent", PublicKeyPem: key, KeyID: bound.KeyID, State: agent.StateActive},
		bound)
	require.Len(t, bound.KeyID, 43)

	issuer.mu.Lock()
	issuer.silent = 2
	issuer.mu.Unlock()
	w.must("agent", id, ws, agent.Change{State: agent.StateFrozen})
	issuer.awaits(t, id, agent.StateFrozen)
	refused, _ := w.newAgent(ws, "Refused", 2)
	w.must("agent", id, ws, agent.Change{State: agent.StateActive})
	issuer.awaits(t, id, agent.StateActive)
	w.restart()
	w.must("agent", id, ws, agent.Change{State: agent.StateTerminated})
	issuer.awaits(t, id, agent.StateTerminated)
	unknown, _ := issuer.get(refused)
	require.Zero(t, unknown)
}

// The issuer hears of no agent of a sandbox, and of all of them when their workspace goes live.
func TestAgentsOfASandboxAreNotMirrored(t *testing.T) {
	issuer := &knownIssuer{known: map[string]partner.Agent{}}
	w := newWorld(t, vfs.NewMem(), worldOptions{issuer: issuer})
	defer w.stop()
	ws := w.newWorkspace(77)
	active, _ := w.newAgent(ws, "Travel agent", 1)
	frozen, _ := w.newAgent(ws, "Shopping agent", 2)
	w.must("agent", frozen, ws, agent.Change{State: agent.StateFrozen})
	w.reacted("agents", slotOf(ws).Shard())
	w.must("workspace", ws, ws, workspace.SetMode{Mode: workspace.Live})
	issuer.awaits(t, active, agent.StateActive)
	issuer.awaits(t, frozen, agent.StateFrozen)
	_, told := issuer.get(active)
	require.Equal(t, 1, told, "told of a sandbox")
}

// reacted waits until a reaction has seen all that a shard's journal has.
func (w *world) reacted(name string, shard ident.Shard) {
	w.t.Helper()
	head := w.journal.Head(shard).Position
	require.Eventually(w.t, func() bool {
		cursor, err := w.journal.Cursor(w.t.Context(), "reaction/"+name, shard)
		require.NoError(w.t, err)
		return cursor >= head
	}, time.Minute, time.Millisecond)
}
