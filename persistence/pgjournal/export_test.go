package pgjournal

import (
	"context"
	"time"
)

// Lookups is how many records are asked for and wait for a reader.
func (j *Journal) Lookups() int { return len(j.lookups) }

// Turn turns the clock by which kept records are trusted, and stops it.
func (j *Journal) Turn(by time.Duration) {
	now := j.recordCache.now().Add(by)
	j.recordCache.now = func() time.Time { return now }
}

// Refresh reads all heads.
func (j *Journal) Refresh(ctx context.Context) error { return j.refreshHeads(ctx) }

// ExhaustedFor is how long a refused commit counts.
const ExhaustedFor = exhaustedFor
