package actors

import (
	"context"
	"slices"
	"sync"
)

// progress is a number that only grows. Goroutines wait for it to reach a value. It is safe for
// concurrent use.
type progress struct {
	mu      sync.Mutex
	value   uint64
	waiting []waiter
}

type waiter struct {
	reach uint64
	then  func()
	done  chan struct{} // identifies the waiter of a call of wait
}

func (p *progress) load() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value
}

// advance raises the value and runs, on the calling goroutine, the functions that waited for it. A
// lower value changes nothing.
func (p *progress) advance(value uint64) {
	p.mu.Lock()
	if value <= p.value {
		p.mu.Unlock()
		return
	}
	p.value = value
	var ready []waiter
	kept := p.waiting[:0]
	for _, w := range p.waiting {
		if w.reach <= value {
			ready = append(ready, w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
	p.mu.Unlock()
	for _, w := range ready {
		w.then()
	}
}

// whenReached calls then once the value has reached reach: at once, on the calling goroutine, if it
// already has. then must not block.
func (p *progress) whenReached(reach uint64, then func()) {
	p.mu.Lock()
	if p.value >= reach {
		p.mu.Unlock()
		then()
		return
	}
	p.waiting = append(p.waiting, waiter{reach: reach, then: then})
	p.mu.Unlock()
}

// wait blocks until the value has reached reach. It fails only when the context ends first, with
// the context's error.
func (p *progress) wait(ctx context.Context, reach uint64) error {
	done := make(chan struct{})
	p.mu.Lock()
	if p.value >= reach {
		p.mu.Unlock()
		return nil
	}
	p.waiting = append(p.waiting, waiter{reach, func() { close(done) }, done})
	p.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = slices.DeleteFunc(p.waiting, func(w waiter) bool { return w.done == done })
		return ctx.Err()
	}
}
