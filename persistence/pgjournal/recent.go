package pgjournal

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"purser/actors/ident"
	"purser/persistence"
)

// recentBytes is what is kept in memory of the newest events, over all shards; what is older is read from the database.
const recentBytes = 32 << 20

// recent keeps the newest events that this process has committed. The follower, the reactions and the publisher all read every
// event within moments of its commit; without this each of them asked the database for it. An event is put in when COMMIT was
// answered, before its head is shown, so that nothing is in it that is not in the table.
type recent struct {
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

// recentOverhead of an event beside its payload.
const recentOverhead = 512

// keep takes the events of a transaction in, in the order of each shard's positions, and drops the oldest beyond the limit.
func (r *recent) keep(events []stagedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		e, shard := events[i].stored(), events[i].shard
		run := r.shards[shard]
		if n := len(run); n > 0 && run[n-1].Position+1 != e.Position {
			run = nil // others have written in between, or the answer to a COMMIT was lost
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
func (r *recent) drop() {
	oldest := r.order[0]
	r.order, r.bytes = r.order[1:], r.bytes-oldest.size
	if run := r.shards[oldest.shard]; len(run) > 0 && run[0].Position == oldest.position {
		run[0] = persistence.Event{}
		r.shards[oldest.shard] = run[1:]
	}
}

// read returns the events after one position through another, as far as eventBytes go and at least one; false when the first of
// them is not kept.
func (r *recent) read(shard ident.Shard, past, last uint64) ([]persistence.Event, bool) {
	events := r.find(shard, past, last)
	size := 0
	for i := range events {
		if size += len(events[i].Payload); size > eventBytes && i > 0 {
			events = events[:i]
			break
		}
		events[i].Payload = bytes.Clone(events[i].Payload)
	}
	return events, len(events) > 0
}

// find returns events whose payloads are still shared.
func (r *recent) find(shard ident.Shard, past, last uint64) []persistence.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.shards[shard]
	if len(run) == 0 || run[0].Position > past+1 || run[len(run)-1].Position < last {
		return nil
	}
	return slices.Clone(run[past+1-run[0].Position : last+1-run[0].Position])
}

// stored is the event as the table returns it. The payload stays the caller's until the commit is answered; this is a copy.
func (s *stagedEvent) stored() persistence.Event {
	e := *s.event
	e.Position, e.Workspace = s.position, s.workspace
	e.At = e.At.UTC().Truncate(time.Microsecond)
	e.Payload = bytes.Clone(e.Payload)
	if len(e.Payload) == 0 {
		e.Payload = nil
	}
	return e
}
