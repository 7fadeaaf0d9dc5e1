package tail

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// newestReaders is how many shards NewestEventTime reads concurrently. A remote journal takes a
// round trip for each shard.
const newestReaders = 8

// NewestEventTime returns the latest time of the last events of all shards, zero when the journal
// has no event. It fails only when the journal cannot be read.
func NewestEventTime(ctx context.Context, j persistence.Journal) (time.Time, error) {
	var times [ident.Shards]time.Time
	var errs [ident.Shards]error
	var next atomic.Int64
	var running sync.WaitGroup
	for range newestReaders {
		running.Go(func() {
			for id := next.Add(1) - 1; id < ident.Shards; id = next.Add(1) - 1 {
				times[id], errs[id] = lastEventTime(ctx, j, ident.Shard(id))
			}
		})
	}
	running.Wait()
	newest := time.Time{}
	for _, at := range times {
		if at.After(newest) {
			newest = at
		}
	}
	return newest, errors.Join(errs[:]...)
}

// lastEventTime returns the time of a shard's last event, zero without one. It fails only when the
// journal cannot be read.
func lastEventTime(ctx context.Context, j persistence.Journal, id ident.Shard) (time.Time, error) {
	head := j.Head(id).Position
	if head == 0 {
		return time.Time{}, nil
	}
	events, err := j.Events(ctx, id, head-1, 1)
	if err != nil || len(events) == 0 {
		return time.Time{}, err
	}
	return events[0].At, nil
}
