package main

import (
	"context"
	"sync"
)

// gate admits scrapes and operators' commands to the stores only while it is open. The admin port
// runs before and after.
type gate struct {
	mu     sync.RWMutex // held shared by each caller inside
	open   bool
	ctx    context.Context // ends when the gate is about to be closed
	cancel context.CancelFunc
}

func newGate() *gate {
	g := &gate{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// enter returns a context that ends when the gate is about to close, and a function that the caller
// must call at the end. It fails with errNotServing before opened and after close has begun.
func (g *gate) enter() (ctx context.Context, leave func(), err error) {
	g.mu.RLock()
	if !g.open || g.ctx.Err() != nil {
		g.mu.RUnlock()
		return nil, nil, errNotServing
	}
	return g.ctx, g.mu.RUnlock, nil
}

func (g *gate) opened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}

// close admits no further caller and returns when all have left.
func (g *gate) close() error {
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
	return nil
}

// operatorCommand is httpapi.Command.Do.
type operatorCommand = func(ctx context.Context, body []byte) (any, error)

// whileOpen returns do as a command that runs only while the gate is open. Its context ends before
// the gate closes. It fails with errNotServing while the gate is not open, and with do's error.
func (g *gate) whileOpen(do operatorCommand) operatorCommand {
	return func(ctx context.Context, body []byte) (any, error) {
		open, leave, err := g.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(open, cancel)()
		return do(ctx, body)
	}
}
