package actors

import (
	"context"
)

// Hooks are the functions of the processes that the runtime calls. A nil function is not called.
type Hooks struct {
	// Reactions carry events to other actors and to partners.
	Reactions []Reaction
	// TimerAnswered is called with each reply of an actor to its timer; the reply is nil when the
	// actor refused. It must return at once.
	TimerAnswered func(workspace string, reply any)
	// BeforeLoops is called once, after the authorizer has followed the journal and before the
	// loops and the reactions start. It delays the start.
	BeforeLoops func(ctx context.Context)
	// Loops run from the start on, each in a goroutine of its own, until the System stops.
	Loops []func(ctx context.Context)
	// Housekeep is called every Config.HousekeepEvery.
	Housekeep func(ctx context.Context)
}
