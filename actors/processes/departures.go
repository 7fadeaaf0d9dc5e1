package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/persistence"
)

// departure is the end of a user's right to have webhook endpoints in a workspace. The endpoints
// that the user made until then end, but for the kept ones, which become those of the user by.
type departure struct {
	workspace, user, by string
	kept                []string
	at                  decision.Stamp
}

// endDeparted is the reaction to a member who is removed or loses the role that may have endpoints.
// No attempt to such an endpoint begins from the event on; see mayReceive.
func (w *Webhooks) endDeparted(ctx context.Context, e persistence.Event) error {
	event, err := workspace.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case workspace.MemberRemoved:
		return w.removeOrAdopt(ctx, departure{workspace: event.Workspace, user: event.User, by: event.By,
			kept: event.KeptEndpoints, at: event.At})
	case workspace.MemberRoleChanged:
		if !workspace.Manages(event.Role) {
			return w.removeOrAdopt(ctx, departure{workspace: event.Workspace, user: event.User, by: event.By,
				kept: event.KeptEndpoints, at: event.At})
		}
	}
	return nil
}

func (w *Webhooks) removeOrAdopt(ctx context.Context, d departure) error {
	records, err := w.runtime.List(ctx, webhook.RecordEndpoint, d.workspace, "",
		persistence.Page{Limit: webhook.MaxPerWorkspace})
	if err != nil {
		return err
	}
	for i := range records {
		var endpoint webhook.Endpoint
		if err := json.Unmarshal(records[i].Document, &endpoint); err != nil {
			return fmt.Errorf("endpoint's record: %w", err)
		}
		if !endpoint.MadeBy(d.user) || endpoint.CreatedAt.After(d.at.Time) {
			continue
		}
		var command any = webhook.Remove{}
		if slices.Contains(d.kept, endpoint.ID) {
			command = webhook.Adopt{Endpoint: endpoint, By: d.by}
		}
		_, err := w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWebhook, Stream: endpoint.ID,
			Workspace: d.workspace, Command: command})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// mayReceive reports whether an endpoint's maker still has a role that may have endpoints. An
// endpoint of an older version has no maker, and may.
func (w *Webhooks) mayReceive(ctx context.Context, owner string, endpoint webhook.View) (bool, error) {
	if endpoint.CreatedBy == nil {
		return true, nil
	}
	access, err := actors.ReplyAs[workspace.Access](w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWorkspace,
		Stream: owner, Workspace: owner,
		Command: workspace.LookUpRole{UserID: *endpoint.CreatedBy}}))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return workspace.Manages(access.Role), nil
}
