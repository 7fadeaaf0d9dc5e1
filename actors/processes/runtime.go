package processes

import (
	"context"
	"time"

	"purser/actors"
	"purser/actors/query"
	"purser/persistence"
)

// Runtime is the part of the runtime that the processes use; *actors.System implements it.
type Runtime interface {
	// Ask sends a command to an actor and waits for its committed answer.
	Ask(ctx context.Context, e actors.Envelope) (reply any, err error)
	query.Reader
	// Go runs a function in a goroutine until the runtime stops. Every calls one at a pace until
	// then.
	Go(run func(context.Context))
	Every(pace time.Duration, do func(context.Context))
	// Within is context.WithTimeout, for longer on a slow machine.
	Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Complain logs an error of an operation that is retried, not more often than the log can bear.
	Complain(operation string, err error, attributes ...any)
	// FireTimer has the actor of a timer decide the timer. The actor's answer goes to handleTimer.
	FireTimer(ctx context.Context, t persistence.Timer)
	Clock() time.Time
	// WallTime is the time of other machines.
	WallTime() time.Time
}
