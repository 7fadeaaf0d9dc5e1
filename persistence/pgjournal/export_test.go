package pgjournal

import (
	"context"
	"time"
)

// Lookups returns the number of queued lookups.
func (j *Journal) Lookups() int { return len(j.lookups) }

// Turn stops the clock of the record cache and moves it forward.
func (j *Journal) Turn(by time.Duration) {
	now := j.recordCache.now().Add(by)
	j.recordCache.now = func() time.Time { return now }
}

// Refresh reads all heads.
func (j *Journal) Refresh(ctx context.Context) error { return j.refreshHeads(ctx) }

// ExhaustedFor is how long Exhausted returns a refusal.
const ExhaustedFor = exhaustedFor
