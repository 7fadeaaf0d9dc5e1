package tail

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"purser/persistence"
	"purser/persistence/ident"
)

// Heads holds the durable heads of all shards, counts how often their positions advance, and wakes
// readers when one does. A head never moves backwards. In the zero value all shards are empty. All
// methods are safe for concurrent use.
type Heads struct {
	heads    [ident.Shards]atomic.Pointer[persistence.Head] // changed under mu; nil is the zero Head
	mu       sync.Mutex
	advances uint64
	wake     chan struct{} // closed by the next advance; nil without a waiting reader
}

// Head implements Journal.Head.
func (h *Heads) Head(shard ident.Shard) persistence.Head {
	if head := h.heads[shard].Load(); head != nil {
		return *head
	}
	return persistence.Head{}
}

// Advance publishes a durable head and, when its position is new, wakes the readers in WaitAdvance.
// An older position or epoch changes nothing.
func (h *Heads) Advance(shard ident.Shard, head persistence.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.Head(shard)
	head.Position, head.Epoch = max(head.Position, old.Position), max(head.Epoch, old.Epoch)
	if head == old {
		return
	}
	h.heads[shard].Store(&head)
	if head.Position == old.Position {
		return
	}
	h.advances++
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
}

// WaitAdvance implements Journal.WaitAdvance for a journal that closes the channel ended when it
// closes. It returns the context's error, or persistence.ErrUnavailable when the journal closes
// first.
func (h *Heads) WaitAdvance(ctx context.Context, seen uint64, ended <-chan struct{}) (uint64, error) {
	advances, next := h.advancesSince(seen)
	if next == nil {
		return advances, nil
	}
	select {
	case <-next:
		advances, _ = h.advancesSince(seen)
		return advances, nil
	case <-ctx.Done():
		return seen, ctx.Err()
	case <-ended:
		return seen, fmt.Errorf("%w: journal closed", persistence.ErrUnavailable)
	}
}

// advancesSince returns the number of advances and, when that is seen, a channel that the next
// advance closes; otherwise nil.
func (h *Heads) advancesSince(seen uint64) (advances uint64, next <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.advances != seen {
		return h.advances, nil
	}
	if h.wake == nil {
		h.wake = make(chan struct{})
	}
	return h.advances, h.wake
}
