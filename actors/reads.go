package actors

import (
	"context"
	"errors"
	"fmt"

	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// Record returns a record of a workspace; a sealed document is opened. It fails with not_found for
// an unknown id and for another workspace's record, and otherwise as Find does.
func (s *System) Record(ctx context.Context, kind, workspace, id string) (persistence.Record, error) {
	slot, err := ident.SlotOf(id)
	if err != nil {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	record, err := s.Find(ctx, slot, kind, id)
	if err == nil && record.Workspace != workspace {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return record, err
}

// Find returns a record of any workspace; a sealed document is opened. It is for secrets, sessions
// and emails, whose id is itself the proof of access. It fails with not_found without such a
// record, with unavailable when the journal does not answer or the authorizer does not follow it
// before the context ends, and with a plain error when the document does not open.
func (s *System) Find(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	record, err := s.journal.Record(ctx, slot, kind, id)
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return record, fault.New(fault.NotFound, "")
	case err != nil:
		return record, fault.New(fault.Unavailable, "The record could not be read.")
	}
	if err := s.documents.open(&record); err != nil {
		return record, err
	}
	return record, s.waitRules(ctx, slot, kind)
}

// waitRules waits until the authorizer has applied the journal's head, when a kind of record
// reports rules. It is called after the read, so that the answer shows only applied rules. It fails
// with unavailable when the context ends first.
func (s *System) waitRules(ctx context.Context, slot ident.Slot, kind string) error {
	if k := s.kinds[kind]; k == nil || !k.Rules {
		return nil
	}
	sh := s.shards[slot.Shard()]
	if sh.followed.wait(ctx, s.journal.Head(sh.id).Position) != nil {
		return fault.New(fault.Unavailable, "The authorizer does not follow the journal now; nothing changed.")
	}
	return nil
}

// List returns a page of a workspace's records, newest first; sealed documents are opened. parent
// limits it to the records of one parent, "" does not. It fails with not_found for an id that is no
// workspace's, and otherwise as Find does, except that an empty page is no error.
func (s *System) List(ctx context.Context, kind, workspace, parent string,
	page persistence.Page) ([]persistence.Record, error) {
	slot, err := ident.SlotOf(workspace)
	if err != nil {
		return nil, fault.New(fault.NotFound, "")
	}
	records, err := s.journal.List(ctx, slot, kind, workspace, parent, page)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The records could not be read.")
	}
	for i := range records {
		if err := s.documents.open(&records[i]); err != nil {
			return nil, err
		}
	}
	if err := s.waitRules(ctx, slot, kind); err != nil {
		return nil, err
	}
	return records, nil
}

// WaitRelayed waits until the journal shows the decisions that the authorizer had made for the
// workspace's shard at the call, for at most Config.RelayedWithin. After that time, or for an
// invalid id, it returns all the same, and the read that follows may miss decisions.
func (s *System) WaitRelayed(ctx context.Context, workspace string) {
	slot, err := ident.SlotOf(workspace)
	if err != nil {
		return
	}
	sh := s.shards[slot.Shard()]
	ctx, cancel := context.WithTimeout(ctx, s.config.RelayedWithin)
	defer cancel()
	_ = s.relayer.awaitRelayed(ctx, sh)
}

// maxChangeLook bounds the events that ChangedSince looks at.
const maxChangeLook = 256

// ChangedSince reports whether a workspace has events behind a position of its shard, and returns
// the position to ask from next. Behind more than maxChangeLook events it reports a change without
// looking further. Behind math.MaxUint64 it reports none and returns the newest position; reads
// after the call include that event. It fails with not_found for an id that is no workspace's, and
// with unavailable when the journal does not answer.
func (s *System) ChangedSince(ctx context.Context, workspace string, after uint64) (changed bool, next uint64,
	err error) {
	slot, err := ident.SlotOf(workspace)
	if err != nil {
		return false, after, fault.New(fault.NotFound, "")
	}
	shard := slot.Shard()
	head := s.journal.Head(shard).Position
	if after >= head {
		return false, head, nil
	}
	if head-after > maxChangeLook {
		return true, head, nil
	}
	events, err := s.journal.Events(ctx, shard, after, maxChangeLook)
	if err != nil {
		return false, after, fault.New(fault.Unavailable, "The events could not be read.")
	}
	for i := range events {
		changed = changed || events[i].Workspace == workspace
		after = max(after, events[i].Position)
	}
	return changed, after, nil
}

// RelayAll waits until the journal has every decision that the authorizer had made at the call. It
// fails only when the context ends first.
func (s *System) RelayAll(ctx context.Context) error {
	for _, sh := range s.shards {
		if err := s.relayer.awaitRelayed(ctx, sh); err != nil {
			return fmt.Errorf("shard %d: relay: %w", sh.id, err)
		}
	}
	return nil
}
