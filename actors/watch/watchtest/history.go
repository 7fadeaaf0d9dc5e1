// Package watchtest has what the tests of watchers and of nodes share: the history of a chain that is made up as it goes, a
// node that shows it badly, and a judge with a model of its own of what a watcher may say and must have said. It is for tests
// only.
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
	Tx                   int // transfers of one number are one transaction
	Index                int
	Amount               int64
}

// Block is a block of a history.
type Block struct {
	Number       uint64
	Hash, Parent int // names; 0 is the parent of the first
	At           time.Time
	Transfers    []Transfer
}

// History is a chain: its true blocks, now, and every block it ever had.
type History struct {
	Chain []Block // Chain[i] has number i+1
	All   map[int]Block
	hash  int
	clock time.Time // of the newest block there ever was: the clock goes on when a chain gets shorter
}

// BlockTime is between two blocks.
const BlockTime = 12 * time.Second

// NewHistory has so many empty blocks.
func NewHistory(blocks int) *History {
	h := &History{All: make(map[int]Block)}
	for range blocks {
		h.Mine(nil)
	}
	return h
}

// Mine adds a block.
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

// Drop takes the newest blocks away and returns the transfers that were in them.
func (h *History) Drop(depth int) (lost []Transfer) {
	keep := max(len(h.Chain)-depth, 1)
	for _, b := range h.Chain[keep:] {
		lost = append(lost, b.Transfers...)
	}
	h.Chain = slices.Clone(h.Chain[:keep])
	return lost
}

// Now is the time of the newest block.
func (h *History) Now() time.Time { return h.Chain[len(h.Chain)-1].At }

// Fault is how a node behaves badly.
type Fault int

// Faults. A node with none is honest.
const (
	Honest   Fault = iota
	Gone           // every call fails
	Behind         // it shows an older state of the chain, whole
	Boasts         // it names a head that it does not have
	Forgets        // it has not looked yet what is in the newest blocks
	Switches       // it answers the first calls of a step from another fork
	faults
)

// Node shows a history. A wire in front of it speaks a chain's own protocol.
type Node struct {
	History *History
	Fault   Fault
	Lag     int     // blocks it is behind, with Behind
	Other   []Block // the fork it switches from, with Switches
	Deepest int     // blocks below the highest that Other may have replaced; a node is never on a fork that is older
	Until   int     // calls that it answers from there
	Shown   []Block // in the last call
	Calls   int     // since Begin
	Reads   int     // of transfers, since the node was made
}

// Begin is told when a step begins.
func (n *Node) Begin() { n.Calls = 0 }

// View is the chain as the node shows it in this call.
func (n *Node) View() []Block {
	n.Calls++
	chain := n.History.Chain
	switch {
	case n.Fault == Behind:
		return chain[:max(len(chain)-n.Lag, 1)]
	case n.Fault == Switches && n.Calls <= n.Until && n.alive():
		chain = n.Other
	}
	n.Shown = chain
	return chain
}

// alive tells whether Other can still be taken for the chain.
func (n *Node) alive() bool {
	chain, common := n.History.Chain, 0
	for common < min(len(chain), len(n.Other)) && chain[common].Hash == n.Other[common].Hash {
		common++
	}
	return len(n.Other) > 0 && max(len(chain), len(n.Other))-common <= n.Deepest
}

// forgotten is how many of the newest blocks a node may not have looked into.
const forgotten = 6

// Shows tells whether the node shows what is in a block.
func (n *Node) Shows(b Block) bool {
	return n.Fault != Forgets || int(b.Number) <= len(n.History.Chain)-forgotten
}

// Chain is the node as a partner.Chain without a wire.
type Chain struct {
	Node  *Node
	Depth int // threshold
	Most  int // span
}

var errGone = fmt.Errorf("connection refused")

// Name is ethereum.
func (c *Chain) Name() string { return "ethereum" }

// Threshold is Depth.
func (c *Chain) Threshold() int { return c.Depth }

// Span is Most.
func (c *Chain) Span() int { return c.Most }

// Head is the newest block shown.
func (c *Chain) Head(context.Context) (partner.Head, error) {
	if c.Node.Fault == Gone {
		return partner.Head{}, errGone
	}
	view := c.Node.View()
	h := head(view[len(view)-1])
	if c.Node.Fault == Boasts {
		h.Number += 1000
		h.Hash = "boast"
	}
	return h, nil
}

func head(b Block) partner.Head {
	return partner.Head{Number: b.Number, Hash: fmt.Sprint(b.Hash), At: b.At}
}

// Block is a block shown.
func (c *Chain) Block(_ context.Context, number uint64) (partner.Head, error) {
	if c.Node.Fault == Gone {
		return partner.Head{}, errGone
	}
	view := c.Node.View()
	if number == 0 || number > uint64(len(view)) {
		return partner.Head{}, partner.ErrNoBlock
	}
	return head(view[number-1]), nil
}

// Transfers are those shown.
func (c *Chain) Transfers(_ context.Context, from, through uint64, addresses []string) (found []partner.Observation, _ error) {
	c.Node.Reads++
	if through-from >= uint64(c.Most) {
		panic("BUG: more blocks than the span")
	}
	if c.Node.Fault == Gone {
		return nil, errGone
	}
	for _, b := range c.Node.View() {
		for _, t := range b.Transfers {
			if c.Node.Shows(b) && b.Number >= from && b.Number <= through && slices.Contains(addresses, t.Address) {
				found = append(found, partner.Observation{Chain: "ethereum", Asset: t.Asset, Address: t.Address,
					TxHash: fmt.Sprint(t.Tx), Index: t.Index, Amount: fmt.Sprint(t.Amount), Block: b.Number,
					BlockHash: fmt.Sprint(b.Hash), At: b.At, From: t.From})
			}
		}
	}
	return found, nil
}
