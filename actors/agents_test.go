package actors_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// scriptedIssuer is a card issuer that records mirrored agents. It fails as many calls as failures
// says, and refuses agents named Refused.
type scriptedIssuer struct {
	sandbox.Issuer
	mu       sync.Mutex
	known    map[string]partner.Agent
	calls    int
	failures int
}

func (i *scriptedIssuer) Mirror(_ context.Context, workspaceID string, agents []partner.Agent) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls++
	if i.failures > 0 {
		i.failures--
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

func (i *scriptedIssuer) agentAndCalls(id string) (a partner.Agent, calls int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[id], i.calls
}

// awaitAgent waits until the issuer has an agent in a state, and returns it.
func (i *scriptedIssuer) awaitAgent(t *testing.T, id, state string) (a partner.Agent) {
	t.Helper()
	require.Eventually(t, func() bool {
		a, _ = i.agentAndCalls(id)
		return a.State == state
	}, eventuallyWithin, pollEvery, "%s is not %s to the issuer", id, state)
	return a
}

// newAgent registers an agent whose key is derived from number.
func (w *testStack) newAgent(ws, name string, number byte) (id string, key string) {
	w.t.Helper()
	id = w.newID(ident.Agent, slotOf(ws))
	private, err := intent.NewKey(repeatedByte(number))
	require.NoError(w.t, err)
	key = intent.PublicKeyPEM(intent.PublicKey(private))
	w.mustAsk("agent", id, ws, agent.Register{ID: id, Workspace: ws, AgentName: name, PublicKeyPem: key})
	return id, key
}

// repeatedByte is a source of entropy that returns one byte for ever.
type repeatedByte byte

func (r repeatedByte) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r)
	}
	return len(b), nil
}

// TestAgentsOfLiveWorkspacesAreMirrored: an agent of a live workspace is mirrored to the issuer
// with its changes of state, across a restart and while the issuer does not answer. An agent that
// the issuer refuses delays no other.
func TestAgentsOfLiveWorkspacesAreMirrored(t *testing.T) {
	issuer := &scriptedIssuer{known: map[string]partner.Agent{}}
	w := newTestStack(t, vfs.NewMem(), stackOptions{issuer: issuer})
	defer func() { w.stop() }()
	ws := w.newWorkspace(77)
	w.mustAsk("workspace", ws, ws, workspace.SetMode{Mode: workspace.Live})
	w.awaitReactions() // the workspace had no agent to mirror
	id, key := w.newAgent(ws, "Travel agent", 1)
	bound := issuer.awaitAgent(t, id, agent.StateActive)
	require.Equal(t, partner.Agent{ID: id, Name: "Travel agent", PublicKeyPem: key, KeyID: bound.KeyID,
		State: agent.StateActive},
		bound)
	require.Len(t, bound.KeyID, 43)

	issuer.mu.Lock()
	issuer.failures = 2
	issuer.mu.Unlock()
	w.mustAsk("agent", id, ws, agent.ChangeState{State: agent.StateFrozen})
	issuer.awaitAgent(t, id, agent.StateFrozen)
	refused, _ := w.newAgent(ws, "Refused", 2)
	w.mustAsk("agent", id, ws, agent.ChangeState{State: agent.StateActive})
	issuer.awaitAgent(t, id, agent.StateActive)
	w.restart()
	w.mustAsk("agent", id, ws, agent.ChangeState{State: agent.StateTerminated})
	issuer.awaitAgent(t, id, agent.StateTerminated)
	unknown, _ := issuer.agentAndCalls(refused)
	require.Zero(t, unknown)
}

// TestAgentsOfASandboxAreNotMirrored: the issuer gets no agent of a sandbox, and all of them when
// their workspace goes live.
func TestAgentsOfASandboxAreNotMirrored(t *testing.T) {
	issuer := &scriptedIssuer{known: map[string]partner.Agent{}}
	w := newTestStack(t, vfs.NewMem(), stackOptions{issuer: issuer})
	defer w.stop()
	ws := w.newWorkspace(77)
	active, _ := w.newAgent(ws, "Travel agent", 1)
	frozen, _ := w.newAgent(ws, "Shopping agent", 2)
	w.mustAsk("agent", frozen, ws, agent.ChangeState{State: agent.StateFrozen})
	w.awaitReactions()
	w.mustAsk("workspace", ws, ws, workspace.SetMode{Mode: workspace.Live})
	issuer.awaitAgent(t, active, agent.StateActive)
	issuer.awaitAgent(t, frozen, agent.StateFrozen)
	_, calls := issuer.agentAndCalls(active)
	require.Equal(t, 1, calls, "an agent of a sandbox was mirrored")
}

// awaitReactions waits until every reaction to a committed event has ended.
func (w *testStack) awaitReactions() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.health().Reactions == 0 }, eventuallyWithin, pollEvery)
}
