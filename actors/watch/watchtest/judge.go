package watchtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/watch"
)

// Judge is the other side of a watcher: it gives it addresses and takes its reports, and fails the test when one could not have
// been true. What it holds survives the watcher.
type Judge struct {
	T         *rapid.T
	History   *History
	Node      *Node // nil: one that does not switch
	Threshold int
	// Names turns what a wire calls transactions and blocks back into the history's numbers.
	Names func(o partner.Observation) (tx, block int)

	Watching []watch.Place
	Refuses  bool // reports are not taken
	cursor   uint64
	saved    bool
	told     map[string]partner.Observation // by what Known makes of it
	finals   map[string]bool
	Reports  int
}

// Places are Watching.
func (j *Judge) Places(string) []watch.Place { return slices.Clone(j.Watching) }

// Report judges one.
func (j *Judge) Report(_ context.Context, o partner.Observation) error {
	if j.Refuses {
		return errors.New("no place for it")
	}
	if j.told == nil {
		j.told, j.finals = make(map[string]partner.Observation), make(map[string]bool)
	}
	j.Reports++
	tx, block := j.Names(o)
	b, existed := j.History.All[block]
	if !existed {
		j.T.Fatalf("a report from a block that never was: %+v", o)
	}
	if !slices.ContainsFunc(b.Transfers, func(t Transfer) bool {
		return t.Tx == tx && t.Index == o.Index && t.Address == o.Address && fmt.Sprint(t.Amount) == o.Amount &&
			t.Asset == o.Asset
	}) {
		j.T.Fatalf("a report of what is not in its block: %+v", o)
	}
	chain := j.chain()
	there := int(b.Number) <= len(chain) && chain[b.Number-1].Hash == block
	key := fmt.Sprint(tx, "/", o.Index, "/", block)
	if o.Removed {
		if there {
			j.T.Fatalf("withdrawn, though it is there: %+v", o)
		}
		delete(j.told, key)
		return nil
	}
	if o.Threshold != j.Threshold || o.Confirmations < 1 {
		j.T.Fatalf("confirmations: %+v", o)
	}
	for _, before := range j.told {
		if other, elsewhere := j.Names(before); other == tx && elsewhere != block {
			j.T.Fatalf("told in two blocks at once: %+v, and before: %+v", o, before)
		}
	}
	if o.Confirmations >= j.Threshold {
		if depth := len(chain) - int(b.Number) + 1; !there || depth < j.Threshold {
			j.T.Fatalf("final too early, its depth is %d (on the chain: %v): %+v", depth, there, o)
		}
		j.finals[key] = true
	}
	j.told[key] = o
	return nil
}

// chain is what is so: of a node that switches between forks, the one that it has shown last.
func (j *Judge) chain() []Block {
	if j.Node != nil && j.Node.Fault == Switches {
		return j.Node.Shown
	}
	return j.History.Chain
}

// Unsettled are those that are not final.
func (j *Judge) Unsettled(context.Context, string) (open []partner.Observation, _ error) {
	for _, key := range slices.Sorted(maps.Keys(j.told)) {
		if !j.finals[key] {
			open = append(open, j.told[key])
		}
	}
	return open, nil
}

// Cursor is what was saved.
func (j *Judge) Cursor(context.Context, string) (uint64, bool, error) { return j.cursor, j.saved, nil }

// SaveCursor keeps it.
func (j *Judge) SaveCursor(_ context.Context, _ string, block uint64) error {
	j.cursor, j.saved = block, true
	return nil
}

// Settled fails the test unless exactly what is on the chain now was told and not withdrawn, and what is deep enough as final.
func (j *Judge) Settled() {
	want := make(map[string]bool)
	for _, b := range j.History.Chain {
		for _, t := range b.Transfers {
			if !slices.ContainsFunc(j.Watching, func(p watch.Place) bool { return p.Address == t.Address }) {
				continue
			}
			key := fmt.Sprint(t.Tx, "/", t.Index, "/", b.Hash)
			want[key] = true
			if _, told := j.told[key]; !told {
				j.T.Fatalf("never told of %s in block %d of %d", key, b.Number, len(j.History.Chain))
			}
			if deep := len(j.History.Chain)-int(b.Number)+1 >= j.Threshold; deep && !j.finals[key] {
				j.T.Fatalf("%s in block %d of %d was never final", key, b.Number, len(j.History.Chain))
			}
		}
	}
	for key := range j.told {
		if !want[key] {
			j.T.Fatalf("%s was not withdrawn", key)
		}
	}
}
