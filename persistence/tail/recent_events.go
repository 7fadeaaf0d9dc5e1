package tail

import (
	"bytes"
	"slices"
	"sync"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of RecentEvents.
const (
	// recentBytes bounds the events in memory over all shards, in bytes. Older events are read from
	// the store.
	recentBytes = 32 << 20
	// recentOverhead is the memory that one event takes beside its payload, in bytes.
	recentOverhead = 512
)

// RecentEvents caches the newest events that a journal of this process has committed. The
// follower, the book and the publisher all read each event soon after its commit; without the cache
// each of them would read the store. A journal adds an event when the event is
// durable and before it advances the head, so every cached event is stored. The zero value is
// empty. All methods are safe for concurrent use.
type RecentEvents struct {
	mu     sync.Mutex
	bytes  int
	shards [ident.Shards][]persistence.Event // gapless runs
	order  []recentEvent                     // of all shards, the oldest first
}

type recentEvent struct {
	shard    ident.Shard
	position uint64
	size     int
}

// Add caches events of one shard, in the order of their positions, and evicts the oldest events of
// all shards beyond recentBytes. It copies the payloads. A gap before an event discards the shard's
// earlier events.
func (r *RecentEvents) Add(shard ident.Shard, events ...persistence.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		run := r.shards[shard]
		if n := len(run); n > 0 && run[n-1].Position+1 != e.Position {
			run = nil // another process wrote in between, or a commit's outcome was lost
		}
		if e.Payload = bytes.Clone(e.Payload); len(e.Payload) == 0 {
			e.Payload = nil // as a store returns it
		}
		size := len(e.Payload) + recentOverhead
		r.shards[shard] = append(run, e)
		r.order, r.bytes = append(r.order, recentEvent{shard, e.Position, size}), r.bytes+size
	}
	for r.bytes > recentBytes {
		r.dropOldest()
	}
}

// dropOldest evicts the oldest event, unless a gap has discarded it already.
func (r *RecentEvents) dropOldest() {
	oldest := r.order[0]
	r.order, r.bytes = r.order[1:], r.bytes-oldest.size
	if run := r.shards[oldest.shard]; len(run) > 0 && run[0].Position == oldest.position {
		run[0] = persistence.Event{}
		r.shards[oldest.shard] = run[1:]
	}
}

// Read returns the events after past through last, at most maxBytes of payload but at least one
// event. It returns false when one of these events is not cached. The events belong to the caller.
func (r *RecentEvents) Read(shard ident.Shard, past, last uint64, maxBytes int) ([]persistence.Event, bool) {
	events := r.sharedEvents(shard, past, last)
	size := 0
	for i := range events {
		if size += len(events[i].Payload); size > maxBytes && i > 0 {
			events = events[:i]
			break
		}
		events[i].Payload = bytes.Clone(events[i].Payload)
	}
	return events, len(events) > 0
}

// sharedEvents returns the events after past through last, nil when one is not cached. Their
// payloads are shared with the cache.
func (r *RecentEvents) sharedEvents(shard ident.Shard, past, last uint64) []persistence.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.shards[shard]
	if len(run) == 0 || run[0].Position > past+1 || run[len(run)-1].Position < last {
		return nil
	}
	return slices.Clone(run[past+1-run[0].Position : last+1-run[0].Position])
}
