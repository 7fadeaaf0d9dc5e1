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

// numberOfHistories returns how many random histories to run; PURSER_HISTORIES overrides the
// default.
func numberOfHistories(t *testing.T) int {
	n := 20_000
	if text := os.Getenv("PURSER_HISTORIES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return n
}

func TestEveryTransferOfARandomHistoryIsReportedTruthfully(t *testing.T) {
	lived := 0
	for lived < numberOfHistories(t) {
		rapid.Check(t, func(rt *rapid.T) {
			lived++
			runRandomHistory(rt)
		})
	}
}

func runRandomHistory(t *rapid.T) {
	threshold := rapid.SampledFrom([]int{1, 2, 3, 6, 12}).Draw(t, "threshold")
	history := watchtest.NewHistory(rapid.IntRange(1, 40).Draw(t, "old blocks"))
	node := &watchtest.Node{History: history}
	noCrash, depth := rapid.Bool().Draw(t, "no crash"), threshold-1
	if noCrash {
		depth = min(threshold+2, 2*threshold)
	}
	simulation := &watchtest.Simulation{T: t, Node: node,
		Wire: &watchtest.Chain{Node: node, FinalDepth: threshold, MaxSpan: 2*threshold + 20},
		Judge: &watchtest.Judge{T: t, History: history, Node: node, Threshold: threshold,
			ParseNames: watchtest.PlainNames},
		Assets: []string{"USDC", "USDT", "USDC.e"}, Address: func(n int) string { return fmt.Sprint("address ", n) },
		MaxDepth: depth, NoCrash: noCrash}
	simulation.Run(rapid.IntRange(1, 80).Draw(t, "moves"))
}

// A thousand addresses cost one read for each new block, and none without a new block.
func TestOneReadForEachBlock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 12, ParseNames: watchtest.PlainNames}
		for n := range 1000 {
			judge.Watching = append(judge.Watching, watch.Address{Address: fmt.Sprint(n), Since: history.Now()})
		}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 12, MaxSpan: 1000}, judge)
		require.NoError(rt, w.Step(t.Context()))
		before := node.Reads
		blocks := rapid.IntRange(1, 20).Draw(rt, "blocks")
		for n := range blocks {
			history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: fmt.Sprint(n), Tx: n + 1, Amount: 5}})
			for range 3 {
				node.BeginStep()
				require.NoError(rt, w.Step(t.Context()))
				require.LessOrEqual(rt, node.Calls, 16)
			}
		}
		require.Equal(rt, blocks, node.Reads-before)
		require.GreaterOrEqual(rt, judge.Reports, blocks)
	})
}

// The watcher finds a payment to an address that was added after the block was settled.
func TestPaymentToALateAddressIsFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 2, ParseNames: watchtest.PlainNames}
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now()}}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 2, MaxSpan: 10}, judge)
		require.NoError(rt, w.Step(t.Context()))
		since := history.Now()
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "two", Tx: 1, Amount: 5}})
		for range rapid.IntRange(0, 50).Draw(rt, "blocks") {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.Watching = append(judge.Watching, watch.Address{Address: "two", Since: since})
		for range 8 {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.RequireAllReported()
	})
}

// A final transfer in a replaced block is withdrawn, so that an operator sees it.
func TestFinalTransferInAReplacedBlockIsWithdrawn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames}
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now().Add(time.Minute)}}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 100}, judge)
		require.NoError(rt, w.Step(t.Context()))
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		for range 4 {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		judge.RequireAllReported()
		history.Drop(5)
		for range 8 {
			history.Mine(nil)
		}
		require.NoError(rt, w.Step(t.Context()))
		require.NoError(rt, w.Step(t.Context()))
		judge.RequireAllReported()
	})
}

// A replaced block can move a transaction to another block, where its transfers have other indexes.
// The watcher withdraws it from the old block before it reports the new one. A sink that keys
// transfers by transaction and index would else mistake one for another.
func TestTransactionInANewBlockIsFirstWithdrawnFromTheOld(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames}
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now()}}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 100}, judge)
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
		require.Equal(rt, 6, judge.Reports, "two reports, two withdrawals, two reports")
		judge.RequireAllReported()
	})
}

// reportLog is a PaymentSink that watches one address and stores the reports.
type reportLog struct {
	since   time.Time
	reports []partner.Observation
}

func (l *reportLog) Addresses(string) []watch.Address {
	return []watch.Address{{Address: "one", Since: l.since}}
}

func (l *reportLog) Report(_ context.Context, o partner.Observation) error {
	l.reports = append(l.reports, o)
	return nil
}

func (l *reportLog) Unsettled(context.Context, string) ([]partner.Observation, error) {
	return nil, nil
}
func (l *reportLog) Cursor(context.Context, string) (uint64, bool, error) { return 0, false, nil }
func (l *reportLog) SaveCursor(context.Context, string, uint64) error     { return nil }

// A node shows a transfer once, and later the same block without it. The transfer is withdrawn when
// its block is as deep as a settled one. Until then, and after it, other payments are seen.
func TestTransferThatItsBlockNeverHadIsWithdrawn(t *testing.T) {
	history := watchtest.NewHistory(30)
	log := &reportLog{since: history.Now()}
	w := watch.New(&watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: 20}, log)
	require.NoError(t, w.Step(t.Context()))
	history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
	require.NoError(t, w.Step(t.Context()))
	require.Len(t, log.reports, 1)
	history.Chain[30].Transfers = nil
	for range 40 {
		history.Mine(nil)
		if err := w.Step(t.Context()); err != nil {
			require.ErrorIs(t, err, watch.ErrNode)
		}
	}
	require.Len(t, log.reports, 2)
	require.True(t, log.reports[1].Removed)
	require.Equal(t, "1", log.reports[1].TxHash)
	history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 2, Amount: 7}})
	require.NoError(t, w.Step(t.Context()))
	require.Len(t, log.reports, 3)
	require.Equal(t, "2", log.reports[2].TxHash)
}

// One answer without a final transfer, when its block settles, withdraws nothing.
func TestTransferThatOneAnswerLacksStays(t *testing.T) {
	history := watchtest.NewHistory(30)
	log := &reportLog{since: history.Now()}
	w := watch.New(&watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: 20}, log)
	require.NoError(t, w.Step(t.Context()))
	transfers := []watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}}
	history.Mine(transfers)
	for n := range 40 {
		require.NoError(t, w.Step(t.Context()))
		history.Mine(nil)
		for range 10 { // steps with the same head
			history.Chain[30].Transfers = nil
			if err := w.Step(t.Context()); err != nil {
				require.ErrorIs(t, err, watch.ErrNode, n)
			}
		}
		history.Chain[30].Transfers = transfers
	}
	require.NotEmpty(t, log.reports)
	for _, o := range log.reports {
		require.False(t, o.Removed)
	}
}

// forkedTransfers serves transfers from another fork than heads and blocks.
type forkedTransfers struct {
	*watchtest.Chain
	fork *watchtest.Chain
}

// Transfers returns the transfers of the fork.
func (s forkedTransfers) Transfers(ctx context.Context, from, through uint64,
	addresses []string) ([]partner.Observation, error) {
	return s.fork.Transfers(ctx, from, through, addresses)
}

// A node that changes forks between any two calls of a step causes no false report. Transfers from
// another fork than the node's blocks are ErrNode.
func TestForkDuringAStepReportsNothingFalse(t *testing.T) {
	for until := 0; until < 8; until++ {
		rapid.Check(t, func(rt *rapid.T) {
			history := watchtest.NewHistory(30)
			node := &watchtest.Node{History: history, MaxForkDepth: 1}
			judge := &watchtest.Judge{T: rt, History: history, Node: node, Threshold: 1,
				ParseNames: watchtest.PlainNames,
				Watching:   []watch.Address{{Address: "one", Since: history.Now()}}}
			chain := &watchtest.Chain{Node: node, FinalDepth: 1, MaxSpan: 100}
			w := watch.New(chain, judge)
			require.NoError(rt, w.Step(t.Context()))
			history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
			node.Fork = history.Chain
			history.Drop(1)
			history.Mine(nil)
			node.Fault, node.ForkCalls = watchtest.SwitchesForks, until
			node.BeginStep()
			_ = w.Step(t.Context()) // the judge fails the test at a false report
		})
	}
	history := watchtest.NewHistory(30)
	fork := watchtest.NewHistory(30)
	judge := &watchtest.Judge{History: history, Threshold: 1, ParseNames: watchtest.PlainNames,
		Watching: []watch.Address{{Address: "one", Since: history.Now()}}}
	chain := forkedTransfers{Chain: &watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 1,
		MaxSpan: 100},
		fork: &watchtest.Chain{Node: &watchtest.Node{History: fork}, FinalDepth: 1, MaxSpan: 100}}
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

// A head without a block is ErrNode and reports nothing.
func TestHeadWithoutABlockIsAnError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames,
			Watching: []watch.Address{{Address: "one", Since: history.Now().Add(time.Minute)}}}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 10_000}, judge)
		require.NoError(rt, w.Step(t.Context()))
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		node.Fault = watchtest.ClaimsUnknownHead
		err := w.Step(t.Context())
		require.ErrorIs(rt, err, watch.ErrNode)
		require.ErrorIs(rt, err, partner.ErrNoBlock)
		require.Zero(rt, judge.Reports)
	})
}

// A false head while no address is watched is an error, and the payments below it are found later.
func TestFalseHeadHidesNoPayment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(300)
		node := &watchtest.Node{History: history, Fault: watchtest.ClaimsUnknownHead}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames}
		newWatcher := func() *watch.Watcher {
			return watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 26}, judge)
		}
		w := newWatcher()
		require.ErrorIs(rt, w.Step(t.Context()), watch.ErrNode, "at the first start")
		node.Fault = watchtest.Honest
		require.NoError(rt, w.Step(t.Context()))
		node.Fault = watchtest.ClaimsUnknownHead
		require.ErrorIs(rt, w.Step(t.Context()), watch.ErrNode, "later")
		node.Fault = watchtest.Honest
		if rapid.Bool().Draw(rt, "restart") {
			w = newWatcher()
		}
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now()}}
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		require.NoError(rt, w.Step(t.Context()))
		require.Equal(rt, 1, judge.Reports)
	})
}

// A cursor above the chain, which a false head has left, does not hide payments for ever. A node
// that is behind the newest watched address is waited for.
func TestWatcherLeavesACursorAboveTheChain(t *testing.T) {
	const patience = 20 // more steps than the watcher waits
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(300)
		node := &watchtest.Node{History: history, Fault: watchtest.Behind, Lag: 50}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames}
		require.NoError(rt, judge.SaveCursor(t.Context(), "ethereum", 9_000_000))
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 26}, judge)
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now()}}
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		for range patience {
			require.ErrorIs(rt, w.Step(t.Context()), watch.ErrNode)
		}
		require.Zero(rt, node.Reads, "a node that is behind is waited for")
		node.Fault = watchtest.Honest
		for steps := 0; judge.Reports == 0; steps++ {
			require.Less(rt, steps, patience)
			if err := w.Step(t.Context()); err != nil {
				require.ErrorIs(rt, err, watch.ErrNode)
			}
		}
		cursor, _, err := judge.Cursor(t.Context(), "ethereum")
		require.NoError(rt, err)
		require.EqualValues(rt, 9_000_000, cursor, "a head may be false: it moves no cursor back")
		w = watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 26}, judge)
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 2, Amount: 5}})
		for range patience {
			require.ErrorIs(rt, w.Step(t.Context()), watch.ErrNode)
		}
		judge.RequireAllReported()
	})
}

// Progress has the lag, the reorganisations, and the faults of the node alone.
func TestProgressCountsLagForksAndNodeFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Node: node, Threshold: 3, ParseNames: watchtest.PlainNames}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 26}, judge)
		step := func() (watch.Progress, error) {
			node.BeginStep()
			err := w.Step(t.Context())
			return w.Progress(), err
		}
		require.Zero(rt, w.Progress())
		progress, err := step()
		require.NoError(rt, err)
		require.Equal(rt, []uint64{30, 0, 0, 0},
			[]uint64{progress.Head.Number, progress.Behind, progress.Reorganisations, progress.NodeFaults},
			"no address is watched")
		judge.Watching = []watch.Address{{Address: "one", Since: history.Now()}}
		_, err = step()
		require.NoError(rt, err)
		for range 40 {
			history.Mine(nil)
		}
		progress, err = step()
		require.NoError(rt, err)
		require.Positive(rt, progress.Behind, "more new blocks than one query spans")
		for progress.Behind > 0 {
			progress, err = step()
			require.NoError(rt, err)
		}
		depth := rapid.IntRange(1, 2).Draw(rt, "depth")
		history.Drop(depth)
		for range depth + rapid.IntRange(0, 2).Draw(rt, "longer") {
			history.Mine(nil)
		}
		progress, err = step()
		require.NoError(rt, err)
		require.Equal(rt, uint64(1), progress.Reorganisations)
		node.Fault = watchtest.Unreachable
		_, err = step()
		require.Error(rt, err)
		node.Fault, judge.RefuseReports = 0, true
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		progress, err = step()
		require.ErrorContains(rt, err, "the sink refuses reports")
		require.Equal(rt, []uint64{1, 1, 1}, []uint64{progress.Behind, progress.Reorganisations, progress.NodeFaults},
			"a refusal by the sink is no node fault")
	})
}

// An old address that is added in every step does not hide the payments to the others: all new ones
// share one rewind, after which the head is reached before the next. Each is searched from its
// Since.
func TestOldAddressesAddedInEveryStepHideNoPayment(t *testing.T) {
	const lookBack = 16 // spans of a rewind
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(30)
		created := history.Now()
		for range 1000 {
			history.Mine(nil)
		}
		node := &watchtest.Node{History: history}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: watchtest.PlainNames,
			Watching: []watch.Address{{Address: "victim", Since: history.Now()}}}
		w := watch.New(&watchtest.Chain{Node: node, FinalDepth: 3, MaxSpan: 26}, judge)
		for step := range 10 * lookBack {
			judge.Watching = append(judge.Watching, watch.Address{Address: fmt.Sprint("old ", step), Since: created})
			var paid []watchtest.Transfer
			if step == lookBack {
				paid = []watchtest.Transfer{{Asset: "USDC", Address: "victim", Tx: 1, Amount: 5}}
			}
			history.Mine(paid)
			require.NoError(rt, w.Step(t.Context()))
			if judge.Reports > 0 {
				require.LessOrEqual(rt, step, 3*lookBack)
				return
			}
		}
		require.Positive(rt, judge.Reports, "the payment was never seen")
	})
}

// BenchmarkReports is a first step over 20,000 transfers to one address.
func BenchmarkReports(b *testing.B) {
	history := watchtest.NewHistory(30)
	var transfers []watchtest.Transfer
	for tx := range 20_000 {
		transfers = append(transfers, watchtest.Transfer{Asset: "USDC", Address: "one", Tx: tx, Amount: 1})
	}
	since := history.Now()
	history.Mine(transfers)
	for b.Loop() {
		w := watch.New(&watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: 100},
			&reportLog{since: since})
		require.NoError(b, w.Step(b.Context()))
	}
}
