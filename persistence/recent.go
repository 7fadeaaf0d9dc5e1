package persistence

import (
	"bytes"
	"slices"
	"sync"

	"purser/persistence/ident"
)

// Limits of Recent.
const (
	// recentBytes is what is kept in memory of the newest events, over all shards; what is older is read from the store.
	recentBytes = 32 << 20
	// recentOverhead of an event beside its payload.
	recentOverhead = 512
)

// Recent keeps the newest events that a journal of this process has committed. The follower, the reactions, the book and the
// publisher all read every event within moments of its commit; without this each of them asked the store for it. An event is put
// in when it is durable, before its head is shown, so that nothing is in it that is not stored. The zero value is empty.
type Recent struct {
	mu     sync.Mutex
	bytes  int
	shards [ident.Shards][]Event // gapless runs
	order  []recentEvent         // of all shards, the oldest first
}

type recentEvent struct {
	shard    ident.Shard
	position uint64
	size     int
}

// Keep takes events of one shard in, as the store shows them and in the order of their positions, and drops the oldest beyond the
// limit. Their payloads stay the caller's: it keeps copies.
func (r *Recent) Keep(shard ident.Shard, events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		run := r.shards[shard]
		if n := len(run); n > 0 && run[n-1].Position+1 != e.Position {
			run = nil // others have written in between, or the answer to a commit was lost
		}
		if e.Payload = bytes.Clone(e.Payload); len(e.Payload) == 0 {
			e.Payload = nil // as a store shows it
		}
		size := len(e.Payload) + recentOverhead
		r.shards[shard] = append(run, e)
		r.order, r.bytes = append(r.order, recentEvent{shard, e.Position, size}), r.bytes+size
	}
	for r.bytes > recentBytes {
		r.drop()
	}
}

// drop removes the oldest event, unless its run was given up before.
func (r *Recent) drop() {
	oldest := r.order[0]
	r.order, r.bytes = r.order[1:], r.bytes-oldest.size
	if run := r.shards[oldest.shard]; len(run) > 0 && run[0].Position == oldest.position {
		run[0] = Event{}
		r.shards[oldest.shard] = run[1:]
	}
}

// Read returns the events after one position through another, as far as maxBytes of payload go and at least one; false when the
// first of them is not kept. They are the caller's.
func (r *Recent) Read(shard ident.Shard, past, last uint64, maxBytes int) ([]Event, bool) {
	events := r.find(shard, past, last)
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

// find returns events whose payloads are still shared.
func (r *Recent) find(shard ident.Shard, past, last uint64) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.shards[shard]
	if len(run) == 0 || run[0].Position > past+1 || run[len(run)-1].Position < last {
		return nil
	}
	return slices.Clone(run[past+1-run[0].Position : last+1-run[0].Position])
}
