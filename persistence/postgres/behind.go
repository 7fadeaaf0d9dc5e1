package postgres

import (
	"context"
	"maps"
	"sync"
	"time"
)

// BehindEvery is how long a value is kept in memory before it is written, and tried again after a failure.
const BehindEvery = 1 * time.Second

// Behind keeps values by key that are written behind, all that have changed together every BehindEvery: a statement for each
// would be most of what the server does. They are such that a crash may lose the last of them.
//
// While they cannot be written, Keep keeps nothing and answers why: who goes on would leave behind more than a moment's worth.
// How much is in memory is bounded by the keys there are.
type Behind[K comparable, V any] struct {
	write func(ctx context.Context, kept map[K]V) error
	wake  chan struct{} // holds one token when there is something to write
	turn  sync.Mutex    // of who writes

	mu      sync.Mutex
	dirty   map[K]V // to be written
	writing map[K]V // on their way; dirty has what was kept since
	failed  error   // of the last write; nil: it has succeeded
	refusal error   // nothing is kept any more
}

// NewBehind returns what writes by a function, one call at a time. An error of it has all of its values tried again, Again some.
func NewBehind[K comparable, V any](write func(ctx context.Context, kept map[K]V) error) *Behind[K, V] {
	return &Behind[K, V]{write: write, wake: make(chan struct{}, 1), dirty: map[K]V{}}
}

// Keep takes note of a value to write, in place of an earlier one of its key, or says why not.
func (b *Behind[K, V]) Keep(key K, value V) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusal != nil {
		return b.refusal
	}
	if b.failed != nil {
		return b.failed
	}
	b.dirty[key] = value
	b.awake()
	return nil
}

func (b *Behind[K, V]) awake() {
	select {
	case b.wake <- struct{}{}:
	default: // there is a token
	}
}

// Again has a value that is being written tried the next time, unless there is a later one.
func (b *Behind[K, V]) Again(key K, value V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, later := b.dirty[key]; !later {
		b.dirty[key] = value
	}
	b.awake()
}

// Pending is how many values wait to be written.
func (b *Behind[K, V]) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dirty)
}

// Failed is why the last write has failed, nil if it has not.
func (b *Behind[K, V]) Failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// Get returns a value that is not known to be written.
func (b *Behind[K, V]) Get(key K) (value V, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if value, kept = b.dirty[key]; !kept {
		value, kept = b.writing[key]
	}
	return value, kept
}

// Refuse has Keep answer an error from now on, and Run end.
func (b *Behind[K, V]) Refuse(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = why
	b.awake()
}

// Refusal is what Refuse was told, nil before.
func (b *Behind[K, V]) Refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal
}

// Run writes what is kept, BehindEvery after there is something, until alive ends or Refuse is called. It tells the first of
// several failures. Its writes do not end with alive: one that is given up could come after a later one.
func (b *Behind[K, V]) Run(alive context.Context, failed func(error)) {
	failing := false
	for {
		select {
		case <-alive.Done():
			return
		case <-b.wake:
		}
		select {
		case <-alive.Done():
			return
		case <-time.After(BehindEvery):
		}
		err := b.Flush(context.WithoutCancel(alive))
		if b.Refusal() != nil {
			return
		}
		if err != nil && !failing {
			failed(err)
		}
		failing = err != nil
	}
}

// Flush writes every value that was kept before the call, once; what is to be tried again waits for the next.
func (b *Behind[K, V]) Flush(ctx context.Context) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	kept := b.take()
	if len(kept) == 0 {
		return nil
	}
	err := b.write(ctx, kept)
	b.settle(err)
	return err
}

// take returns what is to be written. It is answered by Get until settle is told how that went.
func (b *Behind[K, V]) take() map[K]V {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing, b.dirty = b.dirty, map[K]V{}
	return b.writing
}

// settle has what could not be written tried again, but for what was kept since.
func (b *Behind[K, V]) settle(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed = err; err != nil {
		maps.Copy(b.writing, b.dirty)
		b.dirty = b.writing
		b.awake()
	}
	b.writing = nil
}
