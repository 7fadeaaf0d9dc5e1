package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/actors"
	"purser/persistence"
	"purser/persistence/ident"
)

// Runtime is the part of the runtime that the processes use; *actors.System implements it.
type Runtime interface {
	// Ask sends a command to an actor and waits for its committed answer.
	Ask(ctx context.Context, e actors.Envelope) (reply any, err error)
	// AskInPrepare is Ask for the Prepare function of an Envelope.
	AskInPrepare(ctx context.Context, e actors.Envelope) (reply any, err error)
	// Record returns a record of a workspace; another workspace's is not_found.
	Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error)
	// Find returns a record of any workspace.
	Find(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error)
	// List returns a page of a workspace's records, newest first.
	List(ctx context.Context, kind, workspace, parent string, page persistence.Page) ([]persistence.Record, error)
	// Go runs a function in a goroutine until the runtime stops. Every calls one at a pace until
	// then.
	Go(run func(context.Context))
	Every(pace time.Duration, do func(context.Context))
	// Complain logs an error of an operation that is retried, not more often than the log can bear.
	Complain(operation string, err error, attributes ...any)
	// FireTimer has the actor of a timer decide the timer. The actor's answer goes to handleTimer.
	FireTimer(ctx context.Context, t persistence.Timer)
	Clock() time.Time
	// WallTime is the time of other machines.
	WallTime() time.Time
}

// readDocument reads a record of a workspace and decodes its document.
func readDocument[D any](ctx context.Context, r Runtime, kind, workspace, id string) (d D, err error) {
	record, err := r.Record(ctx, kind, workspace, id)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(record.Document, &d); err != nil {
		return d, fmt.Errorf("record %s: %w", kind, err)
	}
	return d, nil
}
