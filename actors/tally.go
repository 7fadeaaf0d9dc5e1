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

// maxTallies bounds the tallies that a lane remembers between commits; over it they are read again.
const maxTallies = 4096

// Tally is how many records of a kind a tenant has, and the id of the first. Its record has the kind "tally_" and the name
// of the tally, and the tenant's id.
type Tally struct {
	Count int64  `json:"count"`
	First string `json:"first,omitempty"`
}

// TallyKind is the kind of the records of a tally.
func TallyKind(name string) string { return "tally_" + name }

// tallies keep the counts of a lane's shard exact. The lane is the shard's only writer, so it adds the new count to the
// very batch that makes one more. A batch of a group may be refused while those behind it are written, with a count that is then
// too high: therefore a second batch joins a group that moves its tally only when it is certain that the first will be written.
type tallies struct {
	known map[tallyKey]Tally
	moved map[tallyKey]*op // the last of the group that is being gathered
}

type tallyKey struct{ kind, workspace string }

func newTallies() tallies {
	return tallies{known: map[tallyKey]Tally{}, moved: map[tallyKey]*op{}}
}

func (o *op) tallyKey(t decision.Tally) tallyKey {
	return tallyKey{TallyKind(t.Name), o.batch.Workspace}
}

// admit says whether the op may join the group.
func (l *lane) admit(ctx context.Context, group []*op, o *op) bool {
	for _, t := range o.tallies {
		if before := l.tallies.moved[o.tallyKey(t)]; before != nil && !l.certain(ctx, group, before) {
			return false
		}
	}
	for _, t := range o.tallies {
		l.tallies.moved[o.tallyKey(t)] = o
	}
	return true
}

// certain says that nothing can refuse the batch of an op of the group: it begins its stream and its claims are free. What is
// free now is free at the commit, for nobody else writes in between, and time only frees claims.
func (l *lane) certain(ctx context.Context, group []*op, o *op) bool {
	if len(o.batch.Events) == 0 || o.batch.Events[0].Version != 1 {
		return false
	}
	begins := &o.batch.Events[0]
	for _, other := range group {
		if other != o && (other.begins(begins) || other.claimsAnyOf(o.batch.Onces)) {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
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

func (o *op) begins(e *persistence.Event) bool {
	return len(o.batch.Events) > 0 && o.batch.Events[0].Version == 1 && o.batch.Events[0].Stream == e.Stream
}

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

// count adds the tallies' records to the batches of a group and returns the ops that may be appended; the others have their
// outcome.
func (l *lane) count(ctx context.Context, group []*op) []*op {
	if !slices.ContainsFunc(group, func(o *op) bool { return len(o.tallies) > 0 }) {
		return group
	}
	live := make([]*op, 0, len(group))
	for _, o := range group {
		if err := l.countOne(ctx, o); err != nil {
			o.outcome = persistence.Outcome{Err: err}
			continue
		}
		live = append(live, o)
	}
	return live
}

func (l *lane) countOne(ctx context.Context, o *op) error {
	after := make([]Tally, len(o.tallies))
	for i, t := range o.tallies {
		now, err := l.tally(ctx, o, t)
		if err != nil {
			return persistence.ErrUnavailable
		}
		if !t.Less && t.Max > 0 && now.Count >= t.Max {
			return fault.New(fault.LimitExceeded, fmt.Sprintf("the workspace has %d of these, which is the most", t.Max))
		}
		after[i] = now.moved(t)
	}
	for i, t := range o.tallies {
		document, err := json.Marshal(after[i])
		if err != nil {
			panic("BUG: a tally that is no JSON: " + err.Error())
		}
		key := o.tallyKey(t)
		l.tallies.known[key] = after[i]
		o.batch.Records = append(o.batch.Records, persistence.Record{Kind: key.kind, Workspace: key.workspace, ID: key.workspace,
			Slot: o.batch.Slot, Document: document})
	}
	return nil
}

// moved is the tally after a batch that makes one more, or one less.
func (t Tally) moved(by decision.Tally) Tally {
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

// tally reads a count: from memory, from its record, or, for a tenant older than the tally, by counting once.
func (l *lane) tally(ctx context.Context, o *op, t decision.Tally) (Tally, error) {
	key := o.tallyKey(t)
	now, known := l.tallies.known[key]
	if known {
		return now, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
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
	if len(l.tallies.known) >= maxTallies {
		clear(l.tallies.known)
	}
	l.tallies.known[key] = now
	return now, nil
}

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

// counted forgets the tallies of what a commit has not written; they are read again.
func (l *lane) counted(group []*op) {
	for _, o := range group {
		if o.outcome.Err == nil {
			continue
		}
		for _, t := range o.tallies {
			delete(l.tallies.known, o.tallyKey(t))
		}
	}
}
