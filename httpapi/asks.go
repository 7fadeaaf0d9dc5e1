package httpapi

import (
	"context"

	"purser/actors"
)

// ask sends a command to an actor and returns its reply, whose type the command determines.
func ask[R any](ctx context.Context, to Actors, e actors.Envelope) (R, error) {
	return actors.ReplyAs[R](to.Ask(ctx, e))
}

// toBalance addresses a command to the balance of a workspace.
func toBalance(workspace string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindBalance, Stream: workspace, Workspace: workspace, Command: command}
}

// toRamp addresses a command to the ramp account of a workspace.
func toRamp(workspace string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindRamp, Stream: workspace, Workspace: workspace, Command: command}
}

// toWorkspace addresses a command to a workspace.
func toWorkspace(id string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindWorkspace, Stream: id, Workspace: id, Command: command}
}

// toUser addresses a command to a user.
func toUser(id string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindUser, Stream: id, Workspace: id, Command: command}
}
