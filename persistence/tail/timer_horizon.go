package tail

import (
	"sync"
	"time"
)

// TimerHorizon holds a lower bound of the due time of a shard's earliest timer. Each shard is asked
// for its timers four times a second; before the horizon that reads nothing. A commit
// lowers the horizon. A read of the store replaces it, unless a commit happened during the read.
// The zero value is unknown: every timer may be due. All methods are safe for concurrent use.
type TimerHorizon struct {
	mu      sync.Mutex
	known   bool
	at      time.Time // zero: there is no timer
	changes uint64
}

// Lower records the due time of a committed timer. A zero time, which removes a timer, changes
// nothing: the horizon stays a lower bound, and the next read corrects it.
func (d *TimerHorizon) Lower(at time.Time) {
	if at.IsZero() {
		return
	}
	at = at.Round(0) // drops the monotonic clock, which stops while the machine sleeps
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	if d.at.IsZero() || at.Before(d.at) {
		d.at = at
	}
}

// Forget makes the horizon unknown, so that the next Timers reads the store.
func (d *TimerHorizon) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.at, d.changes = false, time.Time{}, d.changes+1
}

// MayBeDue reports whether a timer may be due at now. The count of changes goes to Observe after
// the read that follows.
func (d *TimerHorizon) MayBeDue(now time.Time) (changes uint64, may bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes, !d.known || !d.at.IsZero() && !d.at.After(now)
}

// Observe records the earliest due time that a read found, zero when the shard has no timer. The
// read must begin after the MayBeDue that returned changes. A Lower or Forget since then voids it.
func (d *TimerHorizon) Observe(changes uint64, first time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes == changes {
		d.known, d.at = true, first
	}
}
