package consumer

import (
	"context"
	"time"

	"purser/persistence"
	"purser/persistence/retry"
)

// scanPause is the pause after each scan of WatchHeads, so that a journal with many commits causes
// at most 1,000 scans a second.
const scanPause = time.Millisecond

// WatchHeads calls scan at once and after each advance of the journal's heads, until the context
// ends. scan compares all heads, which are in memory, with the positions of its owner; a call shows
// all advances before it, and the advances of scanPause share a call. While the journal fails, the
// calls are a pause of the backoff apart.
func WatchHeads(ctx context.Context, j persistence.Journal, pauses retry.Backoff, scan func()) {
	for seen := uint64(0); ctx.Err() == nil; {
		scan()
		retry.Pause(ctx, scanPause)
		advances, err := j.WaitAdvance(ctx, seen)
		if err != nil {
			retry.Pause(ctx, pauses.Next())
			continue
		}
		seen = advances
		pauses.Reset()
	}
}
