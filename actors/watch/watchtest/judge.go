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

// Judge is the PaymentSink of a watcher under test. It fails the test at the first report that the
// history contradicts. Its content survives a crash of the watcher.
type Judge struct {
	T         *rapid.T
	History   *History
	Node      *Node // nil when the node never switches forks
	Threshold int
	// ParseNames translates the hashes of a wire format into the numbers of the history.
	ParseNames func(o partner.Observation) (tx, block int)

	Watching      []watch.Address
	RefuseReports bool // Report fails
	cursor        uint64
	saved         bool
	reported      map[string]partner.Observation // by transaction, index and block
	finals        map[string]bool
	Reports       int
}

// Addresses returns Watching.
func (j *Judge) Addresses(string) []watch.Address { return slices.Clone(j.Watching) }

// Report fails the test unless the observation is true on the chain that the node shows.
func (j *Judge) Report(_ context.Context, o partner.Observation) error {
	if j.RefuseReports {
		return errors.New("the sink refuses reports")
	}
	if j.reported == nil {
		j.reported, j.finals = make(map[string]partner.Observation), make(map[string]bool)
	}
	j.Reports++
	tx, block := j.ParseNames(o)
	b, existed := j.History.All[block]
	if !existed {
		j.T.Fatalf("a report from a block that never existed: %+v", o)
	}
	if !slices.ContainsFunc(b.Transfers, func(t Transfer) bool {
		return t.Tx == tx && t.Index == o.Index && t.Address == o.Address && fmt.Sprint(t.Amount) == o.Amount &&
			t.Asset == o.Asset
	}) {
		j.T.Fatalf("a report of a transfer that its block does not have: %+v", o)
	}
	chain := j.shownChain()
	there := int(b.Number) <= len(chain) && chain[b.Number-1].Hash == block
	key := fmt.Sprint(tx, "/", o.Index, "/", block)
	if o.Removed {
		if there {
			j.T.Fatalf("withdrawn although the transfer is on the chain: %+v", o)
		}
		delete(j.reported, key)
		return nil
	}
	if o.Threshold != j.Threshold || o.Confirmations < 1 {
		j.T.Fatalf("confirmations: %+v", o)
	}
	for _, before := range j.reported {
		if other, elsewhere := j.ParseNames(before); other == tx && elsewhere != block {
			j.T.Fatalf("reported in two blocks at once: %+v, and before: %+v", o, before)
		}
	}
	if o.Confirmations >= j.Threshold {
		if depth := len(chain) - int(b.Number) + 1; !there || depth < j.Threshold {
			j.T.Fatalf("final too early, its depth is %d (on the chain: %v): %+v", depth, there, o)
		}
		j.finals[key] = true
	}
	j.reported[key] = o
	return nil
}

// shownChain returns the chain that reports must agree with. For a node with the fault
// SwitchesForks it is the fork that the node served last, and else the history's chain.
func (j *Judge) shownChain() []Block {
	if j.Node != nil && j.Node.Fault == SwitchesForks {
		return j.Node.LastServed
	}
	return j.History.Chain
}

// Unsettled returns the reported observations that are not final.
func (j *Judge) Unsettled(context.Context, string) (open []partner.Observation, _ error) {
	for _, key := range slices.Sorted(maps.Keys(j.reported)) {
		if !j.finals[key] {
			open = append(open, j.reported[key])
		}
	}
	return open, nil
}

// Cursor returns the saved block.
func (j *Judge) Cursor(context.Context, string) (uint64, bool, error) { return j.cursor, j.saved, nil }

// SaveCursor stores the block.
func (j *Judge) SaveCursor(_ context.Context, _ string, block uint64) error {
	j.cursor, j.saved = block, true
	return nil
}

// RequireAllReported fails the test unless the standing reports are exactly the watched transfers
// on the chain, the deep ones as final.
func (j *Judge) RequireAllReported() {
	want := make(map[string]bool)
	for _, b := range j.History.Chain {
		for _, t := range b.Transfers {
			if !slices.ContainsFunc(j.Watching, func(p watch.Address) bool { return p.Address == t.Address }) {
				continue
			}
			key := fmt.Sprint(t.Tx, "/", t.Index, "/", b.Hash)
			want[key] = true
			if _, told := j.reported[key]; !told {
				j.T.Fatalf("%s in block %d of %d was never reported", key, b.Number, len(j.History.Chain))
			}
			if deep := len(j.History.Chain)-int(b.Number)+1 >= j.Threshold; deep && !j.finals[key] {
				j.T.Fatalf("%s in block %d of %d was never final", key, b.Number, len(j.History.Chain))
			}
		}
	}
	for key := range j.reported {
		if !want[key] {
			j.T.Fatalf("%s was not withdrawn", key)
		}
	}
}
