package pebblejournal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// maxCommit is the size, in bytes, at which an Append commits its staged writes and begins another
// Pebble batch. Pebble's limit is 4 GiB, and a commit must fit in memory.
const maxCommit = 32 << 20

// Append implements persistence.Journal: it commits a group of batches to a shard, and returns
// after the sync. A batch over a limit, a taken once-key or a wrong version is an error in that
// batch's outcome alone. The whole group fails with ErrTooLarge over MaxGroup, ErrFenced under an
// old epoch, ErrUnavailable when nothing was written, or ErrAmbiguous after a failed sync. It does
// not end early when the context ends after it has begun.
func (j *Journal) Append(
	ctx context.Context, id ident.Shard, epoch uint64, now time.Time, group []*persistence.Batch,
) ([]persistence.Outcome, error) {
	if len(group) > persistence.MaxGroup {
		return nil, fmt.Errorf("%w: %d batches, at most %d", persistence.ErrTooLarge, len(group), persistence.MaxGroup)
	}
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	outcomes := make([]persistence.Outcome, len(group))
	for i, b := range group {
		outcomes[i].Err = b.Check(id)
	}
	s := &j.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), j.ready()); err != nil {
		return nil, unavailable(err)
	}
	// Epoch 0 is the epoch of a shard without a writer; no writer holds it.
	if epoch == 0 || epoch != s.head.Epoch {
		return nil, fmt.Errorf("%w: shard %d is at epoch %d, not %d", persistence.ErrFenced, id, s.head.Epoch, epoch)
	}
	if err := j.commitGroup(id, now, group, outcomes); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// commitGroup stages the batches that have no outcome yet and commits them, in more than one commit
// when they exceed maxCommit bytes. The shard is locked. It fails with ErrUnavailable when nothing
// was written, and else with ErrAmbiguous.
func (j *Journal) commitGroup(id ident.Shard, now time.Time, group []*persistence.Batch, outcomes []persistence.Outcome) error {
	a := appending{j: j, id: id, now: now, head: j.shards[id].head, writes: j.store.writes(), probe: probe{store: j.store},
		known: j.known.Get().(*groupCache)}
	defer j.recycle(a.known)
	for i, b := range group {
		if outcomes[i].Err != nil {
			continue
		}
		outcome, err := a.stage(b)
		if err == nil && a.writes.bytes() >= maxCommit {
			if err = a.commit(); err == nil {
				a.writes = j.store.writes()
			}
		}
		if err != nil {
			return a.abort(err)
		}
		outcomes[i] = outcome
	}
	if err := a.commit(); err != nil {
		return a.abort(err)
	}
	return nil
}

// appending is a group on its way into a shard. It looks into its own cache first, so that a batch
// sees the ones before it.
type appending struct {
	j         *Journal
	id        ident.Shard
	now       time.Time
	head      head // after the staged batches
	writes    writes
	probe     probe
	known     *groupCache
	events    []persistence.Event // staged, as they will be read
	timer     time.Time           // the earliest that is staged, zero when there is none
	committed bool
}

// commit makes the staged batches durable and then visible to readers. It fails with ErrAmbiguous
// when the sync fails, which also stops the journal. It first closes the probe, which would keep
// old tables and memtables alive during the sync and cannot see the commit.
func (a *appending) commit() error {
	if err := a.probe.close(); err != nil {
		return err
	}
	if a.writes.empty() {
		return a.writes.discard()
	}
	a.writes.set(keyHead(a.id), encodeHead(a.head))
	if err := a.j.store.commit(a.writes); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	a.committed = true
	a.j.shards[a.id].due.Lower(a.timer)
	a.j.recent.Add(a.id, a.events...)
	a.j.publish(a.id, a.head)
	a.known.forget()
	a.events, a.timer = nil, time.Time{}
	return nil
}

// abort gives up a group whose state could not be read or committed, and returns the error of the
// Append. This is ErrUnavailable when nothing was written, and ErrAmbiguous when an earlier part of
// the group is committed or a sync failed.
func (a *appending) abort(err error) error {
	if errors.Is(err, persistence.ErrAmbiguous) {
		return err
	}
	err = errors.Join(err, a.probe.close(), a.writes.discard())
	if a.committed {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	return unavailable(err)
}

// stage checks one batch and writes it. A refusal is in the outcome; the error is the store's. All
// checks come before the first write. A taken once-key precedes a wrong version, because a repeat
// gets the first answer.
func (a *appending) stage(b *persistence.Batch) (persistence.Outcome, error) {
	refusal, err := a.checkOnces(b)
	if refusal == nil && err == nil {
		refusal, err = a.checkVersions(b)
	}
	if refusal != nil || err != nil {
		return persistence.Outcome{Err: refusal}, err
	}
	outcome := a.writeEvents(b)
	if err := a.writeRecords(b); err != nil {
		return persistence.Outcome{}, err
	}
	if err := a.writeOnces(b); err != nil {
		return persistence.Outcome{}, err
	}
	return outcome, a.writeTimers(b)
}

// once returns the stored once-key of a claim, also an expired one, and whether there is one. Its
// answer belongs to the group. It fails only when the store cannot be read.
func (a *appending) once(o *persistence.Once) (persistence.Once, bool, error) {
	name := claim{o.Scope, o.Hash}
	value, known := a.known.onces[name]
	if !known {
		found, err := a.probe.get(keyOnce(a.id, o.Scope, o.Hash))
		if err != nil {
			return persistence.Once{}, false, err
		}
		value = bytes.Clone(found)
		a.known.onces[name] = value
	}
	if value == nil {
		return persistence.Once{}, false, nil
	}
	existing, err := decodeOnce(o.Scope, o.Hash, value)
	return existing, true, err
}

// checkOnces returns an OnceError as refusal when a once-key of the batch is taken, in the store or
// by the batch itself. An expired once-key is free. err is the store's.
func (a *appending) checkOnces(b *persistence.Batch) (refusal, err error) {
	var own map[claim]int
	if len(b.Onces) > 1 {
		own = make(map[claim]int, len(b.Onces))
	}
	for i := range b.Onces {
		o := &b.Onces[i]
		existing, found, err := a.once(o)
		if err != nil {
			return nil, err
		}
		if found && held(existing, a.now) {
			existing.Answer = bytes.Clone(existing.Answer)
			return &persistence.OnceError{Existing: existing}, nil
		}
		if own == nil {
			continue
		}
		if first, twice := own[claim{o.Scope, o.Hash}]; twice {
			return &persistence.OnceError{Existing: b.Onces[first]}, nil
		}
		own[claim{o.Scope, o.Hash}] = i
	}
	return nil, nil
}

// checkVersions returns ErrVersion as refusal when an event does not have the next version of its
// stream. err is the store's.
func (a *appending) checkVersions(b *persistence.Batch) (refusal, err error) {
	at := make(map[stream]uint64, 1)
	for i := range b.Events {
		e := &b.Events[i]
		s := stream{e.Kind, e.Stream}
		version, known := at[s]
		if !known {
			if version, err = a.version(s, e.Version == 1); err != nil {
				return nil, err
			}
		}
		if e.Version != version+1 {
			return fmt.Errorf("%w: %s is at %d, event has %d", persistence.ErrVersion, e.Kind, version, e.Version), nil
		}
		at[s] = e.Version
	}
	return nil, nil
}

// version returns the version of a stream, 0 when the stream has no event. begins says that the
// stream is expected to be new, which chooses the faster read. It fails only when the store cannot
// be read.
func (a *appending) version(name stream, begins bool) (uint64, error) {
	version, known := a.known.versions[name]
	if known {
		return version, nil
	}
	find := a.j.store.get
	if begins {
		find = a.probe.get
	}
	value, err := find(keyVersion(a.id, name.kind, name.id))
	if err == nil && value != nil {
		version, err = decodeNumber(value)
	}
	if err != nil {
		return 0, err
	}
	a.known.versions[name] = version
	return version, nil
}

// writeEvents stages the events of a checked batch at the next positions, and returns the first and
// the last one.
func (a *appending) writeEvents(b *persistence.Batch) persistence.Outcome {
	if len(b.Events) == 0 {
		return persistence.Outcome{}
	}
	first := a.head.Position + 1
	for i := range b.Events {
		e := &b.Events[i]
		a.head.Position++
		a.known.value = appendEvent(a.known.value[:0], b, e)
		a.writes.set(keyEvent(a.id, a.head.Position), a.known.value)
		// Only a stream's last event of the batch counts, but most streams have one.
		a.writes.set(keyVersion(a.id, e.Kind, e.Stream), encodeNumber(e.Version))
		a.known.versions[stream{e.Kind, e.Stream}] = e.Version
		a.events = append(a.events, stored(b, e, a.head.Position))
	}
	a.head.ordinal = 0
	return persistence.Outcome{First: first, Last: a.head.Position}
}

// stored is an event as it is read.
func stored(b *persistence.Batch, e *persistence.Event, position uint64) persistence.Event {
	s := *e
	s.Position, s.Workspace, s.At = position, b.WorkspaceOf(e.Workspace), e.At.UTC()
	return s
}

// writeRecords stages the records of a checked batch. It fails only when the store cannot be read.
func (a *appending) writeRecords(b *persistence.Batch) error {
	for i := range b.Records {
		r := b.Records[i]
		key := keyRecord(a.id, r.Kind, r.ID)
		if err := a.lookUp(key, b, &r); err != nil {
			return err
		}
		r.Workspace, r.Slot = b.WorkspaceOf(r.Workspace), b.SlotOf(r.Slot)
		a.writeRecord(key, &r)
	}
	return nil
}

// lookUp reads the list position of the record that r replaces into the cache, unless it is there
// or r is new. It fails only when the store cannot be read.
func (a *appending) lookUp(key []byte, b *persistence.Batch, r *persistence.Record) error {
	name := document{r.Kind, r.ID}
	if _, known := a.known.records[name]; known || r.New {
		return nil
	}
	var p place
	err := a.j.store.read(key, func(value []byte) (err error) {
		p, err = decodePlace(value, b.WorkspaceOf(r.Workspace), r.Parent)
		return err
	})
	a.known.records[name] = p
	return err
}

// writeRecord stages a record, or its deletion, with its entry in the lists. A stored record keeps
// its list position, a new one gets the next. Nothing reaches the disk, so it does not fail.
func (a *appending) writeRecord(key []byte, r *persistence.Record) {
	old := a.known.records[document{r.Kind, r.ID}]
	moved := !old.stored || old.workspace != r.Workspace || old.parent != r.Parent
	if old.stored && (r.Deleted || moved) {
		a.writes.delete(keyList(a.id, r.Kind, old.workspace, old.parent, old.position, old.ordinal))
	}
	if r.Deleted {
		if old.stored {
			a.writes.delete(key)
		}
		a.known.records[document{r.Kind, r.ID}] = place{}
		return
	}
	r.Position, r.Ordinal = old.position, old.ordinal
	if !old.stored {
		a.head.ordinal++
		r.Position, r.Ordinal = a.head.Position, a.head.ordinal
	}
	if moved {
		a.writes.set(keyList(a.id, r.Kind, r.Workspace, r.Parent, r.Position, r.Ordinal), []byte(r.ID))
	}
	a.known.value = appendRecord(a.known.value[:0], r)
	a.writes.set(key, a.known.value)
	a.known.records[document{r.Kind, r.ID}] = place{stored: true, workspace: r.Workspace, parent: r.Parent,
		position: r.Position, ordinal: r.Ordinal}
}

// writeOnces stages the once-keys of a checked batch, in place of expired ones. It fails only when
// the store cannot be read.
func (a *appending) writeOnces(b *persistence.Batch) error {
	for i := range b.Onces {
		o := &b.Onces[i]
		expired, found, err := a.once(o)
		if err != nil {
			return err
		}
		if found {
			a.writes.delete(keyExpiry(a.id, expired.Expires, o.Scope, o.Hash))
		}
		value := encodeOnce(o)
		a.writes.set(keyOnce(a.id, o.Scope, o.Hash), value)
		a.known.onces[claim{o.Scope, o.Hash}] = value
		if !o.Expires.IsZero() {
			a.writes.set(keyExpiry(a.id, o.Expires, o.Scope, o.Hash), nil)
		}
	}
	return nil
}

// due returns the due time of a timer, zero when there is none. It fails only when the store cannot
// be read.
func (a *appending) due(key []byte, t *persistence.Timer) (time.Time, error) {
	due, known := a.known.timers[alarm{t.Kind, t.Stream, t.Key}]
	if known {
		return due, nil
	}
	value, err := a.probe.get(key)
	if value == nil || err != nil {
		return time.Time{}, err
	}
	return decodeTimer(value)
}

// writeTimers stages the timers of a checked batch: a new due time replaces the old one, a zero one
// removes the timer. It fails only when the store cannot be read.
func (a *appending) writeTimers(b *persistence.Batch) error {
	for i := range b.Timers {
		t := &b.Timers[i]
		key := keyTimer(a.id, t.Kind, t.Stream, t.Key)
		due, err := a.due(key, t)
		if err != nil {
			return err
		}
		if !due.IsZero() {
			a.writes.delete(keyDue(a.id, due, t.Kind, t.Stream, t.Key))
		}
		switch {
		case !t.Due.IsZero():
			a.writes.set(key, encodeTimer(t.Due))
			a.writes.set(keyDue(a.id, t.Due, t.Kind, t.Stream, t.Key), encodeDue(b, t))
			if at := t.Due.Round(0); a.timer.IsZero() || at.Before(a.timer) {
				a.timer = at
			}
		case !due.IsZero():
			a.writes.delete(key)
		}
		a.known.timers[alarm{t.Kind, t.Stream, t.Key}] = t.Due
	}
	return nil
}
