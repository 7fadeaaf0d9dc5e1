package consumer_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/retry"
	"purser/persistence/tail"
)

// memoryJournal is a journal of events that only have positions.
type memoryJournal struct {
	persistence.Journal
	heads tail.Heads
}

func (j *memoryJournal) Head(shard ident.Shard) persistence.Head { return j.heads.Head(shard) }

func (j *memoryJournal) WaitAdvance(ctx context.Context, seen uint64) (uint64, error) {
	return j.heads.WaitAdvance(ctx, seen, nil)
}

func (j *memoryJournal) Events(_ context.Context, shard ident.Shard, after uint64, limit int) ([]persistence.Event, error) {
	var events []persistence.Event
	for at := after + 1; at <= j.Head(shard).Position && len(events) < limit; at++ {
		events = append(events, persistence.Event{Position: at})
	}
	return events, nil
}

func (j *memoryJournal) append(shard ident.Shard) {
	j.heads.Advance(shard, persistence.Head{Position: j.Head(shard).Position + 1})
}

// slowBook is a consumer that takes its time for each call of Handle.
type slowBook struct{ book }

const handleTime = 10 * time.Millisecond

func (b *slowBook) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	time.Sleep(handleTime)
	return b.book.Handle(ctx, shard, events)
}

// TestAnIdleShardHasNoGoroutineOfASubscription: a subscription without new events has no
// goroutine that delivers, and an event that comes while another is handled is handled too.
func TestAnIdleShardHasNoGoroutineOfASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, b := &memoryJournal{}, &slowBook{}
		subscription, err := consumer.Subscribe(consumer.Options{Journal: j})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- subscription.Run(ctx, b) }()
		for range 5 {
			for shard := range ident.Shards {
				j.append(ident.Shard(shard))
			}
			time.Sleep(handleTime / 2)
			j.append(9) // while the event before it is handled
			time.Sleep(ident.Shards * handleTime)
			synctest.Wait()
			for shard := range ident.Shards {
				require.Equal(t, j.Head(ident.Shard(shard)).Position, b.at(ident.Shard(shard)), "shard %d", shard)
			}
			require.Zero(t, deliveries(), "goroutines besides Run")
		}
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// deliveries counts the goroutines of synctest's bubble that deliver a shard.
func deliveries() (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "synctest bubble") && strings.Contains(stack, ").deliverShard(") {
			n++
		}
	}
	return n
}

// TestABusyJournalIsScannedOnceAMillisecond: the scans of WatchHeads are at least a millisecond
// apart, and the last one shows the last advance.
func TestABusyJournalIsScannedOnceAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &memoryJournal{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var scans, seen uint64
		go func() {
			defer close(ended)
			consumer.WatchHeads(ctx, j, retry.Backoff{Min: time.Second, Max: time.Second}, func() {
				scans, seen = scans+1, j.Head(9).Position
			})
		}()
		const appends = 1000
		for range appends {
			j.append(9)
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(time.Second)
		cancel()
		<-ended
		require.EqualValues(t, appends, seen)
		require.LessOrEqual(t, scans, uint64(12), "10 ms of appends")
	})
}
