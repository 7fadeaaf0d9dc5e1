package actors

import (
	"context"
	"sync"
)

// places bounds the calls that are under way to a partner: all of them, and those of one workspace.
// A workspace whose calls get no answer uses up its own places. The workspaces that wait are served
// in turn.
type places struct {
	ofWorkspace int // at most so many of one workspace

	mu      sync.Mutex
	free    int
	used    map[string]int             // by workspace; absent is 0
	waiting map[string][]chan struct{} // by workspace, in the order in which they came
	turns   []string                   // workspaces that wait, the next one first
}

func newPlaces(all, ofWorkspace int) *places {
	return &places{ofWorkspace: ofWorkspace, free: all, used: make(map[string]int),
		waiting: make(map[string][]chan struct{})}
}

// acquirePlace waits for a place. free must be called once. The error is the context's.
func (p *places) acquirePlace(ctx context.Context, workspace string) (free func(), err error) {
	granted := make(chan struct{})
	p.mu.Lock()
	if p.waiting[workspace] == nil {
		p.turns = append(p.turns, workspace)
	}
	p.waiting[workspace] = append(p.waiting[workspace], granted)
	p.grantLocked()
	p.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		if p.abandonWait(workspace, granted) {
			return nil, ctx.Err()
		}
	}
	return func() { p.releasePlace(workspace) }, nil
}

// abandonWait gives up waiting. It is false when the place was granted meanwhile.
func (p *places) abandonWait(workspace string, granted chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, waiter := range p.waiting[workspace] {
		if waiter == granted {
			p.waiting[workspace] = append(p.waiting[workspace][:i:i], p.waiting[workspace][i+1:]...)
			p.forgetLocked(workspace)
			return true
		}
	}
	return false
}

func (p *places) releasePlace(workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.used[workspace]--; p.used[workspace] == 0 {
		delete(p.used, workspace)
	}
	p.grantLocked()
}

// grantLocked gives free places to the workspaces in turn, one each time, but to none more than its
// share.
func (p *places) grantLocked() {
	for skipped := 0; p.free > 0 && skipped < len(p.turns); {
		workspace := p.turns[0]
		p.turns = append(p.turns[1:], workspace)
		if p.used[workspace] >= p.ofWorkspace {
			skipped++
			continue
		}
		skipped = 0
		p.free--
		p.used[workspace]++
		close(p.waiting[workspace][0])
		p.waiting[workspace] = p.waiting[workspace][1:]
		p.forgetLocked(workspace)
	}
}

// forgetLocked takes a workspace out of the turns when none of it waits.
func (p *places) forgetLocked(workspace string) {
	if len(p.waiting[workspace]) > 0 {
		return
	}
	delete(p.waiting, workspace)
	for i, turn := range p.turns {
		if turn == workspace {
			p.turns = append(p.turns[:i:i], p.turns[i+1:]...)
			return
		}
	}
}
