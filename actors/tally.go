package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
)

// maxTallies bounds the tallies that a lane caches. A full cache is cleared and read again.
const maxTallies = 4096

// Tally is the number of records of a kind that a workspace has, and the id of the first. Its own
// record has the kind "tally_" and the tally's name, and the workspace's id.
type Tally struct {
	Count int64  `json:"count"`
	First string `json:"first,omitempty"`
}

// TallyKind returns the kind of a tally's records.
func TallyKind(name string) string { return "tally_" + name }

// tallies keep the counts of a shard exact. The lane is the shard's only writer and adds the record
// of the new count to the batch that changes it. A refused batch would make the counts of later
// batches in its group too high. Two batches that change one tally share a group only when the
// journal cannot refuse the first.
type tallies struct {
	cached      map[tallyKey]Tally
	lastInGroup map[tallyKey]*op // the last op of the gathered group that changes the tally
}

type tallyKey struct{ kind, workspace string }

func newTallies() tallies {
	return tallies{cached: map[tallyKey]Tally{}, lastInGroup: map[tallyKey]*op{}}
}

func (o *op) tallyKey(t decision.Tally) tallyKey {
	return tallyKey{TallyKind(t.Name), o.batch.Workspace}
}

// mayJoin reports whether an op may join the group, and notes the tallies that it changes. It may
// not when an earlier op of the group changes one of these tallies and the journal could refuse
// that op.
func (l *lane) mayJoin(ctx context.Context, group []*op, o *op) bool {
	for _, t := range o.tallies {
		if before := l.tallies.lastInGroup[o.tallyKey(t)]; before != nil && !l.cannotBeRefused(ctx, group, before) {
			return false
		}
	}
	for _, t := range o.tallies {
		l.tallies.lastInGroup[o.tallyKey(t)] = o
	}
	return true
}

// cannotBeRefused reports whether the journal is certain to accept the batch of a group's op: it
// begins a new stream, and its claims are free. A claim that is free now is free at the commit,
// because no other process writes to the shard and time only frees claims. A failed read is false.
func (l *lane) cannotBeRefused(ctx context.Context, group []*op, o *op) bool {
	if len(o.batch.Events) == 0 || o.batch.Events[0].Version != 1 {
		return false
	}
	begins := &o.batch.Events[0]
	for _, other := range group {
		if other != o && (other.startsStreamOf(begins) || other.claimsAnyOf(o.batch.Onces)) {
			return false
		}
	}
	ctx, cancel := l.sys.Within(ctx, loadTimeout)
	defer cancel()
	_, err := l.sys.journal.Record(ctx, o.batch.Slot, begins.Kind, begins.Stream)
	if !errors.Is(err, persistence.ErrNotFound) {
		return false
	}
	for _, claim := range o.batch.Onces {
		_, held, err := l.sys.journal.Once(ctx, l.shard.id, claim.Scope, claim.Hash, l.sys.clock())
		if held || err != nil {
			return false
		}
	}
	return true
}

func (o *op) startsStreamOf(e *persistence.Event) bool {
	return len(o.batch.Events) > 0 && o.batch.Events[0].Version == 1 && o.batch.Events[0].Stream == e.Stream
}

// claimsAnyOf reports whether an operation's batch claims one of some idempotency keys.
func (o *op) claimsAnyOf(claims []persistence.Once) bool {
	for _, mine := range o.batch.Onces {
		for _, claim := range claims {
			if mine.Scope == claim.Scope && mine.Hash == claim.Hash {
				return true
			}
		}
	}
	return false
}

// addTallies adds the records of new counts to the batches of a group, and returns the ops to
// append. An op over a limit gets the outcome limit_exceeded, and one whose tally cannot be read
// ErrUnavailable; both are left out.
func (l *lane) addTallies(ctx context.Context, group []*op) []*op {
	if !slices.ContainsFunc(group, func(o *op) bool { return len(o.tallies) > 0 }) {
		return group
	}
	live := make([]*op, 0, len(group))
	for _, o := range group {
		if err := l.addTalliesOf(ctx, o); err != nil {
			o.outcome = persistence.Outcome{Err: err}
			continue
		}
		live = append(live, o)
	}
	return live
}

// addTalliesOf adds the records of new counts to the batch of one op. It fails, with nothing added,
// with limit_exceeded when the op would exceed a tally's Max, and with ErrUnavailable when a tally
// cannot be read.
func (l *lane) addTalliesOf(ctx context.Context, o *op) error {
	after := make([]Tally, len(o.tallies))
	for i, t := range o.tallies {
		now, err := l.readTally(ctx, o, t)
		if err != nil {
			return persistence.ErrUnavailable
		}
		if !t.Less && t.Max > 0 {
			if err := now.RequirePlace(t.Max); err != nil {
				return err
			}
		}
		after[i] = now.changedBy(t)
	}
	for i, t := range o.tallies {
		document, err := json.Marshal(after[i])
		if err != nil {
			panic("BUG: a tally that is no JSON: " + err.Error())
		}
		key := o.tallyKey(t)
		l.tallies.cached[key] = after[i]
		o.batch.Records = append(o.batch.Records, persistence.Record{Kind: key.kind, Workspace: key.workspace,
			ID:   key.workspace,
			Slot: o.batch.Slot, Document: document})
	}
	return nil
}

// RequirePlace fails with limit_exceeded when the workspace has most records or more, so that there
// is no place for another.
func (t Tally) RequirePlace(most int64) error {
	if t.Count >= most {
		return fault.New(fault.LimitExceeded,
			fmt.Sprintf("the workspace has %d of these, which is the most", most))
	}
	return nil
}

// changedBy returns the tally after a batch that adds or removes one record.
func (t Tally) changedBy(by decision.Tally) Tally {
	switch {
	case by.Less:
		t.Count--
		return t
	case t.First == "":
		t.First = by.ID
	}
	t.Count++
	return t
}

// readTally returns a tally from the cache or its record. Without a record, as for a workspace
// older than the tally, it counts the workspace's records. It fails when the journal cannot be read
// or the record does not decode, and logs that.
func (l *lane) readTally(ctx context.Context, o *op, t decision.Tally) (Tally, error) {
	key := o.tallyKey(t)
	now, known := l.tallies.cached[key]
	if known {
		return now, nil
	}
	ctx, cancel := l.sys.Within(ctx, loadTimeout)
	defer cancel()
	record, err := l.sys.journal.Record(ctx, o.batch.Slot, key.kind, key.workspace)
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		now, err = l.countRecords(ctx, o, t.Name)
	case err == nil:
		err = json.Unmarshal(record.Document, &now)
	}
	if err != nil {
		l.sys.log.Error("tally not read", "kind", key.kind, "err", err)
		return now, err
	}
	if len(l.tallies.cached) >= maxTallies {
		clear(l.tallies.cached)
	}
	l.tallies.cached[key] = now
	return now, nil
}

// countRecords returns the number of records of a kind that the op's workspace has, and the id of
// the oldest. It fails only when the journal cannot be read.
func (l *lane) countRecords(ctx context.Context, o *op, kind string) (Tally, error) {
	var t Tally
	page := persistence.Page{Limit: persistence.MaxPage}
	for {
		records, err := l.sys.journal.List(ctx, o.batch.Slot, kind, o.batch.Workspace, "", page)
		if err != nil {
			return t, err
		}
		t.Count += int64(len(records))
		if n := len(records); n > 0 {
			last := records[n-1]
			t.First, page.AfterPosition, page.AfterOrdinal = last.ID, last.Position, last.Ordinal
		}
		if len(records) < persistence.MaxPage {
			return t, nil
		}
	}
}

// forgetFailedTallies drops cached tallies whose batches failed, so that they are read again.
func (l *lane) forgetFailedTallies(group []*op) {
	for _, o := range group {
		if o.outcome.Err == nil {
			continue
		}
		for _, t := range o.tallies {
			delete(l.tallies.cached, o.tallyKey(t))
		}
	}
}
