package processes

import (
	"context"
	"slices"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

// maxScanned bounds the events that a search for a departure reads at a time.
const maxScanned = 256

// departure is the end of a user's right to have webhook endpoints in a workspace. The endpoints
// that the user made before it, by position in the shard, end, but for the kept ones, which become
// those of the user by.
type departure struct {
	workspace, user, by string
	kept                []string
	position            uint64
}

// departureOf returns the departure that an event of a workspace records; false when it records
// none. It fails only for a damaged event.
func departureOf(e *persistence.Event) (departure, bool, error) {
	event, err := workspace.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return departure{}, false, err
	}
	switch event := event.(type) {
	case workspace.MemberRemoved:
		return departure{workspace: event.Workspace, user: event.User, by: event.By, kept: event.KeptEndpoints,
			position: e.Position}, true, nil
	case workspace.MemberRoleChanged:
		return departure{workspace: event.Workspace, user: event.User, by: event.By, kept: event.KeptEndpoints,
			position: e.Position}, !workspace.Manages(event.Role), nil
	}
	return departure{}, false, nil
}

// endUnmanaged is the reaction "endpoints" to the removal of a member, to the loss of the role that
// may have endpoints, and to a new endpoint. It removes the endpoints whose maker may not have
// them, or gives the kept ones to the person who made the change. It fails, and is repeated, when a
// record or actor does not answer. No attempt to such an endpoint begins from the event on; see
// mayReceive.
func (w *Webhooks) endUnmanaged(ctx context.Context, e persistence.Event) error {
	if e.Kind == actors.KindWebhook {
		return w.removeUnlessManaged(ctx, &e)
	}
	d, departs, err := departureOf(&e)
	if !departs || err != nil {
		return err
	}
	return w.removeOrAdopt(ctx, d)
}

// removeUnlessManaged removes a new endpoint whose maker departed between the check of the role and
// the registration. A departure after the registration ends or keeps the endpoint itself. It fails
// when the journal or an actor does not answer; an endpoint that is gone is no error.
func (w *Webhooks) removeUnlessManaged(ctx context.Context, e *persistence.Event) error {
	endpoint, err := query.Endpoints.Read(ctx, w.runtime, e.Workspace, e.Stream)
	if err != nil {
		return exceptNotFound(err)
	}
	if may, err := w.mayReceive(ctx, e.Workspace, endpoint.View); may || err != nil {
		return err
	}
	if follows, err := w.departsAfter(ctx, e, endpoint.CreatedBy); follows || err != nil {
		return err
	}
	_, err = w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWebhook, Stream: e.Stream, Workspace: e.Workspace,
		Command: webhook.Remove{}})
	return exceptNotFound(err)
}

// departsAfter reports whether the journal has a departure of a user after an event of the
// workspace. It fails when the journal cannot be read, or for a damaged event.
func (w *Webhooks) departsAfter(ctx context.Context, e *persistence.Event, user string) (bool, error) {
	slot, err := ident.SlotOf(e.Workspace)
	if err != nil {
		return false, err
	}
	for after := e.Position; ; {
		events, err := w.journal.Events(ctx, slot.Shard(), after, maxScanned)
		if len(events) == 0 || err != nil {
			return false, err
		}
		for i := range events {
			later := &events[i]
			after = later.Position
			if later.Kind != actors.KindWorkspace || later.Workspace != e.Workspace {
				continue
			}
			if d, departs, err := departureOf(later); err != nil || departs && d.user == user {
				return departs, err
			}
		}
	}
}

// removeOrAdopt removes the endpoints that a departed user made before the departure. The kept ones
// become those of the user who made the change. It fails when the endpoints cannot be listed or one
// does not answer; a repeat continues.
func (w *Webhooks) removeOrAdopt(ctx context.Context, d departure) error {
	records, err := query.Endpoints.List(ctx, w.runtime, d.workspace, "", query.Page{Limit: webhook.MaxPerWorkspace})
	if err != nil {
		return err
	}
	for i := range records {
		endpoint := records[i].Document
		if !endpoint.MadeBy(d.user) || records[i].Place.Position > d.position {
			continue
		}
		var command any = webhook.Remove{}
		if slices.Contains(d.kept, endpoint.ID) {
			command = webhook.Adopt{Endpoint: endpoint, By: d.by}
		}
		_, err := w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWebhook, Stream: endpoint.ID,
			Workspace: d.workspace, Command: command})
		if err := exceptNotFound(err); err != nil {
			return err
		}
	}
	return nil
}

// mayReceive reports whether an endpoint's maker still has a role that may have endpoints. It
// fails when the workspace's actor does not answer. Each attempt asks it before it sends.
func (w *Webhooks) mayReceive(ctx context.Context, owner string, endpoint webhook.View) (bool, error) {
	access, err := actors.ReplyAs[workspace.Access](w.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindWorkspace,
		Stream: owner, Workspace: owner,
		Command: workspace.LookUpRole{UserID: endpoint.CreatedBy}}))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return workspace.Manages(access.Role), nil
}
