package main

import (
	"context"
	"sync"
)

// stores lets scrapes and operator's commands at the stores and the actors only while those are open: the admin port is there
// before them and after them.
type stores struct {
	mu     sync.RWMutex // held shared by whoever is at the stores
	open   bool
	ctx    context.Context // ends when the stores are about to be closed
	cancel context.CancelFunc
}

func newStores() *stores {
	s := &stores{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// enter returns a context that ends when the caller must hurry, and what the caller must call at the end.
func (s *stores) enter() (ctx context.Context, leave func(), err error) {
	s.mu.RLock()
	if !s.open || s.ctx.Err() != nil {
		s.mu.RUnlock()
		return nil, nil, errNotServing
	}
	return s.ctx, s.mu.RUnlock, nil
}

func (s *stores) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// close lets nobody in any more and returns when all have left.
func (s *stores) close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	return nil
}
