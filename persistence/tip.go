package persistence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Tip is a shard's head as a journal shows it. It never goes back. The zero value is the head of an empty shard.
type Tip struct {
	head atomic.Pointer[Head] // changed under mu; nil is the zero Head
	mu   sync.Mutex
	wake chan struct{} // closed when the position moves; nil when nobody waits
}

// Head is what Journal.Head returns. It never waits.
func (t *Tip) Head() Head {
	if h := t.head.Load(); h != nil {
		return *h
	}
	return Head{}
}

// Show shows a head that is durable, and wakes who waits for it. An older one changes nothing.
func (t *Tip) Show(h Head) {
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

// Wait is Journal.Wait, for a journal that closes a channel when it ends. It returns the context's error, or ErrUnavailable when
// the journal ends first.
func (t *Tip) Wait(ctx context.Context, past uint64, ended <-chan struct{}) error {
	for {
		moved := t.moved(past)
		if moved == nil {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("%w: journal closed", ErrUnavailable)
		}
	}
}

// moved returns a channel that is closed when the head moves, nil when it is past the position already.
func (t *Tip) moved(past uint64) <-chan struct{} {
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
