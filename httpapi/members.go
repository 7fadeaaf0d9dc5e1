package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/actors/workspace"
)

// memberRoutes returns the routes of a workspace's members.
func (h *workspaceHandlers) memberRoutes() []route {
	const path = "/api/dashboard/members"
	owner := []string{workspace.Owner}
	return []route{
		{method: "GET", path: path, auth: authSession, roles: owner, query: pageQuery, handle: h.listMembers},
		{method: "POST", path: path, auth: authSession, roles: owner, idempotency: keyOptional, handle: h.inviteMember},
		{method: "PATCH", path: path + "/{userId}", auth: authSession, roles: owner, handle: h.changeMember},
		{method: "DELETE", path: path + "/{userId}", auth: authSession, roles: owner,
			query: []string{"keepKeys", "keepEndpoints"}, handle: h.removeMember},
		{method: "POST", path: path + "/leave", onFullDisk: true, auth: authSession, roles: anyRole(),
			handle: h.leaveWorkspace},
	}
}

func anyRole() []string { return []string{workspace.Owner, workspace.Admin, workspace.Member} }

// memberDocument is a member in the interface.
type memberDocument struct {
	UserID string         `json:"userId"`
	Email  string         `json:"email"`
	Role   string         `json:"role"`
	Since  decision.Stamp `json:"since"`
	// EmailChangedAt is the time of the last change of the email, nil for the email of the sign-up.
	EmailChangedAt *decision.Stamp `json:"emailChangedAt"`
}

func (h *workspaceHandlers) showMember(c *call, p workspace.Person) (memberDocument, error) {
	credential, err := h.accounts.readCredential(c.ctx, p.UserID)
	shown := memberDocument{UserID: p.UserID, Email: credential.Email, Role: p.Role, Since: p.Since}
	if !credential.EmailChangedAt.IsZero() {
		shown.EmailChangedAt = &credential.EmailChangedAt
	}
	return shown, err
}

// listMembers handles GET /api/dashboard/members, for owners. It fails like listInState.
func (h *workspaceHandlers) listMembers(c *call) (answer, error) {
	people, err := ask[[]workspace.Person](c.ctx, h.actors,
		toWorkspace(c.who.workspace(), workspace.ListMembers{By: c.who.asPrincipal()}))
	if err != nil {
		return answer{}, err
	}
	return listInState(c, "member", people,
		func(p workspace.Person) time.Time { return p.Since.Time },
		func(p workspace.Person) (any, error) { return h.showMember(c, p) })
}

// changeMember handles PATCH /api/dashboard/members/{userId}: it gives a member another role. It
// fails with invalid_body, with not_found for an unknown member or kept endpoint, and with the
// workspace's refusal, such as for its last owner.
func (h *workspaceHandlers) changeMember(c *call) (answer, error) {
	var body struct {
		Role          string   `json:"role"`
		KeepKeys      []string `json:"keepKeys"`
		KeepEndpoints []string `json:"keepEndpoints"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	command := workspace.ChangeRole{UserID: c.params["userId"], Role: body.Role, KeepKeys: body.KeepKeys,
		KeepEndpoints: body.KeepEndpoints, By: c.who.asPrincipal()}
	endpoints, err := h.endingEndpoints(c, command.UserID, command.KeepEndpoints)
	if err != nil {
		return answer{}, err
	}
	if workspace.Manages(body.Role) {
		endpoints = []string{}
	}
	return h.answerEnded(c, command, endpoints)
}

// removeMember handles DELETE /api/dashboard/members/{userId}: it removes a user from the
// workspace. Once it is answered, the user's sessions have no access, the keys that descend from
// the user are revoked, except the kept ones, and no delivery to the user's webhook endpoints
// begins. It fails with invalid_query, with not_found, and with the workspace's refusal, such as
// for its last owner.
func (h *workspaceHandlers) removeMember(c *call) (answer, error) {
	keys, err := c.readKept("keepKeys", workspace.MaxKeptKeys)
	if err != nil {
		return answer{}, err
	}
	endpoints, err := c.readKept("keepEndpoints", webhook.MaxPerWorkspace)
	if err != nil {
		return answer{}, err
	}
	return h.endMembership(c, workspace.RemoveMember{UserID: c.params["userId"], KeepKeys: keys,
		KeepEndpoints: endpoints, By: c.who.asPrincipal()})
}

// readKept reads the ids of a parameter, separated by commas. It fails with invalid_query for more
// than most ids, and for a user who removes itself.
func (c *call) readKept(parameter string, most int) ([]string, error) {
	if c.query[parameter] == "" {
		return nil, nil
	}
	if c.params["userId"] == c.who.user {
		return nil, fault.New(fault.InvalidQuery, parameter+": a member who leaves keeps nothing")
	}
	ids := strings.Split(c.query[parameter], ",")
	if len(ids) > most {
		return nil, fault.New(fault.InvalidQuery, fmt.Sprintf("%s names at most %d", parameter, most))
	}
	return ids, nil
}

func (h *workspaceHandlers) leaveWorkspace(c *call) (answer, error) {
	return h.endMembership(c, workspace.RemoveMember{UserID: c.who.user, By: c.who.asPrincipal()})
}

// endMembership removes a member. The endpoints that end are read before: the runtime removes them
// as it follows the journal. It fails with not_found for an unknown kept endpoint, and with the
// workspace's refusal.
func (h *workspaceHandlers) endMembership(c *call, command workspace.RemoveMember) (answer, error) {
	endpoints, err := h.endingEndpoints(c, command.UserID, command.KeepEndpoints)
	if err != nil {
		return answer{}, err
	}
	return h.answerEnded(c, command, endpoints)
}

// answerEnded sends the command that removes a member or changes the role, and answers what ended
// with it. It fails with the workspace's refusal.
func (h *workspaceHandlers) answerEnded(c *call, command any, endpoints []string) (answer, error) {
	ended, err := ask[workspace.MemberEnded](c.ctx, h.actors, toWorkspace(c.who.workspace(), command))
	if err != nil {
		return answer{}, err
	}
	shown, err := h.showMember(c, ended.Person)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"member": shown, "revokedKeys": ended.Revoked, "removedEndpoints": endpoints})
}

// endingEndpoints lists the ids of the webhook endpoints that a member made and that are not kept,
// oldest first. A kept id that is no endpoint of the workspace is not_found.
func (h *workspaceHandlers) endingEndpoints(c *call, member string, keep []string) ([]string, error) {
	records, err := query.Endpoints.List(c.ctx, h.actors, c.who.workspace(), "",
		query.Page{Limit: webhook.MaxPerWorkspace})
	if err != nil {
		return nil, err
	}
	ending, active := []string{}, map[string]bool{}
	for i := len(records) - 1; i >= 0; i-- {
		endpoint := &records[i].Document
		active[endpoint.ID] = true
		if endpoint.MadeBy(member) && !slices.Contains(keep, endpoint.ID) {
			ending = append(ending, endpoint.ID)
		}
	}
	for _, id := range keep {
		if !active[id] {
			return nil, fault.New(fault.NotFound, "")
		}
	}
	return ending, nil
}
