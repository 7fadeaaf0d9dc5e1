package processes

import (
	"context"

	"purser/actors"
	"purser/actors/user"
	"purser/persistence"
)

// emails ends the claims of emails that no account has any more.
type emails struct{ runtime Runtime }

// endClaim releases the old email after a change, and the new one of a change that did not happen.
// It is the reaction "emails" to such events. It fails, and is repeated, for a damaged event and
// when the address's actor does not answer. A repeat changes nothing.
func (m *emails) endClaim(ctx context.Context, e persistence.Event) error {
	event, err := user.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case user.EmailChanged:
		return m.askAddress(ctx, event.Old.Address,
			user.ReleaseEmail{EmailHash: event.Old.EmailHash, Generation: event.Old.Generation})
	case user.EmailChangeEnded:
		return m.askAddress(ctx, event.Change.Address, user.AbandonEmail{EmailHash: event.Change.EmailHash,
			UserID: event.User, Change: event.Change.Number})
	}
	return nil
}

// askAddress sends a command to the actor of an email. It fails when the actor does not answer.
func (m *emails) askAddress(ctx context.Context, id string, command any) error {
	_, err := m.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindAddress, Stream: id, Workspace: id,
		Command: command})
	return err
}
