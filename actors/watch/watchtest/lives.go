package watchtest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/watch"
)

// maxLag is how long the watcher may go without hearing of an address.
const maxLag = 8 * BlockTime

// Life is one random history, with a watcher at it.
type Life struct {
	T     *rapid.T
	Node  *Node
	Judge *Judge
	// Wire is the chain as the watcher sees it.
	Wire partner.Chain
	// Assets are what transfers are of; Address makes the nth address.
	Assets  []string
	Address func(n int) string
	// MaxDepth is how far below the highest block blocks may be replaced; 0: none are.
	MaxDepth int
	// Fixed: a transfer has the same index in whatever block it is, as an output of bitcoin. Others are given new ones when their
	// block is replaced: an EVM counts the logs of a block.
	Fixed bool
	// NoCrash: the watcher lives as long. What was final and is taken back while none runs, nobody withdraws.
	NoCrash bool

	watcher *watch.Watcher
	tx      int
	highest int
	payable []watch.Place // addresses given out; the first len(Judge.Watching) are looked at
}

// Live runs the life of so many moves, then lets the node be honest and asks the judge.
func (l *Life) Live(moves int) {
	l.Node.Deepest = l.MaxDepth
	l.watcher = watch.New(l.Wire, l.Judge)
	l.give()
	l.Judge.Watching = slices.Clone(l.payable)
	l.step() // it looks before anyone can have paid
	for range moves {
		l.move()
	}
	l.Node.Fault, l.Judge.Refuses = Honest, false
	l.Judge.Watching = slices.Clone(l.payable)
	for range 60 {
		l.History().Mine(nil)
		l.step()
	}
	l.step()
	l.Judge.Settled()
}

// History is the node's.
func (l *Life) History() *History { return l.Node.History }

func (l *Life) move() {
	switch rapid.IntRange(0, 11).Draw(l.T, "move") {
	case 0, 1, 2:
		l.History().Mine(l.transfers())
	case 3:
		if l.MaxDepth > 0 {
			l.reorganise()
		}
	case 4:
		l.Node.Fault = Fault(rapid.IntRange(0, int(faults)-1).Draw(l.T, "fault"))
		l.Node.Lag = rapid.IntRange(1, 20).Draw(l.T, "lag")
		l.Node.Until = rapid.IntRange(1, 10).Draw(l.T, "until")
	case 5:
		l.Node.Fault = Honest
	case 6:
		if !l.NoCrash {
			l.watcher = watch.New(l.Wire, l.Judge)
		}
	case 7:
		l.Judge.Refuses = rapid.Bool().Draw(l.T, "refuses")
	case 8:
		l.give()
	case 9:
		if known := len(l.Judge.Watching); known < len(l.payable) {
			l.Judge.Watching = append(l.Judge.Watching, l.payable[known])
		}
	default:
		l.step()
	}
}

func (l *Life) give() {
	l.payable = append(l.payable, watch.Place{Address: l.Address(len(l.payable)), Since: l.History().Now()})
}

// step looks once. A step that fails has to be made again; what it said meanwhile was judged.
func (l *Life) step() {
	for _, p := range l.payable[len(l.Judge.Watching):] {
		if l.History().Now().Sub(p.Since) > maxLag {
			l.Judge.Watching = append(l.Judge.Watching, p)
		}
	}
	l.Node.Begin()
	if err := l.watcher.Step(l.T.Context()); err != nil && l.Node.Fault == Honest && !l.Judge.Refuses && l.MaxDepth == 0 {
		l.T.Fatalf("an honest node: %v", err)
	}
}

// transfers are those of a new block: two at most, sometimes in one transaction.
func (l *Life) transfers() (all []Transfer) {
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
			Amount: rapid.Int64Range(1, 1e12).Draw(l.T, "amount"), Asset: rapid.SampledFrom(l.Assets).Draw(l.T, "asset"),
			Address: rapid.SampledFrom(l.payable).Draw(l.T, "to").Address})
	}
	return all
}

// reorganise replaces blocks by others, in which what was paid is paid again, or is not.
func (l *Life) reorganise() {
	before := l.History().Chain
	l.highest = max(l.highest, len(before))
	most := min(l.MaxDepth-(l.highest-len(before)), len(before)-1)
	if most < 1 {
		return
	}
	depth := rapid.IntRange(1, most).Draw(l.T, "depth")
	l.Node.Other = before
	lost := l.History().Drop(depth)
	blocks := rapid.IntRange(1, depth+1).Draw(l.T, "blocks")
	again := make([][]Transfer, blocks)
	fates := map[int]fate{} // a transaction goes whole
	for _, t := range lost {
		f, drawn := fates[t.Tx]
		if !drawn {
			f = l.fate(blocks, t.Index)
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

// fate is what becomes of a transaction when its block is replaced: which of the new blocks it is in, or -1, and by how much its
// transfers' indexes are moved.
type fate struct{ block, shift int }

// fate draws one, for a transaction whose lowest index is first.
func (l *Life) fate(blocks, first int) fate {
	f := fate{block: rapid.IntRange(-1, blocks-1).Draw(l.T, "fate")}
	if !l.Fixed {
		f.shift = rapid.IntRange(0, 2).Draw(l.T, "first index") - first
	}
	return f
}

// Plain names transactions and blocks as Chain does.
func Plain(o partner.Observation) (tx, block int) {
	_, _ = fmt.Sscan(o.TxHash, &tx)
	_, _ = fmt.Sscan(o.BlockHash, &block)
	return tx, block
}
