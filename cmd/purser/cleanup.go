package main

import (
	"context"
	"errors"
	"sync"
)

// cleanupStack undoes the steps of a start in reverse order. It is used by one goroutine at a time.
type cleanupStack struct{ undo []func() error }

// push adds the cleanup of a step.
func (c *cleanupStack) push(undo func() error) { c.undo = append(c.undo, undo) }

// closeTo runs cleanups, newest first, until kept of them are left. It returns their errors joined.
func (c *cleanupStack) closeTo(kept int) error {
	var faults []error
	for len(c.undo) > kept {
		last := len(c.undo) - 1
		faults = append(faults, c.undo[last]())
		c.undo = c.undo[:last]
	}
	return errors.Join(faults...)
}

// goUntilClosed runs a function in the background. The cleanup ends its context and waits for it.
func (c *cleanupStack) goUntilClosed(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	c.push(func() error {
		cancel()
		running.Wait()
		return nil
	})
}
