// Package fairshare bounds work that many workspaces share, so that none of them can use it up.
package fairshare

import (
	"context"
	"sync"
)

// Limit bounds how much work is under way at once: in all, and of one workspace. A workspace whose
// work does not end uses up its own places alone. The workspaces that wait are served in turn. It
// is safe for concurrent use.
type Limit struct {
	ofWorkspace int // the most that one workspace may have

	mu      sync.Mutex
	free    int
	used    map[string]int             // by workspace; absent is 0
	waiting map[string][]chan struct{} // by workspace, in the order of their arrival
	turns   []string                   // waiting workspaces, the next one first
}

// New returns a limit of all places, of which one workspace may have ofWorkspace at a time. The
// processes that call partners and the HTTP server make one for each kind of work.
func New(all, ofWorkspace int) *Limit {
	return &Limit{ofWorkspace: ofWorkspace, free: all, used: make(map[string]int),
		waiting: make(map[string][]chan struct{})}
}

// Acquire waits for a place of a workspace. The caller calls free once. It fails only with the
// context's error, when ctx ends before a place is free. The calls to partners, the sender of
// webhooks and the HTTP server take a place before their work.
func (l *Limit) Acquire(ctx context.Context, workspace string) (free func(), err error) {
	granted := make(chan struct{})
	l.mu.Lock()
	if l.waiting[workspace] == nil {
		l.turns = append(l.turns, workspace)
	}
	l.waiting[workspace] = append(l.waiting[workspace], granted)
	l.grantLocked()
	l.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		if l.abandonWait(workspace, granted) {
			return nil, ctx.Err()
		}
	}
	return func() { l.releasePlace(workspace) }, nil
}

// abandonWait gives up waiting. It is false when the place was granted meanwhile.
func (l *Limit) abandonWait(workspace string, granted chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, waiter := range l.waiting[workspace] {
		if waiter == granted {
			l.waiting[workspace] = append(l.waiting[workspace][:i:i], l.waiting[workspace][i+1:]...)
			l.forgetLocked(workspace)
			return true
		}
	}
	return false
}

// releasePlace gives a place back and grants it to the next waiting workspace.
func (l *Limit) releasePlace(workspace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	if l.used[workspace]--; l.used[workspace] == 0 {
		delete(l.used, workspace)
	}
	l.grantLocked()
}

// grantLocked gives free places to the workspaces in turn, one each time, but to none more than its
// share. The caller holds mu.
func (l *Limit) grantLocked() {
	for skipped := 0; l.free > 0 && skipped < len(l.turns); {
		workspace := l.turns[0]
		l.turns = append(l.turns[1:], workspace)
		if l.used[workspace] >= l.ofWorkspace {
			skipped++
			continue
		}
		skipped = 0
		l.free--
		l.used[workspace]++
		close(l.waiting[workspace][0])
		l.waiting[workspace] = l.waiting[workspace][1:]
		l.forgetLocked(workspace)
	}
}

// forgetLocked takes a workspace out of the turns when no call of it waits. The caller holds mu.
func (l *Limit) forgetLocked(workspace string) {
	if len(l.waiting[workspace]) > 0 {
		return
	}
	delete(l.waiting, workspace)
	for i, turn := range l.turns {
		if turn == workspace {
			l.turns = append(l.turns[:i:i], l.turns[i+1:]...)
			return
		}
	}
}
