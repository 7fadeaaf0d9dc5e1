package httpapi

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/agent/intent"
	"purser/actors/decision"
	"purser/actors/query"
	"purser/persistence/ident"
)

// agentHandlers serve AI agents and their payment intents.
type agentHandlers struct{ *edge }

// agentRoutes returns the routes of agents and their intents.
func (h *agentHandlers) agentRoutes() []route {
	const path, one = "/api/agents", "/api/agents/{id}"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: "write:agents", kyb: true, idempotency: keyOptional,
			handle: h.registerAgent},
		{method: "GET", path: path, auth: authKey, scope: "read:agents", query: slices.Concat(stateQuery, pageQuery),
			handle: h.listAgents},
		{method: "GET", path: one, auth: authKey, scope: "read:agents", handle: h.getAgent},
		{method: "PATCH", path: one, onFullDisk: true, auth: authKey, scope: "write:agents", handle: h.updateAgent},
		{method: "GET", path: one + "/jwks.json", auth: authNone, handle: h.agentKeys},
		{method: "POST", path: one + "/intents", auth: authKey, scope: "write:agents", handle: h.submitIntent},
		{method: "GET", path: one + "/intents", auth: authKey, scope: "read:agents", query: pageQuery,
			handle: h.listIntents},
	}
}

// registerAgent handles POST /api/agents. Without a public key it generates a pair and answers the
// private key, which is not stored. Only a repeat with the same Idempotency-Key returns the private
// key again. It fails with invalid_body, and with the agent's refusal.
func (h *agentHandlers) registerAgent(c *call) (answer, error) {
	var body struct {
		AgentName    string   `json:"agentName"`
		Description  string   `json:"description"`
		Protocols    []string `json:"protocols"`
		PublicKeyPem string   `json:"publicKeyPem"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	id, err := h.newID(c, ident.Agent)
	if err != nil {
		return answer{}, err
	}
	register := agent.Register{ID: id, Workspace: c.who.workspace(), AgentName: body.AgentName,
		Description: body.Description,
		Protocols:   body.Protocols, PublicKeyPem: body.PublicKeyPem}
	document := map[string]any{}
	if body.PublicKeyPem == "" {
		key, err := intent.NewKey(h.actors.Entropy())
		if err != nil {
			return answer{}, err
		}
		register.PublicKeyPem = intent.PublicKeyPEM(intent.PublicKey(key))
		document["privateKeyPem"] = intent.PrivateKeyPEM(key)
	}
	return askIdempotent(h.edge, c, actors.Envelope{Kind: actors.KindAgent, Stream: id, Workspace: register.Workspace,
		Command: register},
		func(registered agent.View) (answer, error) {
			document["agent"] = registered
			return reply(document)
		})
}

// listAgents handles GET /api/agents. It fails with invalid_query for a bad filter, limit or
// cursor, and with the store's error.
func (h *agentHandlers) listAgents(c *call) (answer, error) {
	state, given, err := c.readChoice("state", agent.StateActive, agent.StateFrozen, agent.StateTerminated)
	if err != nil {
		return answer{}, err
	}
	list := filteredList[agent.State]{of: query.Agents, filter: c.filterText(stateQuery...),
		timeOf:  func(s *agent.State) time.Time { return s.CreatedAt.Time },
		matches: func(s *agent.State) bool { return !given || s.State == state },
		show:    func(_ json.RawMessage, s *agent.State) (any, error) { return s.View(), nil }}
	return list.answerPage(h.edge, c)
}

// getAgent handles GET /api/agents/{id}. Another workspace's agent is not_found.
func (h *agentHandlers) getAgent(c *call) (answer, error) {
	state, err := h.readAgent(c)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"agent": state.View()})
}

// updateAgent handles PATCH /api/agents/{id}: it changes the agent's state. An agent of another
// workspace is not_found. An unknown state, or a change that the agent's state does not permit, is
// refused by package agent.
func (h *agentHandlers) updateAgent(c *call) (answer, error) {
	var body struct {
		State string `json:"state"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	updated, err := ask[agent.View](c.ctx, h.actors, c.toAgent(agent.ChangeState{State: body.State}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"agent": updated})
}

// toAgent addresses a command to the agent of the path; another workspace's agent is not_found.
func (c *call) toAgent(command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindAgent, Stream: c.params["id"], Workspace: c.who.workspace(),
		Command: command}
}

// readAgent reads the committed state of the agent of the path. It fails with not_found for another
// workspace's agent.
func (h *agentHandlers) readAgent(c *call) (*agent.State, error) {
	state, err := ask[agent.State](c.ctx, h.actors, c.toAgent(decision.Read{}))
	if err != nil {
		return nil, err
	}
	return &state, nil
}

// agentKeys handles GET /api/agents/{id}/jwks.json: it publishes an agent's verification keys as a
// JSON Web Key Set. The route requires no credentials. An unknown agent is not_found.
func (h *agentHandlers) agentKeys(c *call) (answer, error) {
	record, err := query.Agents.FindRecord(c.ctx, h.actors, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"keys": record.Document.Keys()})
}
