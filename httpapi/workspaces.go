package httpapi

import (
	"fmt"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// issuerAccount prefixes the id of a workspace's account at the issuing partner.
const issuerAccount = "iss"

// workspaceHandlers serve workspaces, their API keys, members and invitations.
type workspaceHandlers struct {
	*edge
	accounts accountReader
}

func (h *workspaceHandlers) workspaceRoutes() []route {
	return []route{
		{method: "POST", path: "/api/workspaces", auth: authKeyOrSession, scope: "write:api_keys",
			idempotency: keyOptional,
			handle:      h.createWorkspace},
		{method: "GET", path: "/api/workspaces", auth: authKey, handle: h.getWorkspace},
		{method: "GET", path: "/api/dashboard/workspace", auth: authSession, roles: managers, handle: h.getWorkspace},
		{method: "PATCH", path: "/api/dashboard/workspace", auth: authSession, roles: managers,
			handle: h.renameWorkspace},
	}
}

// getWorkspace handles GET /api/workspaces and GET /api/dashboard/workspace: the workspace of the
// API key or of the session. It fails only with an error of the store.
func (h *workspaceHandlers) getWorkspace(c *call) (answer, error) {
	id := c.who.workspace()
	view, err := ask[workspace.View](c.ctx, h.actors, toWorkspace(id, decision.Read{}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"workspace": view})
}

// renameWorkspace handles PATCH /api/dashboard/workspace. The lists of the members show the new
// name soon after the answer. It fails with invalid_body, and with role_required for a member.
func (h *workspaceHandlers) renameWorkspace(c *call) (answer, error) {
	var body struct {
		Name string `json:"name"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	view, err := ask[workspace.View](c.ctx, h.actors,
		toWorkspace(c.who.workspace(), workspace.Rename{Name: body.Name, By: c.who.asPrincipal()}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"workspace": view})
}

// createWorkspace handles POST /api/workspaces: it creates a workspace and its first key. The claim
// of an Idempotency-Key is stored in the new workspace's shard, so the key determines the slot: a
// repeat reads the shard of the first request. It fails with invalid_body, and with limit_exceeded
// like roomAmong.
func (h *workspaceHandlers) createWorkspace(c *call) (answer, error) {
	var body struct {
		Name string `json:"name"`
		Plan string `json:"plan"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	slot, err := h.slotOfNew(c)
	if err != nil {
		return answer{}, err
	}
	u, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	id := u.Format(ident.Workspace)
	key, secret, err := h.newKey(c, slot, "first key", nil)
	if err != nil {
		return answer{}, err
	}
	create := workspace.Create{ID: id, Name: body.Name, Plan: body.Plan, IssuerID: u.Format(issuerAccount),
		IssuerFixture: h.cfg.Issuer == IssuerFixture, FirstKey: key}
	a, err := askPrepared(h.edge, c, toWorkspace(id, nil), func() (_ any, err error) {
		create.OwnerIDs, create.Founder, err = h.ownersOfNew(c)
		return create, err
	}, func(created workspace.Created) (answer, error) {
		return replyKey(map[string]any{"workspace": created.Workspace}, created.APIKey, secret)
	})
	if err == nil && c.who.user != "" && !a.replayed {
		h.listAtOnce(c, id, body.Name)
	}
	return a, err
}

// slotOfNew returns the slot of a new workspace: that of its Idempotency-Key, or a random one
// without a key. It fails only without entropy.
func (h *workspaceHandlers) slotOfNew(c *call) (ident.Slot, error) {
	if c.key == "" {
		return ident.RandomSlot(h.actors.Entropy())
	}
	return h.actors.TenantSlot(c.onceName()), nil
}

// ownersOfNew returns the owners of a new workspace: the session's user, or the owners of the key's
// workspace. The workspace counts among the founder's own. The founder is the session's user, or
// the owner from whom the key descends, if any. It fails like roomAmong.
func (h *workspaceHandlers) ownersOfNew(c *call) (owners []string, founder string, err error) {
	owners, founder = []string{c.who.user}, c.who.user
	if c.who.user == "" {
		state, err := readOwn(h.edge, c, query.Workspaces, c.who.workspace())
		if err != nil {
			return nil, "", err
		}
		owners, founder = state.OwnersBehind(c.who.access.Principal.KeyID)
	}
	return owners, founder, h.roomAmong(c, owners, founder)
}

// roomAmong returns limit_exceeded when the founder already has user.MaxOwn own workspaces, or when
// another owner has user.MaxGiven workspaces of other people: an owner's list keeps places for
// invitations. Other errors are the store's.
func (h *workspaceHandlers) roomAmong(c *call, owners []string, founder string) error {
	for _, owner := range owners {
		state, err := query.Users.Read(c.ctx, h.actors, owner, owner)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return err
		case owner == founder && !user.HasRoom(state.Workspaces, false):
			return fault.New(fault.LimitExceeded, fmt.Sprintf("a user makes at most %d workspaces", user.MaxOwn))
		case owner != founder && !user.HasRoomForGiven(state.Workspaces):
			return fault.New(fault.LimitExceeded, fmt.Sprintf("an owner of the key's workspace has %d workspaces of "+
				"others, and keys make no more; a session still does", user.MaxGiven))
		}
	}
	return nil
}

// listAtOnce adds the new workspace to its user's list before the answer. The reaction to
// workspace.created does the same later, so a failure here loses nothing.
func (h *workspaceHandlers) listAtOnce(c *call, id, name string) {
	_, err := h.actors.Ask(c.ctx, toUser(c.who.user, user.Join{Workspace: id, Name: name, Role: workspace.Owner}))
	if err != nil {
		h.log.Warn("workspace not yet in its owner's list", "err", err)
	}
}
