package postgres

import (
	"context"
	"maps"
	"sync"
	"time"
)

// WriteBehindInterval is the interval of the stores: how long a value stays in memory before it is
// written, and the pause before a failed write is retried.
const WriteBehindInterval = 1 * time.Second

// WriteBehind buffers values by key and writes all changed ones together once per interval.
// A statement for each value would be most of the server's work. A crash may lose the values of the
// last interval, so callers must be able to derive them again.
//
// While the last write has failed, Put stores nothing and returns that write's error. Otherwise a
// caller could get further ahead of the stored value than one interval. The number of keys bounds
// the memory. All methods are safe for concurrent use.
type WriteBehind[K comparable, V any] struct {
	interval time.Duration
	write    func(ctx context.Context, values map[K]V) error
	wake     chan struct{} // holds one token when a value is dirty
	flushing sync.Mutex    // serializes writes

	mu      sync.Mutex
	dirty   map[K]V // to be written
	writing map[K]V // passed to write, which has not returned; dirty holds later values
	failed  error   // of the last write; nil after a success
	refusal error   // once set, Put stores nothing
}

// NewWriteBehind returns a WriteBehind that calls write, one call at a time, once per interval. After
// an error all values of the call are written again. A write that succeeds in part calls Retry for
// the others.
func NewWriteBehind[K comparable, V any](
	interval time.Duration, write func(ctx context.Context, values map[K]V) error,
) *WriteBehind[K, V] {
	return &WriteBehind[K, V]{interval: interval, write: write, wake: make(chan struct{}, 1), dirty: map[K]V{}}
}

// Put stores a value to be written and replaces an earlier one of its key. It returns the error of
// Refuse or of the last write, and then stores nothing.
func (b *WriteBehind[K, V]) Put(key K, value V) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusal != nil {
		return b.refusal
	}
	if b.failed != nil {
		return b.failed
	}
	b.dirty[key] = value
	b.wakeRun()
	return nil
}

func (b *WriteBehind[K, V]) wakeRun() {
	select {
	case b.wake <- struct{}{}:
	default: // the token is there already
	}
}

// Retry marks a value for the next write, unless a later one of its key is stored.
func (b *WriteBehind[K, V]) Retry(key K, value V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, later := b.dirty[key]; !later {
		b.dirty[key] = value
	}
	b.wakeRun()
}

// Pending returns the number of values that wait for the next write.
func (b *WriteBehind[K, V]) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dirty)
}

// LastError returns the error of the last write, nil after a success.
func (b *WriteBehind[K, V]) LastError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// Get returns the latest value of a key that is not yet known to be written.
func (b *WriteBehind[K, V]) Get(key K) (value V, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if value, found = b.dirty[key]; !found {
		value, found = b.writing[key]
	}
	return value, found
}

// Refuse makes Put return the error from now on, and ends Run. Flush still writes the stored
// values.
func (b *WriteBehind[K, V]) Refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = err
	b.wakeRun()
}

// Refusal returns the error passed to Refuse, nil before.
func (b *WriteBehind[K, V]) Refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal
}

// Run writes dirty values one interval after the first of them, until alive ends or Refuse
// is called. It calls failed for the first of consecutive failures. The end of alive does not
// cancel a write: a cancelled write could reach the table after a later one. A store runs it in a
// goroutine of its own from its open on.
func (b *WriteBehind[K, V]) Run(alive context.Context, failed func(error)) {
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
		case <-time.After(b.interval):
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

// Flush writes once every value that was stored before the call. A value that has to be retried
// waits for the next write. It fails with the error of write, and all values are then written
// again. Run calls it, and a store that closes.
func (b *WriteBehind[K, V]) Flush(ctx context.Context) error {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	values := b.takeDirty()
	if len(values) == 0 {
		return nil
	}
	err := b.write(ctx, values)
	b.endWrite(err)
	return err
}

// takeDirty moves the dirty values to writing and returns them. Get still finds them until
// endWrite.
func (b *WriteBehind[K, V]) takeDirty() map[K]V {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing, b.dirty = b.dirty, map[K]V{}
	return b.writing
}

// endWrite records the outcome of a write. After an error its values are dirty again, except keys
// with a later value.
func (b *WriteBehind[K, V]) endWrite(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed = err; err != nil {
		maps.Copy(b.writing, b.dirty)
		b.dirty = b.writing
		b.wakeRun()
	}
	b.writing = nil
}
