package authorizer

import (
	"sync/atomic"

	"purser/authorizer/hold"
)

// approvalsPercent is the part of the backlog at which approvals stop; facts are accepted up to all
// of it.
const approvalsPercent = 80

// backlog counts the entries that the journal does not have yet, and bounds them.
type backlog struct {
	entries      atomic.Int64
	max          int64
	approvalsMax int64
}

func newBacklog(limit int) *backlog {
	return &backlog{max: int64(limit), approvalsMax: int64(limit) * approvalsPercent / 100}
}

// full reports whether the backlog has no room for a message of this kind: approvals stop at four
// fifths, facts at the whole.
func (b *backlog) full(k hold.Kind) bool {
	if asksForAmount(k) {
		return b.entries.Load() >= b.approvalsMax
	}
	return b.entries.Load() >= b.max
}

// Backlog returns the number of entries that are not in the journal.
func (e *Engine) Backlog() int64 { return e.backlog.entries.Load() }

// BacklogMax returns the limit of the backlog. Approvals stop at four fifths of it.
func (e *Engine) BacklogMax() int64 { return e.backlog.max }
