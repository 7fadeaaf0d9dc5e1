package httpapi

import (
	"fmt"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence"
)

func (s *Server) memberRoutes() []route {
	const path = "/api/dashboard/members"
	owner := []string{workspace.Owner}
	return []route{
		{method: "GET", path: path, auth: authSession, roles: owner, query: pageQuery, handle: s.listMembers},
		{method: "POST", path: path, auth: authSession, roles: owner, idempotency: keyOptional, handle: s.addMember},
		{method: "DELETE", path: path + "/{userId}", auth: authSession, roles: owner, handle: s.removeMember},
	}
}

// memberDocument is a member as the interface shows it.
type memberDocument struct {
	UserID string         `json:"userId"`
	Email  string         `json:"email"`
	Role   string         `json:"role"`
	Since  decision.Stamp `json:"since"`
}

func (s *Server) showMember(c *call, p workspace.Person) (memberDocument, error) {
	credential, err := s.readCredential(c.ctx, p.UserID)
	return memberDocument{UserID: p.UserID, Email: credential.Email, Role: p.Role, Since: p.Since}, err
}

// askWorkspace sends a command to the session's workspace.
func (s *Server) askWorkspace(c *call, command any) (any, error) {
	id := c.who.workspace()
	return s.actors.Ask(c.ctx, actors.Envelope{Kind: "workspace", Stream: id, Workspace: id, Command: command})
}

// listMembers pages through the members, who are few and all in the workspace's state: newest first, like every list. The
// cursor is the moment they came, and their place among those who came in that moment.
func (s *Server) listMembers(c *call) (answer, error) {
	l := listing{kind: "member", workspace: c.who.workspace()}
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	read, err := s.askWorkspace(c, workspace.ListMembers{By: c.who.principal()})
	if err != nil {
		return answer{}, err
	}
	people, ok := read.([]workspace.Person)
	if !ok {
		return answer{}, fmt.Errorf("members answered %T", read)
	}
	out := page{Data: []any{}}
	var last persistence.Record
	for i := len(people) - 1; i >= 0; i-- {
		at := persistence.Record{Position: uint64(people[i].Since.UnixMilli()), Ordinal: uint32(i)}
		if asked.AfterPosition > 0 && !comesAfter(at, asked) {
			continue
		}
		if len(out.Data) == asked.Limit {
			out.NextCursor = l.cursor(last)
			break
		}
		shown, err := s.showMember(c, people[i])
		if err != nil {
			return answer{}, err
		}
		out.Data, last = append(out.Data, shown), at
	}
	return reply(out)
}

// comesAfter says whether an entry stands behind the cursor of a list that is newest first.
func comesAfter(r persistence.Record, p persistence.Page) bool {
	return r.Position < p.AfterPosition || r.Position == p.AfterPosition && r.Ordinal < p.AfterOrdinal
}

// addMember gives the user of an email a role; one who has another role gets the new one.
func (s *Server) addMember(c *call) (answer, error) {
	var body struct {
		Email string `json:"email"`
		Role  string `json:"role"`
	}
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(body.Email)
	if !ok {
		return answer{}, fault.New(fault.InvalidBody, "email must be an email address")
	}
	id, credential, err := s.credentialOf(c.ctx, folded)
	if err != nil {
		return answer{}, err
	}
	if id == "" {
		return answer{}, fault.New(fault.NotFound, "")
	}
	owned := c.who.workspace()
	return s.perform(c, actors.Envelope{Kind: "workspace", Stream: owned, Workspace: owned,
		Command: workspace.AddMember{UserID: id, Role: body.Role, By: c.who.principal()}}, func(reply any) (answer, error) {
		p, ok := reply.(workspace.Person)
		if !ok {
			return answer{}, fmt.Errorf("add member answered %T", reply)
		}
		return replyMember(memberDocument{UserID: id, Email: credential.Email, Role: p.Role, Since: p.Since})
	})
}

func replyMember(m memberDocument) (answer, error) { return reply(map[string]any{"member": m}) }

// removeMember takes a user out; the sessions of that user have no say in the workspace once it is answered.
func (s *Server) removeMember(c *call) (answer, error) {
	removed, err := s.askWorkspace(c, workspace.RemoveMember{UserID: c.params["userId"], By: c.who.principal()})
	if err != nil {
		return answer{}, err
	}
	p, ok := removed.(workspace.Person)
	if !ok {
		return answer{}, fmt.Errorf("remove member answered %T", removed)
	}
	shown, err := s.showMember(c, p)
	if err != nil {
		return answer{}, err
	}
	return replyMember(shown)
}
