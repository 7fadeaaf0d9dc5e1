package pgjournal

import (
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// staging is one transaction in memory: what was read, and what is to be written. Batches are staged in order, so that each sees
// the ones before it; what several of them do to one row is folded into one write.
type staging struct {
	items    []item
	outcomes []persistence.Outcome // of the items
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
		found     bool
		epoch     uint64
		was, head uint64
		ordinal   uint32
		touched   bool  // something is written
		fault     error // why nothing may be
	}
	streamState struct {
		version uint64
		moved   bool
	}
	claim struct {
		once persistence.Once
		made bool // by this transaction
	}
	// recordState is a record after the batches so far. cleared removes what was there before them; then present, if it is, is
	// new.
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

// stored is the event as the table returns it.
func (s *stagedEvent) stored() persistence.Event {
	e := *s.event
	e.Position, e.Workspace, e.At = s.position, s.workspace, e.At.UTC().Truncate(time.Microsecond)
	return e
}

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

// judge finds the shards of which what is locked is not what this process left.
func (s *staging) judge(j *Journal, asked time.Time) {
	for id, at := range s.shards {
		if at.found {
			at.fault = j.judge(id, persistence.Head{Position: at.was, Epoch: at.epoch})
			if at.fault == nil && j.shards[id].heldAt(at.epoch) {
				j.known.trust(id, asked)
			}
		}
	}
}

// decide stages every batch, or finds why it loses.
func (s *staging) decide() {
	for n, i := range s.items {
		at := s.shards[i.r.shard]
		if at.fault != nil {
			i.r.fail(at.fault)
			continue
		}
		if !at.found || at.epoch != i.r.epoch {
			i.r.fail(fmt.Errorf("%w: shard %d is at epoch %d, not %d", persistence.ErrFenced, i.r.shard, at.epoch, i.r.epoch))
			continue
		}
		if b := i.batch(); b != nil {
			s.outcomes[n] = s.stage(i.r.shard, i.r.now, b)
		}
	}
}

// stage checks one batch and takes it in. All checks come before the first change. A taken once-key is told before a version: a
// repeat is owed the first one's answer.
func (s *staging) stage(id ident.Shard, now time.Time, b *persistence.Batch) persistence.Outcome {
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

// held tells whether a claim still stands at now. Pure.
func held(o persistence.Once, now time.Time) bool { return o.Expires.IsZero() || o.Expires.After(now) }

func (s *staging) checkOnces(id ident.Shard, now time.Time, b *persistence.Batch) error {
	own := make(map[claimKey]int, len(b.Onces))
	for i, o := range b.Onces {
		key := claimKey{id, o.Scope, o.Hash}
		if c, found := s.claims[key]; found && held(c.once, now) {
			return &persistence.OnceError{Existing: owned(c.once)}
		}
		if first, twice := own[key]; twice {
			return &persistence.OnceError{Existing: owned(b.Onces[first])}
		}
		own[key] = i
	}
	return nil
}

// owned is a copy that a caller may keep: the answer of a claim in the same transaction is another caller's.
func owned(o persistence.Once) persistence.Once {
	o.Answer = append([]byte(nil), o.Answer...)
	return o
}

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

// stageRecords gives every record the place it has if it is new: that of its batch's last event, or where the shard stood. A
// record that is in the table keeps the place it has there.
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
		r.New = false // it is said of the write, and not kept
		old.record, old.present = r, true
	}
}

// empty tells that nothing is to be written.
func (s *staging) empty() bool {
	for _, at := range s.shards {
		if at.touched {
			return false
		}
	}
	return true
}

// settle shows what was committed, and tells the outcomes.
func (s *staging) settle(j *Journal) {
	for key, t := range s.timers {
		j.shards[key.shard].due.Lower(t.due)
	}
	for i := range s.events {
		j.recent.Add(s.events[i].shard, s.events[i].stored())
	}
	for id, at := range s.shards {
		if at.found {
			j.shards[id].tip.Advance(persistence.Head{Position: at.head, Epoch: at.epoch})
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

// doubt forgets what is known of shards that may or may not have changed.
func (s *staging) doubt(j *Journal) {
	for id := range s.shards {
		j.shards[id].due.Forget()
		j.known.doubt(id)
	}
}
