// Package watchtest is the shared test kit of watchers and chain nodes, for tests only: a generated
// chain history, a node with faults, and a judge with its own model of the reports a watcher may
// and must make.
package watchtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"purser/actors/partner"
)

// Transfer is one transfer in a block.
type Transfer struct {
	Asset, Address, From string
	Tx                   int // transfers with the same number belong to one transaction
	Index                int
	Amount               int64
}

// Block is a block of a history.
type Block struct {
	Number       uint64
	Hash, Parent int // numbers that stand for hashes; the first block has parent 0
	At           time.Time
	Transfers    []Transfer
}

// History is a chain: its present blocks, and every block that ever existed.
type History struct {
	Chain []Block // Chain[i] has number i+1
	All   map[int]Block
	hash  int
	clock time.Time // time of the newest block ever mined, which a shorter chain does not set back
}

// BlockTime is the time between two blocks.
const BlockTime = 12 * time.Second

// NewHistory returns a history of empty blocks.
func NewHistory(blocks int) *History {
	h := &History{All: make(map[int]Block)}
	for range blocks {
		h.Mine(nil)
	}
	return h
}

// Mine appends a block with the transfers.
func (h *History) Mine(transfers []Transfer) {
	h.hash++
	if h.clock = h.clock.Add(BlockTime); h.hash == 1 {
		h.clock = time.Unix(1_700_000_000, 0)
	}
	b := Block{Number: uint64(len(h.Chain) + 1), Hash: h.hash, Transfers: transfers,
		At: h.clock}
	if len(h.Chain) > 0 {
		b.Parent = h.Chain[len(h.Chain)-1].Hash
	}
	h.Chain = append(h.Chain, b)
	h.All[b.Hash] = b
}

// Drop removes the newest blocks, but never the first, and returns their transfers.
func (h *History) Drop(depth int) (lost []Transfer) {
	keep := max(len(h.Chain)-depth, 1)
	for _, b := range h.Chain[keep:] {
		lost = append(lost, b.Transfers...)
	}
	h.Chain = slices.Clone(h.Chain[:keep])
	return lost
}

// Now returns the time of the newest block.
func (h *History) Now() time.Time { return h.Chain[len(h.Chain)-1].At }

// Fault is a way in which a node misbehaves.
type Fault int

// Faults of a node.
const (
	Honest            Fault = iota
	Unreachable             // every call fails
	Behind                  // serves an older state of the whole chain
	ClaimsUnknownHead       // names a head block that it does not have
	IndexLags               // has not indexed the transfers of the newest blocks
	SwitchesForks           // answers the first calls of a step from another fork
	faults
)

// Node serves a history with a Fault. Tests of a protocol put their own wire format in front of it.
type Node struct {
	History      *History
	Fault        Fault
	Lag          int     // blocks it is behind under fault Behind
	Fork         []Block // the fork served first under fault SwitchesForks
	MaxForkDepth int     // most blocks below the highest that Fork may replace; an older fork is never served
	ForkCalls    int     // calls of a step answered from Fork
	LastServed   []Block // served in the last call
	Calls        int     // since BeginStep
	Reads        int     // calls of Chain.Transfers since the node was made
}

// BeginStep starts the count of Calls for a new step.
func (n *Node) BeginStep() { n.Calls = 0 }

// Serve returns the blocks that the node serves in this call, and counts the call.
func (n *Node) Serve() []Block {
	n.Calls++
	chain := n.History.Chain
	switch {
	case n.Fault == Behind:
		return chain[:max(len(chain)-n.Lag, 1)]
	case n.Fault == SwitchesForks && n.Calls <= n.ForkCalls && n.canServeFork():
		chain = n.Fork
	}
	n.LastServed = chain
	return chain
}

// canServeFork reports whether Fork differs from the chain in at most MaxForkDepth blocks.
func (n *Node) canServeFork() bool {
	chain, common := n.History.Chain, 0
	for common < min(len(chain), len(n.Fork)) && chain[common].Hash == n.Fork[common].Hash {
		common++
	}
	return len(n.Fork) > 0 && max(len(chain), len(n.Fork))-common <= n.MaxForkDepth
}

// unindexedBlocks is the number of newest blocks without transfers under fault IndexLags.
const unindexedBlocks = 6

// ServesTransfers reports whether the node serves the transfers of a block.
func (n *Node) ServesTransfers(b Block) bool {
	return n.Fault != IndexLags || int(b.Number) <= len(n.History.Chain)-unindexedBlocks
}

// Chain serves a Node as a partner.Chain, without a wire format.
type Chain struct {
	Node       *Node
	FinalDepth int // confirmations at which a transfer is final
	MaxSpan    int // blocks in one query
}

var errUnreachable = fmt.Errorf("connection refused")

// Name returns "ethereum".
func (c *Chain) Name() string { return "ethereum" }

// Threshold returns FinalDepth.
func (c *Chain) Threshold() int { return c.FinalDepth }

// Span returns MaxSpan.
func (c *Chain) Span() int { return c.MaxSpan }

// Head returns the newest block that the node serves. It fails only at an unreachable node.
func (c *Chain) Head(context.Context) (partner.Head, error) {
	if c.Node.Fault == Unreachable {
		return partner.Head{}, errUnreachable
	}
	view := c.Node.Serve()
	h := headOf(view[len(view)-1])
	if c.Node.Fault == ClaimsUnknownHead {
		h.Number += 1000
		h.Hash = "boast"
	}
	return h, nil
}

func headOf(b Block) partner.Head {
	return partner.Head{Number: b.Number, Hash: fmt.Sprint(b.Hash), At: b.At}
}

// Block returns a block that the node serves. It fails with ErrNoBlock for a block that the node
// does not serve, and at an unreachable node.
func (c *Chain) Block(_ context.Context, number uint64) (partner.Head, error) {
	if c.Node.Fault == Unreachable {
		return partner.Head{}, errUnreachable
	}
	view := c.Node.Serve()
	if number == 0 || number > uint64(len(view)) {
		return partner.Head{}, partner.ErrNoBlock
	}
	return headOf(view[number-1]), nil
}

// Transfers returns the transfers that the node serves, and panics on a range over MaxSpan blocks.
// It fails only at an unreachable node.
func (c *Chain) Transfers(_ context.Context, from, through uint64,
	addresses []string) (found []partner.Observation, _ error) {
	c.Node.Reads++
	if through-from >= uint64(c.MaxSpan) {
		panic("BUG: more blocks than the span")
	}
	if c.Node.Fault == Unreachable {
		return nil, errUnreachable
	}
	for _, b := range c.Node.Serve() {
		for _, t := range b.Transfers {
			if c.Node.ServesTransfers(b) && b.Number >= from && b.Number <= through &&
				slices.Contains(addresses, t.Address) {
				found = append(found, partner.Observation{Chain: "ethereum", Asset: t.Asset, Address: t.Address,
					TxHash: fmt.Sprint(t.Tx), Index: t.Index, Amount: fmt.Sprint(t.Amount), Block: b.Number,
					BlockHash: fmt.Sprint(b.Hash), At: b.At, From: t.From})
			}
		}
	}
	return found, nil
}
