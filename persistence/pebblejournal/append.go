package pebblejournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purser/actors/ident"
	"purser/persistence"
)

// maxCommit is the size, in bytes, at which an Append commits what it has staged and goes on in another Pebble batch: Pebble
// takes at most 4 GiB, and a commit must fit in memory.
const maxCommit = 32 << 20

// Append implements persistence.Journal. A batch over a limit is refused by its outcome, a group over MaxGroup as a whole.
// It does not end early when the context ends after it has begun.
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
	// Epoch 0 is that of a shard nobody has taken; nobody holds it.
	if epoch == 0 || epoch != s.head.Epoch {
		return nil, fmt.Errorf("%w: shard %d is at epoch %d, not %d", persistence.ErrFenced, id, s.head.Epoch, epoch)
	}
	if err := j.commitGroup(id, now, group, outcomes); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// commitGroup stages the batches that have no outcome yet and commits them. The shard is locked.
func (j *Journal) commitGroup(id ident.Shard, now time.Time, group []*persistence.Batch, outcomes []persistence.Outcome) error {
	a := appending{j: j, id: id, now: now, head: j.shards[id].head, writes: j.store.writes()}
	for i, b := range group {
		if outcomes[i].Err != nil {
			continue
		}
		outcome, err := a.stage(b)
		if err == nil && a.writes.bytes() >= maxCommit {
			err = a.commit()
			a.writes = j.store.writes()
		}
		if err != nil {
			return a.abort(err)
		}
		outcomes[i] = outcome
	}
	return a.commit()
}

// appending is a group on its way into a shard. Reads go through writes, so that a batch sees the ones before it.
type appending struct {
	j         *Journal
	id        ident.Shard
	now       time.Time
	head      head // after what is staged
	writes    writes
	committed bool
}

// commit makes what is staged durable, then shows it.
func (a *appending) commit() error {
	if a.writes.empty() {
		return a.writes.discard()
	}
	a.writes.set(keyHead(a.id), encodeHead(a.head))
	if err := a.j.store.commit(a.writes); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	a.committed = true
	a.j.shards[a.id].publish(a.head)
	return nil
}

// abort gives up a group whose state could not be read. What an earlier part of it committed stands.
func (a *appending) abort(err error) error {
	if errors.Is(err, persistence.ErrAmbiguous) {
		return err
	}
	err = errors.Join(err, a.writes.discard())
	if a.committed {
		return fmt.Errorf("%w: %w", persistence.ErrAmbiguous, err)
	}
	return unavailable(err)
}

// stage checks one batch and writes it. A refusal is in the outcome; the error is the store's. All checks come before the
// first write. A taken once-key is told before a version: a repeat is owed the first one's answer.
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

func (a *appending) once(o *persistence.Once) (persistence.Once, bool, error) {
	value, err := a.writes.get(keyOnce(a.id, o.Scope, o.Hash))
	if value == nil || err != nil {
		return persistence.Once{}, false, err
	}
	existing, err := decodeOnce(o.Scope, o.Hash, value)
	return existing, true, err
}

func (a *appending) checkOnces(b *persistence.Batch) (refusal, err error) {
	type claim struct {
		scope string
		hash  [32]byte
	}
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

func (a *appending) checkVersions(b *persistence.Batch) (refusal, err error) {
	type stream struct{ kind, id string }
	at := make(map[stream]uint64, 1)
	for i := range b.Events {
		e := &b.Events[i]
		s := stream{e.Kind, e.Stream}
		version, known := at[s]
		if !known {
			if version, err = a.version(e.Kind, e.Stream); err != nil {
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

func (a *appending) version(kind, stream string) (uint64, error) {
	value, err := a.writes.get(keyVersion(a.id, kind, stream))
	if value == nil || err != nil {
		return 0, err
	}
	return decodeNumber(value)
}

func (a *appending) writeEvents(b *persistence.Batch) persistence.Outcome {
	if len(b.Events) == 0 {
		return persistence.Outcome{}
	}
	first := a.head.Position + 1
	for i := range b.Events {
		e := &b.Events[i]
		a.head.Position++
		a.writes.set(keyEvent(a.id, a.head.Position), encodeEvent(b, e))
		// Only a stream's last event of the batch counts, but most streams have one.
		a.writes.set(keyVersion(a.id, e.Kind, e.Stream), encodeNumber(e.Version))
	}
	a.head.ordinal = 0
	return persistence.Outcome{First: first, Last: a.head.Position}
}

func (a *appending) writeRecords(b *persistence.Batch) error {
	for i := range b.Records {
		r := b.Records[i]
		r.Workspace, r.Slot = b.WorkspaceOf(r.Workspace), b.SlotOf(r.Slot)
		if err := a.writeRecord(&r); err != nil {
			return err
		}
	}
	return nil
}

func (a *appending) writeRecord(r *persistence.Record) error {
	key := keyRecord(a.id, r.Kind, r.ID)
	value, err := a.writes.get(key)
	if err != nil {
		return err
	}
	var old persistence.Record
	if value != nil {
		if old, err = decodeRecord(r.Kind, r.ID, value); err != nil {
			return err
		}
	}
	moved := value == nil || old.Workspace != r.Workspace || old.Parent != r.Parent
	if value != nil && (r.Deleted || moved) {
		a.writes.delete(keyList(a.id, old.Kind, old.Workspace, old.Parent, old.Position, old.Ordinal))
	}
	if r.Deleted {
		if value != nil {
			a.writes.delete(key)
		}
		return nil
	}
	r.Position, r.Ordinal = old.Position, old.Ordinal
	if value == nil {
		a.head.ordinal++
		r.Position, r.Ordinal = a.head.Position, a.head.ordinal
	}
	if moved {
		a.writes.set(keyList(a.id, r.Kind, r.Workspace, r.Parent, r.Position, r.Ordinal), []byte(r.ID))
	}
	a.writes.set(key, encodeRecord(r))
	return nil
}

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
		a.writes.set(keyOnce(a.id, o.Scope, o.Hash), encodeOnce(o))
		if !o.Expires.IsZero() {
			a.writes.set(keyExpiry(a.id, o.Expires, o.Scope, o.Hash), nil)
		}
	}
	return nil
}

func (a *appending) writeTimers(b *persistence.Batch) error {
	for i := range b.Timers {
		t := &b.Timers[i]
		key := keyTimer(a.id, t.Kind, t.Stream, t.Key)
		value, err := a.writes.get(key)
		if err != nil {
			return err
		}
		if value != nil {
			due, err := decodeTimer(value)
			if err != nil {
				return err
			}
			a.writes.delete(keyDue(a.id, due, t.Kind, t.Stream, t.Key))
		}
		switch {
		case !t.Due.IsZero():
			a.writes.set(key, encodeTimer(t.Due))
			a.writes.set(keyDue(a.id, t.Due, t.Kind, t.Stream, t.Key), encodeDue(b, t))
		case value != nil:
			a.writes.delete(key)
		}
	}
	return nil
}
