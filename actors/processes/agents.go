package processes

import (
	"context"
	"errors"
	"log/slog"

	"purser/actors/agent"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/actors/workspace"
	"purser/persistence"
)

// agentMirror gives the issuing partner the agents of workspaces in live mode.
type agentMirror struct {
	runtime Runtime
	issuer  partner.Issuer // nil: no partner is connected
	log     *slog.Logger
}

// mirrorChange gives the issuing partner an agent that was registered or changed its state, or all
// agents of a workspace that goes live. It is the reaction "agents" to these events. It fails, and
// is repeated, when a record cannot be read or the partner does not answer. It sends an agent's
// present state, not the state at the event, so that a repeat never sets the partner back.
func (m *agentMirror) mirrorChange(ctx context.Context, e persistence.Event) error {
	if m.issuer == nil {
		return nil
	}
	if e.Type == (workspace.ModeChanged{}).EventType() {
		return m.mirror(ctx, e.Workspace, func() ([]agent.State, error) { return m.listAgents(ctx, e.Workspace) })
	}
	return m.mirror(ctx, e.Workspace, func() ([]agent.State, error) {
		state, err := query.Agents.Read(ctx, m.runtime, e.Workspace, e.Stream)
		return []agent.State{state}, err
	})
}

// mirror gives the partner the agents that read returns, unless their workspace is in sandbox mode.
// Agents that the partner refuses stay as the partner has them; the refusal is logged and no error.
// It fails when a record cannot be read or the partner does not answer.
func (m *agentMirror) mirror(ctx context.Context, workspaceID string, read func() ([]agent.State, error)) error {
	owner, err := query.Workspaces.Read(ctx, m.runtime, workspaceID, workspaceID)
	if err != nil || owner.Mode != workspace.Live {
		return err
	}
	states, err := read()
	if err != nil || len(states) == 0 {
		return err
	}
	agents := make([]partner.Agent, len(states))
	for i := range states {
		v := states[i].View()
		agents[i] = partner.Agent{ID: v.ID, Name: v.AgentName, PublicKeyPem: v.PublicKeyPem, KeyID: v.KeyID,
			State: v.State}
	}
	err = m.issuer.Mirror(ctx, workspaceID, agents)
	if errors.Is(err, partner.ErrRefused) {
		m.log.Error("the issuing partner refuses agents", "agent", agents[0].ID, "agents", len(agents))
		return nil
	}
	return err
}

// listAgents reads all agents of a workspace. It fails as query's List does.
func (m *agentMirror) listAgents(ctx context.Context, workspaceID string) (states []agent.State, err error) {
	page := query.Page{Limit: query.MaxPage}
	for {
		records, err := query.Agents.List(ctx, m.runtime, workspaceID, "", page)
		if err != nil {
			return nil, err
		}
		for i := range records {
			states = append(states, records[i].Document)
			page.After = records[i].Place
		}
		if len(records) < page.Limit {
			return states, nil
		}
	}
}
