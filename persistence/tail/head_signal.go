package tail

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"purser/persistence"
)

// HeadSignal holds a shard's durable head and wakes readers when its position advances. The head
// never moves backwards. The zero value is the head of an empty shard. All methods are safe for
// concurrent use.
type HeadSignal struct {
	head atomic.Pointer[persistence.Head] // changed under mu; nil is the zero Head
	mu   sync.Mutex
	wake chan struct{} // closed when the position advances; nil without a waiting reader
}

// Head returns the head, as Journal.Head does. It never blocks.
func (t *HeadSignal) Head() persistence.Head {
	if h := t.head.Load(); h != nil {
		return *h
	}
	return persistence.Head{}
}

// Advance publishes a durable head and wakes the readers in Wait. An older position or epoch
// changes nothing.
func (t *HeadSignal) Advance(h persistence.Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.Head()
	h.Position, h.Epoch = max(h.Position, old.Position), max(h.Epoch, old.Epoch)
	if h == old {
		return
	}
	t.head.Store(&h)
	if h.Position > old.Position && t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// Wait implements Journal.Wait for a journal that closes the channel ended when it closes. It
// returns the context's error, or persistence.ErrUnavailable when the journal closes first.
func (t *HeadSignal) Wait(ctx context.Context, past uint64, ended <-chan struct{}) error {
	for {
		advanced := t.advancedPast(past)
		if advanced == nil {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("%w: journal closed", persistence.ErrUnavailable)
		}
	}
}

// advancedPast returns nil when the head is past the position, otherwise a channel that is closed
// when the head next advances.
func (t *HeadSignal) advancedPast(past uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Head().Position > past {
		return nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}
