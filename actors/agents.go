package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"purser/actors/agent"
	"purser/actors/partner"
	"purser/actors/workspace"
	"purser/persistence"
)

// mirrorAgents tells the issuing partner, where one is connected, of the agents of workspaces in live mode: each that is
// registered and each change of state, and all there are when a workspace goes live. An agent is told of as it stands now and not
// as it did at the event, so that a repeat never takes the issuer back.
func (s *System) mirrorAgents(ctx context.Context, e persistence.Event) error {
	if s.issuer == nil {
		return nil
	}
	if e.Type == (workspace.ModeChanged{}).EventType() {
		return s.mirror(ctx, e.Workspace, func() ([]agent.State, error) { return s.agentsOf(ctx, e.Workspace) })
	}
	return s.mirror(ctx, e.Workspace, func() ([]agent.State, error) {
		state, err := readDocument[agent.State](ctx, s, "agent", e.Workspace, e.Stream)
		return []agent.State{state}, err
	})
}

// mirror tells of agents, unless their workspace is in sandbox mode. What the issuer refuses stays as the issuer has it.
func (s *System) mirror(ctx context.Context, workspaceID string, read func() ([]agent.State, error)) error {
	owner, err := readDocument[workspace.State](ctx, s, "workspace", workspaceID, workspaceID)
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
		agents[i] = partner.Agent{ID: v.ID, Name: v.AgentName, PublicKeyPem: v.PublicKeyPem, KeyID: v.KeyID, State: v.State}
	}
	err = s.issuer.Mirror(ctx, workspaceID, agents)
	if errors.Is(err, partner.ErrRefused) {
		s.log.Error("the issuing partner refuses agents", "agent", agents[0].ID, "agents", len(agents))
		return nil
	}
	return err
}

// agentsOf reads all agents of a workspace.
func (s *System) agentsOf(ctx context.Context, workspaceID string) (states []agent.State, err error) {
	page := persistence.Page{Limit: persistence.MaxPage}
	for {
		records, err := s.List(ctx, "agent", workspaceID, "", page)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			var state agent.State
			if err := json.Unmarshal(r.Document, &state); err != nil {
				return nil, fmt.Errorf("agent's record: %w", err)
			}
			states = append(states, state)
			page.AfterPosition, page.AfterOrdinal = r.Position, r.Ordinal
		}
		if len(records) < page.Limit {
			return states, nil
		}
	}
}
