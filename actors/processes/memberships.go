package processes

import (
	"context"
	"time"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence"
)

// reactionKeyLife is how long the idempotency key of a reaction's command is kept. It is longer
// than any time between a crash and the start after which the reaction repeats the command.
const reactionKeyLife = 24 * time.Hour

// memberships keeps the list of workspaces of each user in step with the members of the workspaces.
// The list is only shown; the workspace decides what a member may do.
type memberships struct{ runtime Runtime }

// listMembership notes a change of a workspace's members in the lists of the users. It is the
// reaction "membership" to such events. It fails, and is repeated, for a damaged event and when a
// user's actor does not answer.
func (m *memberships) listMembership(ctx context.Context, e persistence.Event) error {
	event, err := workspace.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	join := func(id, name, userID, role string, foreign bool) error {
		return m.changeList(ctx, e, userID, user.Join{Workspace: id, Name: name, Role: role, Foreign: foreign})
	}
	switch event := event.(type) {
	case workspace.WorkspaceCreated:
		for _, owner := range event.Owners {
			if err := join(event.ID, event.Name, owner, workspace.Owner, owner != event.Founder); err != nil {
				return err
			}
		}
	case workspace.MemberAdded:
		return join(event.Workspace, event.Name, event.User, event.Role, true)
	case workspace.MemberRoleChanged:
		return join(event.Workspace, event.Name, event.User, event.Role, true)
	case workspace.WorkspaceRenamed:
		for _, member := range event.Members {
			if err := join(event.Workspace, event.Name, member.UserID, member.Role, true); err != nil {
				return err
			}
		}
	case workspace.MemberRemoved:
		return m.changeList(ctx, e, event.User, user.Leave{Workspace: event.Workspace})
	}
	return nil
}

// changeList sends a user's actor a command that an event causes, once: its idempotency key derives
// from the event. A deleted user has no list, which is no error. It fails when the actor does not
// answer.
func (m *memberships) changeList(ctx context.Context, cause persistence.Event, id string, command any) error {
	_, err := m.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindUser, Stream: id, Workspace: id, Command: command,
		Key: &actors.Key{Scope: "reaction", Key: "membership/" + cause.ID + "/" + id,
			Expires: m.runtime.Clock().Add(reactionKeyLife)}})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
