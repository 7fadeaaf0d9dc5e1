package httpapi

import (
	"fmt"
	"strings"
	"time"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/persistence"
)

func (h *workspaceHandlers) memberRoutes() []route {
	const path = "/api/dashboard/members"
	owner := []string{workspace.Owner}
	return []route{
		{method: "GET", path: path, auth: authSession, roles: owner, query: pageQuery, handle: h.listMembers},
		{method: "POST", path: path, auth: authSession, roles: owner, idempotency: keyOptional, handle: h.inviteMember},
		{method: "DELETE", path: path + "/{userId}", auth: authSession, roles: owner, query: []string{"keepKeys"},
			handle: h.removeMember},
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
}

func (h *workspaceHandlers) showMember(c *call, p workspace.Person) (memberDocument, error) {
	credential, err := h.accounts.readCredential(c.ctx, p.UserID)
	return memberDocument{UserID: p.UserID, Email: credential.Email, Role: p.Role, Since: p.Since}, err
}

// askWorkspace sends a command to the session's workspace.
func (h *workspaceHandlers) askWorkspace(c *call, command any) (any, error) {
	id := c.who.workspace()
	return h.actors.Ask(c.ctx, actors.Envelope{Kind: actors.KindWorkspace, Stream: id, Workspace: id, Command: command})
}

func (h *workspaceHandlers) listMembers(c *call) (answer, error) {
	read, err := h.askWorkspace(c, workspace.ListMembers{By: c.who.asPrincipal()})
	if err != nil {
		return answer{}, err
	}
	people, ok := read.([]workspace.Person)
	if !ok {
		return answer{}, fmt.Errorf("members answered %T", read)
	}
	return listInState(c, "member", people,
		func(p workspace.Person) time.Time { return p.Since.Time },
		func(p workspace.Person) (any, error) { return h.showMember(c, p) })
}

// listInState answers a page of a list that the workspace's state holds whole, given oldest first.
// Like every list it shows the newest first. A cursor holds the time of an entry in milliseconds
// and its index in the list.
func listInState[T any](c *call, kind string, all []T, at func(T) time.Time, show func(T) (any, error)) (answer,
	error) {
	l := listing{kind: kind, workspace: c.who.workspace()}
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	out := page{Data: []any{}}
	var last persistence.Record
	for i := len(all) - 1; i >= 0; i-- {
		place := persistence.Record{Position: uint64(at(all[i]).UnixMilli()), Ordinal: uint32(i)}
		if asked.AfterPosition > 0 && !comesAfter(place, asked) {
			continue
		}
		if len(out.Data) == asked.Limit {
			out.NextCursor = l.cursorBehind(last)
			break
		}
		shown, err := show(all[i])
		if err != nil {
			return answer{}, err
		}
		out.Data, last = append(out.Data, shown), place
	}
	return reply(out)
}

// comesAfter reports whether an entry is behind the cursor of a list that is newest first.
func comesAfter(r persistence.Record, p persistence.Page) bool {
	return r.Position < p.AfterPosition || r.Position == p.AfterPosition && r.Ordinal < p.AfterOrdinal
}

// removeMember removes a user from the workspace. Once it is answered, the user's sessions have no
// access, and the keys that descend from the user are revoked, except the kept ones.
func (h *workspaceHandlers) removeMember(c *call) (answer, error) {
	keep, err := readKeepKeys(c.query["keepKeys"])
	if err != nil {
		return answer{}, err
	}
	member := c.params["userId"]
	if member == c.who.user && len(keep) > 0 {
		return answer{}, fault.New(fault.InvalidQuery, "keepKeys: a member who leaves keeps no keys")
	}
	return h.endMembership(c, workspace.RemoveMember{UserID: member, KeepKeys: keep, By: c.who.asPrincipal()})
}

// readKeepKeys reads ids separated by commas.
func readKeepKeys(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	ids := strings.Split(text, ",")
	if len(ids) > workspace.MaxKeptKeys {
		return nil, fault.New(fault.InvalidQuery, fmt.Sprintf("keepKeys names at most %d keys", workspace.MaxKeptKeys))
	}
	return ids, nil
}

func (h *workspaceHandlers) leaveWorkspace(c *call) (answer, error) {
	return h.endMembership(c, workspace.RemoveMember{UserID: c.who.user, By: c.who.asPrincipal()})
}

func (h *workspaceHandlers) endMembership(c *call, command workspace.RemoveMember) (answer, error) {
	reached, err := h.askWorkspace(c, command)
	if err != nil {
		return answer{}, err
	}
	removed, ok := reached.(workspace.Removed)
	if !ok {
		return answer{}, fmt.Errorf("remove member answered %T", reached)
	}
	shown, err := h.showMember(c, removed.Person)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"member": shown, "revokedKeys": removed.Revoked})
}
