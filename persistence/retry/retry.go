// Package retry has the pauses between the attempts of a call that has failed.
package retry

import (
	"context"
	"time"
)

// Backoff computes the pauses between retries: Min, then twice the previous pause, at most Max.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next returns the pause before the next retry.
func (b *Backoff) Next() time.Duration {
	pause := max(b.next, b.Min)
	b.next = min(2*pause, b.Max)
	return pause
}

// Reset makes the next pause Min. Call it after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits for d or the end of the context. It returns false when the context has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
