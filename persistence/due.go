package persistence

import (
	"sync"
	"time"
)

// Due is when the first timer of a shard is due, or an earlier instant: a shard of which it is in the future has nothing to tell,
// and Timers, which is asked of every shard four times a second, need not look into the store. A commit brings it forward; a read
// puts it where the store has it, unless a commit came in between. The zero value knows nothing.
type Due struct {
	mu      sync.Mutex
	known   bool
	at      time.Time // zero: there is no timer
	changes uint64
}

// Set takes note of a timer that was committed. A zero time, a removed timer, changes nothing: the next read will see.
func (d *Due) Set(at time.Time) {
	if at.IsZero() {
		return
	}
	at = at.Round(0) // of the wall's clock alone, as the stores compare: a machine may sleep
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	if d.at.IsZero() || at.Before(d.at) {
		d.at = at
	}
}

// Forget makes the next question one for the store.
func (d *Due) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.at, d.changes = false, time.Time{}, d.changes+1
}

// May tells whether a timer may be due, and what to pass to Learn after the read that follows.
func (d *Due) May(now time.Time) (changes uint64, may bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes, !d.known || !d.at.IsZero() && !d.at.After(now)
}

// Learn takes note of what a read found to be the earliest of all timers, zero when there is none. The read began after May.
func (d *Due) Learn(changes uint64, first time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes == changes {
		d.known, d.at = true, first
	}
}
