package watch_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/watch"
	"purser/actors/watch/watchtest"
)

// histories is how many random histories are lived; PURSER_HISTORIES has the long form.
func histories(t *testing.T) int {
	n := 20_000
	if text := os.Getenv("PURSER_HISTORIES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return n
}

// TestRandomHistories: whatever a chain and its node do, a watcher reports nothing that is not so, nothing as final before it
// is, and in the end all of it.
func TestRandomHistories(t *testing.T) {
	lived := 0
	for lived < histories(t) {
		rapid.Check(t, func(rt *rapid.T) {
			lived++
			live(rt)
		})
	}
}

func live(t *rapid.T) {
	threshold := rapid.SampledFrom([]int{1, 2, 3, 6, 12}).Draw(t, "threshold")
	history := watchtest.NewHistory(rapid.IntRange(1, 40).Draw(t, "old blocks"))
	node := &watchtest.Node{History: history}
	noCrash, depth := rapid.Bool().Draw(t, "no crash"), threshold-1
	if noCrash {
		depth = min(threshold+2, 2*threshold)
	}
	life := &watchtest.Life{T: t, Node: node, Wire: &watchtest.Chain{Node: node, Depth: threshold, Most: 2*threshold + 20},
		Judge:  &watchtest.Judge{T: t, History: history, Node: node, Threshold: threshold, Names: watchtest.Plain},
		Assets: []string{"USDC", "USDT", "USDC.e"}, Address: func(n int) string { return fmt.Sprint("address ", n) },
		MaxDepth: depth, NoCrash: noCrash}
	life.Live(rapid.IntRange(1, 80).Draw(t, "moves"))
}

// A thousand sessions cost one read for each block, and nothing while there is none.
func TestOneReadForEachBlock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 12, Names: watchtest.Plain}
		for n := range 1000 {
			judge.Watching = append(judge.Watching, watch.Place{Address: fmt.Sprint(n), Since: history.Now()})
		}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 12, Most: 1000}, judge)
		require.NoError(rt, w.Step(t.Context()))
		before := node.Reads
		blocks := rapid.IntRange(1, 20).Draw(rt, "blocks")
		for n := range blocks {
			history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: fmt.Sprint(n), Tx: n + 1, Amount: 5}})
			for range 3 {
				node.Begin()
				require.NoError(rt, w.Step(t.Context()))
				require.LessOrEqual(rt, node.Calls, 16)
			}
		}
		require.Equal(rt, blocks, node.Reads-before)
		require.GreaterOrEqual(rt, judge.Reports, blocks)
	})
}

// A payment on its way to an address that the watcher hears of only when the block is left behind is found all the same.
func TestALateAddressIsFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 2, Names: watchtest.Plain}
		judge.Watching = []watch.Place{{Address: "one", Since: history.Now()}}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 2, Most: 10}, judge)
		require.NoError(rt, w.Step(t.Context()))
		since := history.Now()
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "two", Tx: 1, Amount: 5}})
		for range rapid.IntRange(0, 50).Draw(rt, "blocks") {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.Watching = append(judge.Watching, watch.Place{Address: "two", Since: since})
		for range 8 {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.Settled()
	})
}

// What the chain took back though it was final is withdrawn: people have to see it.
func TestAReorganisationBelowTheThreshold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, Names: watchtest.Plain}
		judge.Watching = []watch.Place{{Address: "one", Since: history.Now().Add(time.Minute)}}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 3, Most: 100}, judge)
		require.NoError(rt, w.Step(t.Context()))
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		for range 4 {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.Settled()
		history.Drop(5)
		for range 8 {
			history.Mine(nil)
		}
		require.NoError(rt, w.Step(t.Context()))
		require.NoError(rt, w.Step(t.Context()))
		judge.Settled()
	})
}

// A transaction that comes to lie in another block, where its transfers have other indexes, is withdrawn from the old one before
// it is reported from the new one: whoever knows a transfer by transaction and index would take one of them for another.
func TestAShiftedTransactionIsWithdrawnFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, Names: watchtest.Plain}
		judge.Watching = []watch.Place{{Address: "one", Since: history.Now()}}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 3, Most: 100}, judge)
		require.NoError(rt, w.Step(t.Context()))
		pays := func(first int) []watchtest.Transfer {
			return []watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Index: first, Amount: 5},
				{Asset: "USDC", Address: "one", Tx: 1, Index: first + 1, Amount: 7}}
		}
		history.Mine(pays(rapid.IntRange(0, 2).Draw(rt, "first index")))
		require.NoError(rt, w.Step(t.Context()))
		history.Drop(1)
		for range rapid.IntRange(0, 2).Draw(rt, "later") {
			history.Mine(nil)
		}
		history.Mine(pays(rapid.IntRange(0, 2).Draw(rt, "its index now")))
		require.NoError(rt, w.Step(t.Context()))
		require.Equal(rt, 6, judge.Reports, "two, both withdrawn, two")
		judge.Settled()
	})
}

// stale answers for transfers from another fork than for anything else.
type stale struct {
	*watchtest.Chain
	fork *watchtest.Chain
}

// Transfers are the fork's.
func (s stale) Transfers(ctx context.Context, from, through uint64, addresses []string) ([]partner.Observation, error) {
	return s.fork.Transfers(ctx, from, through, addresses)
}

// Of a node that changes forks in the middle of a look nothing is reported that is not so by then, whichever call the change comes
// before; one that has the transfers of another fork than its blocks is not believed.
func TestAForkInTheMiddleOfALook(t *testing.T) {
	for until := 0; until < 8; until++ {
		rapid.Check(t, func(rt *rapid.T) {
			history := watchtest.NewHistory(30)
			node := &watchtest.Node{History: history, Deepest: 1}
			judge := &watchtest.Judge{T: rt, History: history, Node: node, Threshold: 1, Names: watchtest.Plain,
				Watching: []watch.Place{{Address: "one", Since: history.Now()}}}
			chain := &watchtest.Chain{Node: node, Depth: 1, Most: 100}
			w := watch.New(chain, judge)
			require.NoError(rt, w.Step(t.Context()))
			history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
			node.Other = history.Chain
			history.Drop(1)
			history.Mine(nil)
			node.Fault, node.Until = watchtest.Switches, until
			node.Begin()
			_ = w.Step(t.Context()) // the judge fails a report that is not so when it is made
		})
	}
	history := watchtest.NewHistory(30)
	fork := watchtest.NewHistory(30)
	judge := &watchtest.Judge{History: history, Threshold: 1, Names: watchtest.Plain,
		Watching: []watch.Place{{Address: "one", Since: history.Now()}}}
	chain := stale{Chain: &watchtest.Chain{Node: &watchtest.Node{History: history}, Depth: 1, Most: 100},
		fork: &watchtest.Chain{Node: &watchtest.Node{History: fork}, Depth: 1, Most: 100}}
	w := watch.New(chain, judge)
	require.NoError(t, w.Step(t.Context()))
	history.Mine(nil)
	fork.Mine(nil)
	history.Mine(nil)
	fork.Drop(1)
	fork.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
	require.ErrorIs(t, w.Step(t.Context()), watch.ErrNode)
	require.Zero(t, judge.Reports)
}

// A node that names a head it does not have is not believed.
func TestABoastIsAnError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, Names: watchtest.Plain,
			Watching: []watch.Place{{Address: "one", Since: history.Now().Add(time.Minute)}}}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 3, Most: 10_000}, judge)
		require.NoError(rt, w.Step(t.Context()))
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		node.Fault = watchtest.Boasts
		err := w.Step(t.Context())
		require.ErrorIs(rt, err, watch.ErrNode)
		require.ErrorIs(rt, err, partner.ErrNoBlock)
		require.Zero(rt, judge.Reports)
	})
}

// What an operator is told: how far the watcher is behind, forks that were seen, and faults that are the node's and no others.
func TestProgressIsTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Node: node, Threshold: 3, Names: watchtest.Plain}
		w := watch.New(&watchtest.Chain{Node: node, Depth: 3, Most: 26}, judge)
		step := func() (watch.Progress, error) {
			node.Begin()
			err := w.Step(t.Context())
			return w.Progress(), err
		}
		require.Zero(rt, w.Progress())
		told, err := step()
		require.NoError(rt, err)
		require.Equal(rt, []uint64{30, 0, 0, 0}, []uint64{told.Head.Number, told.Behind, told.Reorganisations, told.NodeFaults},
			"nobody is looked for")
		judge.Watching = []watch.Place{{Address: "one", Since: history.Now()}}
		_, err = step()
		require.NoError(rt, err)
		for range 40 {
			history.Mine(nil)
		}
		told, err = step()
		require.NoError(rt, err)
		require.Positive(rt, told.Behind, "more than one query's blocks are new")
		for told.Behind > 0 {
			told, err = step()
			require.NoError(rt, err)
		}
		depth := rapid.IntRange(1, 2).Draw(rt, "depth")
		history.Drop(depth)
		for range depth + rapid.IntRange(0, 2).Draw(rt, "longer") {
			history.Mine(nil)
		}
		told, err = step()
		require.NoError(rt, err)
		require.Equal(rt, uint64(1), told.Reorganisations)
		node.Fault = watchtest.Gone
		_, err = step()
		require.Error(rt, err)
		node.Fault, judge.Refuses = 0, true
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		told, err = step()
		require.ErrorContains(rt, err, "no place for it")
		require.Equal(rt, []uint64{1, 1, 1}, []uint64{told.Behind, told.Reorganisations, told.NodeFaults},
			"what the book refuses is not the node's")
	})
}
