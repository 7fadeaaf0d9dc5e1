package httpapi

import (
	"fmt"
	"slices"

	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// prefixChars is the number of characters of a secret that a list shows.
const prefixChars = 12

// keyRoutes returns the routes of API keys.
func (h *workspaceHandlers) keyRoutes() []route {
	const path, dashboard = "/api/auth/keys", "/api/dashboard/keys"
	ownerOrAdmin := []string{workspace.Owner, workspace.Admin}
	return []route{
		{method: "POST", path: path, auth: authKeyOrSession, scope: "write:api_keys",
			roles: ownerOrAdmin, idempotency: keyOptional, handle: h.createKey},
		{method: "GET", path: path, auth: authKey, scope: "read:api_keys", query: pageQuery, handle: h.listKeys},
		{method: "DELETE", path: path, auth: authKey, scope: "write:api_keys", query: []string{"id"},
			handle: h.revokeKey},
		{method: "GET", path: dashboard, auth: authSession, roles: ownerOrAdmin, query: pageQuery, handle: h.listKeys},
		{method: "GET", path: dashboard + "/{id}", auth: authSession, roles: ownerOrAdmin, handle: h.getKey},
		{method: "DELETE", path: dashboard, auth: authSession, roles: ownerOrAdmin, query: []string{"id"},
			handle: h.revokeKey},
	}
}

// newKey draws a key for a slot. The workspace stores only the hash; the returned secret appears
// once, in the answer. It fails only without entropy.
func (h *workspaceHandlers) newKey(c *call, slot ident.Slot, label string, scopes []string) (workspace.NewKey, string,
	error) {
	u, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return workspace.NewKey{}, "", err
	}
	secret, err := ident.NewSecret(ident.APISecret, slot, h.actors.Entropy())
	if err != nil {
		return workspace.NewKey{}, "", err
	}
	_, hash, err := ident.ParseSecret(ident.APISecret, secret)
	if err != nil {
		return workspace.NewKey{}, "", fmt.Errorf("a fresh secret: %w", err)
	}
	by := c.who.asPrincipal()
	return workspace.NewKey{ID: u.Format(ident.Key), Label: label, Scopes: scopes, Prefix: secret[:prefixChars],
		SecretHash: hash,
		CreatedBy:  by.KeyID + by.UserID}, secret, nil
}

func replyKey(document map[string]any, key workspace.APIKey, secret string) (answer, error) {
	document["apiKey"] = key
	document["secret"] = secret
	return reply(document)
}

// createKey handles POST /api/auth/keys: it creates an API key, whose secret only this answer
// holds. It fails with invalid_body, like handsOut and countKeyChange, and with the workspace's
// refusal.
func (h *workspaceHandlers) createKey(c *call) (answer, error) {
	var body struct {
		Label  string   `json:"label"`
		Scopes []string `json:"scopes"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if err := c.who.handsOut(body.Scopes); err != nil {
		return answer{}, err
	}
	if err := h.limits.countKeyChange(c); err != nil {
		return answer{}, err
	}
	slot, err := c.slot()
	if err != nil {
		return answer{}, err
	}
	key, secret, err := h.newKey(c, slot, body.Label, body.Scopes)
	if err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	return askIdempotent(h.edge, c, toWorkspace(id, workspace.CreateKey{NewKey: key, By: c.who.asPrincipal()}),
		func(made workspace.APIKey) (answer, error) {
			return replyKey(map[string]any{}, made, secret)
		})
}

// handsOut refuses a key that would grant a scope it does not hold, with missing_scope. The
// workspace checks the same, but a replayed answer holds a secret and never reaches the workspace.
func (c *caller) handsOut(scopes []string) error {
	if c.access.Principal.KeyID == "" {
		return nil
	}
	for _, scope := range scopes {
		if slices.Contains(workspace.Scopes(), scope) && !workspace.Holds(c.access.Scopes, scope) {
			return fault.New(fault.MissingScope(scope), "")
		}
	}
	return nil
}

func (h *workspaceHandlers) listKeys(c *call) (answer, error) {
	return listRecords(h.edge, c, query.APIKeys.AsStored(), "", showStored)
}

// getKey handles GET /api/dashboard/keys/{id}: a key, and the live keys that are revoked with it.
// An unknown key is not_found.
func (h *workspaceHandlers) getKey(c *call) (answer, error) {
	key, err := readOwn(h.edge, c, query.APIKeys, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	state, err := readOwn(h.edge, c, query.Workspaces, c.who.workspace())
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"apiKey": key, "descendants": state.Descendants(key.ID)})
}

// revokeKey handles DELETE of an API key, for keys and for the dashboard. It fails with
// invalid_query without an id, like countKeyChange, and with the workspace's refusal of an unknown
// key.
func (h *workspaceHandlers) revokeKey(c *call) (answer, error) {
	key := c.query["id"]
	if key == "" {
		return answer{}, fault.New(fault.InvalidQuery, "id is required")
	}
	if err := h.limits.countKeyChange(c); err != nil {
		return answer{}, err
	}
	revoked, err := ask[workspace.Revoked](c.ctx, h.actors, toWorkspace(c.who.workspace(),
		workspace.RevokeKey{ID: key, By: c.who.asPrincipal()}))
	if err != nil {
		return answer{}, err
	}
	return reply(revoked)
}
