package watchtest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/watch"
)

// maxLag is the longest time between issuing an address and adding it to the watcher.
const maxLag = 8 * BlockTime

// Simulation runs a watcher through one random history.
type Simulation struct {
	T     *rapid.T
	Node  *Node
	Judge *Judge
	// Wire is the chain that the watcher reads.
	Wire partner.Chain
	// Assets are the tokens of transfers; Address makes the nth address.
	Assets  []string
	Address func(n int) string
	// MaxDepth is how far below the highest block a block may be replaced. Zero allows no
	// reorganisation.
	MaxDepth int
	// StableIndexes keeps the index of a transfer in every block, as for a bitcoin output.
	// Otherwise a replaced block gives new indexes, as the log index of an EVM block.
	StableIndexes bool
	// NoCrash keeps one watcher alive. After a crash no watcher withdraws a final transfer that the
	// chain replaced meanwhile.
	NoCrash bool

	watcher *watch.Watcher
	tx      int
	highest int
	payable []watch.Address // addresses issued; the first len(Judge.Watching) are watched
}

// Run makes random moves, then lets an honest node confirm everything and asks the judge.
func (l *Simulation) Run(moves int) {
	l.Node.MaxForkDepth = l.MaxDepth
	l.watcher = watch.New(l.Wire, l.Judge)
	l.issueAddress()
	l.Judge.Watching = slices.Clone(l.payable)
	l.stepWatcher() // the watcher must know its cursor before the first payment
	for range moves {
		l.makeMove()
	}
	l.Node.Fault, l.Judge.RefuseReports = Honest, false
	l.Judge.Watching = slices.Clone(l.payable)
	for range 60 {
		l.History().Mine(nil)
		l.stepWatcher()
	}
	l.stepWatcher()
	l.Judge.RequireAllReported()
}

// History returns the node's history.
func (l *Simulation) History() *History { return l.Node.History }

// makeMove makes one random move: a new block, replaced blocks, another fault of the node, a
// restart, reports that are refused, a new address, or a step of the watcher.
func (l *Simulation) makeMove() {
	switch rapid.IntRange(0, 11).Draw(l.T, "move") {
	case 0, 1, 2:
		l.History().Mine(l.drawTransfers())
	case 3:
		if l.MaxDepth > 0 {
			l.replaceBlocks()
		}
	case 4:
		l.Node.Fault = Fault(rapid.IntRange(0, int(faults)-1).Draw(l.T, "fault"))
		l.Node.Lag = rapid.IntRange(1, 20).Draw(l.T, "lag")
		l.Node.ForkCalls = rapid.IntRange(1, 10).Draw(l.T, "until")
	case 5:
		l.Node.Fault = Honest
	case 6:
		if !l.NoCrash {
			l.watcher = watch.New(l.Wire, l.Judge)
		}
	case 7:
		l.Judge.RefuseReports = rapid.Bool().Draw(l.T, "refuses")
	case 8:
		l.issueAddress()
	case 9:
		if known := len(l.Judge.Watching); known < len(l.payable) {
			l.Judge.Watching = append(l.Judge.Watching, l.payable[known])
		}
	default:
		l.stepWatcher()
	}
}

func (l *Simulation) issueAddress() {
	l.payable = append(l.payable, watch.Address{Address: l.Address(len(l.payable)), Since: l.History().Now()})
}

// stepWatcher runs one step. A failed step is repeated by a later move; the judge has checked its
// reports.
func (l *Simulation) stepWatcher() {
	for _, p := range l.payable[len(l.Judge.Watching):] {
		if l.History().Now().Sub(p.Since) > maxLag {
			l.Judge.Watching = append(l.Judge.Watching, p)
		}
	}
	l.Node.BeginStep()
	mayFail := l.Node.Fault != Honest || l.Judge.RefuseReports || l.MaxDepth > 0
	if err := l.watcher.Step(l.T.Context()); err != nil && !mayFail {
		l.T.Fatalf("an honest node: %v", err)
	}
}

// drawTransfers draws the transfers of a new block: at most two, sometimes in one transaction.
func (l *Simulation) drawTransfers() (all []Transfer) {
	n := rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(l.T, "transfers")
	together := rapid.Bool().Draw(l.T, "together")
	for i := range n {
		if i == 0 || !together {
			l.tx++
		}
		index := 0
		if together {
			index = i
		}
		all = append(all, Transfer{Tx: l.tx, Index: index, From: l.Address(1000),
			Amount:  rapid.Int64Range(1, 1e12).Draw(l.T, "amount"),
			Asset:   rapid.SampledFrom(l.Assets).Draw(l.T, "asset"),
			Address: rapid.SampledFrom(l.payable).Draw(l.T, "to").Address})
	}
	return all
}

// replaceBlocks replaces the newest blocks by others, which hold some of the old transactions.
func (l *Simulation) replaceBlocks() {
	before := l.History().Chain
	l.highest = max(l.highest, len(before))
	most := min(l.MaxDepth-(l.highest-len(before)), len(before)-1)
	if most < 1 {
		return
	}
	depth := rapid.IntRange(1, most).Draw(l.T, "depth")
	l.Node.Fork = before
	lost := l.History().Drop(depth)
	blocks := rapid.IntRange(1, depth+1).Draw(l.T, "blocks")
	again := make([][]Transfer, blocks)
	fates := map[int]fate{} // all transfers of a transaction move together
	for _, t := range lost {
		f, drawn := fates[t.Tx]
		if !drawn {
			f = l.drawFate(blocks, t.Index)
			fates[t.Tx] = f
		}
		if t.Index += f.shift; f.block >= 0 {
			again[f.block] = append(again[f.block], t)
		}
	}
	for _, transfers := range again {
		l.History().Mine(transfers)
	}
}

// fate says where a transaction of a replaced block goes: the new block, or -1 for none, and the
// shift of its transfers' indexes.
type fate struct{ block, shift int }

// drawFate draws the fate of a transaction whose lowest index is first.
func (l *Simulation) drawFate(blocks, first int) fate {
	f := fate{block: rapid.IntRange(-1, blocks-1).Draw(l.T, "fate")}
	if !l.StableIndexes {
		f.shift = rapid.IntRange(0, 2).Draw(l.T, "first index") - first
	}
	return f
}

// PlainNames implements Judge.ParseNames for the hashes of Chain.
func PlainNames(o partner.Observation) (tx, block int) {
	_, _ = fmt.Sscan(o.TxHash, &tx)
	_, _ = fmt.Sscan(o.BlockHash, &block)
	return tx, block
}
