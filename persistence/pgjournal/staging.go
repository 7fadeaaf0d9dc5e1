package pgjournal

import (
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// staging is one transaction in memory: the rows read and the rows to write. Batches are staged in
// order, so that each sees the ones before it. Several changes of one row become one write.
type staging struct {
	items    []item
	outcomes []persistence.Outcome // by index of items
	shards   map[ident.Shard]*shardState
	streams  map[streamKey]streamState
	claims   map[claimKey]claim
	events   []stagedEvent
	records  map[recordKey]*recordState
	timers   map[timerKey]timerState
}

type (
	streamKey struct {
		shard        ident.Shard
		kind, stream string
	}
	claimKey struct {
		shard ident.Shard
		scope string
		hash  [32]byte
	}
	recordKey struct {
		shard    ident.Shard
		kind, id string
	}
	timerKey struct {
		shard             ident.Shard
		kind, stream, key string
	}
)

type (
	shardState struct {
		found            bool
		epoch            uint64
		lockedHead, head uint64
		ordinal          uint32
		touched          bool  // a batch writes to the shard
		fault            error // not nil: nothing may be written
	}
	streamState struct {
		version uint64
		moved   bool
	}
	claim struct {
		once persistence.Once
		made bool // claimed by this transaction
	}
	// recordState is a record after the batches staged so far. cleared deletes the stored record; a
	// present record after that is new.
	recordState struct {
		record           persistence.Record
		cleared, present bool
	}
	timerState struct {
		workspace string
		slot      ident.Slot
		due       time.Time // zero: removed
	}
	stagedEvent struct {
		shard     ident.Shard
		position  uint64
		workspace string
		event     *persistence.Event
	}
)

// stored returns the event as a read of the table returns it.
func (s *stagedEvent) stored() persistence.Event {
	e := *s.event
	e.Position, e.Workspace, e.At = s.position, s.workspace, e.At.UTC().Truncate(time.Microsecond)
	return e
}

// newStaging returns the empty state of a transaction over some batches.
func newStaging(items []item) *staging {
	s := &staging{
		items: items, outcomes: make([]persistence.Outcome, len(items)),
		shards: map[ident.Shard]*shardState{}, streams: map[streamKey]streamState{}, claims: map[claimKey]claim{},
		records: map[recordKey]*recordState{}, timers: map[timerKey]timerState{},
	}
	for _, i := range items {
		if s.shards[i.r.shard] == nil {
			s.shards[i.r.shard] = &shardState{}
		}
	}
	return s
}

// checkHeads marks the shards whose locked head contradicts the state of this process.
func (s *staging) checkHeads(j *Journal, asked time.Time) {
	for id, at := range s.shards {
		if at.found {
			at.fault = j.checkLockedHead(id, persistence.Head{Position: at.lockedHead, Epoch: at.epoch})
			if at.fault == nil && j.shards[id].ownsEpoch(at.epoch) {
				j.recordCache.confirmOwnership(id, asked)
			}
		}
	}
}

// stageAll stages every batch, or sets the error of the batch or of its request.
func (s *staging) stageAll() {
	for n, i := range s.items {
		at := s.shards[i.r.shard]
		if at.fault != nil {
			i.r.failGroup(at.fault)
			continue
		}
		if !at.found || at.epoch != i.r.epoch {
			i.r.failGroup(fmt.Errorf("%w: shard %d is at epoch %d, not %d", persistence.ErrFenced, i.r.shard, at.epoch, i.r.epoch))
			continue
		}
		if b := i.batch(); b != nil {
			s.outcomes[n] = s.stageBatch(i.r.shard, i.r.now, b)
		}
	}
}

// stageBatch checks a batch and stages it. The outcome has an OnceError for a taken once-key or
// ErrVersion for a wrong version; nothing of the batch is staged then. A taken once-key precedes a
// wrong version: a repeat is owed the first answer.
func (s *staging) stageBatch(id ident.Shard, now time.Time, b *persistence.Batch) persistence.Outcome {
	err := s.checkOnces(id, now, b)
	if err == nil {
		err = s.checkVersions(id, b)
	}
	if err != nil {
		return persistence.Outcome{Err: err}
	}
	if len(b.Events)+len(b.Records)+len(b.Onces)+len(b.Timers) > 0 {
		s.shards[id].touched = true
	}
	outcome := s.stageEvents(id, b)
	s.stageRecords(id, b)
	for _, o := range b.Onces {
		s.claims[claimKey{id, o.Scope, o.Hash}] = claim{once: o, made: true}
	}
	for i := range b.Timers {
		t := &b.Timers[i]
		s.timers[timerKey{id, t.Kind, t.Stream, t.Key}] = timerState{b.WorkspaceOf(t.Workspace), b.SlotOf(t.Slot), t.Due}
	}
	return outcome
}

// claimStands reports whether a claim of an idempotency key is unexpired at now.
func claimStands(o persistence.Once, now time.Time) bool {
	return o.Expires.IsZero() || o.Expires.After(now)
}

// checkOnces returns an OnceError when a once-key of the batch is taken, in the store, by an
// earlier batch or by the batch itself.
func (s *staging) checkOnces(id ident.Shard, now time.Time, b *persistence.Batch) error {
	own := make(map[claimKey]int, len(b.Onces))
	for i, o := range b.Onces {
		key := claimKey{id, o.Scope, o.Hash}
		if c, found := s.claims[key]; found && claimStands(c.once, now) {
			return &persistence.OnceError{Existing: cloneOnce(c.once)}
		}
		if first, twice := own[key]; twice {
			return &persistence.OnceError{Existing: cloneOnce(b.Onces[first])}
		}
		own[key] = i
	}
	return nil
}

// cloneOnce returns a copy for the caller to keep: the answer may belong to another caller of the
// same transaction.
func cloneOnce(o persistence.Once) persistence.Once {
	o.Answer = append([]byte(nil), o.Answer...)
	return o
}

// checkVersions returns ErrVersion when an event does not have the next version of its stream.
func (s *staging) checkVersions(id ident.Shard, b *persistence.Batch) error {
	at := make(map[streamKey]uint64, 1)
	for i := range b.Events {
		e := &b.Events[i]
		key := streamKey{id, e.Kind, e.Stream}
		version, known := at[key]
		if !known {
			version = s.streams[key].version
		}
		if e.Version != version+1 {
			return fmt.Errorf("%w: %s is at %d, event has %d", persistence.ErrVersion, e.Kind, version, e.Version)
		}
		at[key] = e.Version
	}
	return nil
}

// stageEvents stages the events of a checked batch at the next positions, and returns the first and
// the last one.
func (s *staging) stageEvents(id ident.Shard, b *persistence.Batch) persistence.Outcome {
	if len(b.Events) == 0 {
		return persistence.Outcome{}
	}
	at := s.shards[id]
	first := at.head + 1
	for i := range b.Events {
		e := &b.Events[i]
		at.head++
		s.events = append(s.events, stagedEvent{shard: id, position: at.head, workspace: b.WorkspaceOf(e.Workspace), event: e})
		s.streams[streamKey{id, e.Kind, e.Stream}] = streamState{version: e.Version, moved: true}
	}
	at.ordinal = 0
	return persistence.Outcome{First: first, Last: at.head}
}

// stageRecords gives each new record a list position: that of the last event of its batch, or the
// head of the shard, with the next ordinal. A stored record keeps its position.
func (s *staging) stageRecords(id ident.Shard, b *persistence.Batch) {
	at := s.shards[id]
	for _, r := range b.Records {
		r.Workspace, r.Slot = b.WorkspaceOf(r.Workspace), b.SlotOf(r.Slot)
		key := recordKey{id, r.Kind, r.ID}
		old := s.records[key]
		if old == nil {
			old = &recordState{}
			s.records[key] = old
		}
		if r.Deleted {
			*old = recordState{cleared: true}
			continue
		}
		if old.present {
			r.Position, r.Ordinal = old.record.Position, old.record.Ordinal
		} else {
			at.ordinal++
			r.Position, r.Ordinal = at.head, at.ordinal
		}
		r.New = false // describes the write, not the record
		old.record, old.present = r, true
	}
}

// writesNothing reports whether no shard is written.
func (s *staging) writesNothing() bool {
	for _, at := range s.shards {
		if at.touched {
			return false
		}
	}
	return true
}

// publishCommit updates the state in memory after a commit and sets the outcomes.
func (s *staging) publishCommit(j *Journal) {
	for key, t := range s.timers {
		j.shards[key.shard].due.Lower(t.due)
	}
	for i := range s.events {
		j.recent.Add(s.events[i].shard, s.events[i].stored())
	}
	for id, at := range s.shards {
		if at.found {
			j.heads.Advance(id, persistence.Head{Position: at.head, Epoch: at.epoch})
		}
	}
	for n, i := range s.items {
		if i.n < 0 || i.r.err != nil {
			continue
		}
		i.r.outcomes[i.n] = s.outcomes[n]
		i.r.committed = i.r.committed || s.outcomes[n].Err == nil
	}
}

// forgetShards discards the timers and records known of shards after an ambiguous commit.
func (s *staging) forgetShards(j *Journal) {
	for id := range s.shards {
		j.shards[id].due.Forget()
		j.recordCache.suspendShard(id)
	}
}
