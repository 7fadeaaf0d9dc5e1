// Package chain asks the nodes of real blockchains what was paid to addresses: EVM chains over JSON-RPC, bitcoin over
// bitcoind's RPC, solana over its own. Each is a partner.Chain: one query for a range of blocks, however many addresses are
// looked for.
//
// It keeps nothing but blocks it has already read, and believes a node word for word; what to make of one that contradicts
// itself is package watch's to say. On EVM chains ether is found in transactions from one account to another; what a contract
// hands on inside a transaction leaves no trace in a block and is not seen. It sends nothing and holds no key.
package chain

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"purser/actors/partner"
)

// Network is one blockchain: how its node is asked, and what is a coin there.
type Network struct {
	Name      string
	ID        int64 // of EVM chains; 0 of others
	Threshold int   // blocks that make a transfer final
	Span      int   // the most blocks of one query
	// Tokens are contracts and mints by the name of what they are. A name that is no asset of ours is a look-alike, which is
	// reported and never counted.
	Tokens map[string]string
	// Explorer is where a public explorer shows a transaction, followed by the transaction's hash.
	Explorer string
}

// Networks are the known ones, by name. The caller owns the answer.
func Networks() map[string]Network {
	all := []Network{
		{Name: "ethereum", ID: 1, Threshold: 12, Span: 100, Explorer: "https://etherscan.io/tx/", Tokens: map[string]string{
			"USDC": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USDT": "0xdAC17F958D2ee523a2206206994597C13D831ec7"}},
		{Name: "polygon", ID: 137, Threshold: 50, Span: 200, Explorer: "https://polygonscan.com/tx/", Tokens: map[string]string{
			"USDC": "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USDT": "0xc2132D05D31c914a87C6611C10748AEb04B58e8F",
			"USDC.e": "0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174"}},
		{Name: "arbitrum", ID: 42161, Threshold: 300, Span: 700, Explorer: "https://arbiscan.io/tx/", Tokens: map[string]string{
			"USDC": "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USDT": "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9",
			"USDC.e": "0xFF970A61A04b1Ca14834A43f5dE4533eBDDB5CC8"}},
		{Name: "base", ID: 8453, Threshold: 60, Span: 200, Explorer: "https://basescan.org/tx/", Tokens: map[string]string{
			"USDC":  "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
			"USDbC": "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA", "bridged USDT": "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2"}},
		{Name: "optimism", ID: 10, Threshold: 60, Span: 200, Explorer: "https://optimistic.etherscan.io/tx/", Tokens: map[string]string{
			"USDC": "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "USDT": "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58",
			"USDC.e": "0x7F5c764cBc14f9669B88837ca1490cCa17c31607"}},
		{Name: "solana", Threshold: 1, Span: 64, Explorer: "https://solscan.io/tx/", Tokens: map[string]string{
			"USDC": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "USDT": "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"}},
		{Name: "bitcoin", Threshold: 2, Span: 16, Explorer: "https://mempool.space/tx/"},
	}
	byName := make(map[string]Network, len(all))
	for _, n := range all {
		byName[n.Name] = n
	}
	return byName
}

// Open makes the chain of a network whose node is at a URL. A nil client is one with this package's timeout. It asks nothing
// yet.
func Open(n Network, node string, client *http.Client) (partner.Chain, error) {
	rpc, err := newRPC(node, client)
	if err != nil {
		return nil, fmt.Errorf("chain %s: %w", n.Name, err)
	}
	switch {
	case n.ID != 0:
		return newEVM(n, rpc), nil
	case n.Name == "solana":
		return &solana{Network: n, rpc: rpc, blocks: newBlocks(n.Span)}, nil
	case n.Name == "bitcoin":
		return &bitcoin{Network: n, rpc: rpc, blocks: newBlocks(n.Span)}, nil
	}
	return nil, fmt.Errorf("chain %s: is not known", n.Name)
}

// blocks are those read last, by hash, with all transfers in them: whom they are looked for may change.
type blocks struct {
	most  int
	byKey map[string]block
	order []string // oldest first
}

// block is one that was read: its parent, and its transfers to anybody.
type block struct {
	parent    string
	transfers []partner.Observation
}

func newBlocks(most int) *blocks { return &blocks{most: most, byKey: make(map[string]block)} }

func (b *blocks) keep(hash string, one block) {
	if _, known := b.byKey[hash]; known {
		return
	}
	if len(b.order) >= b.most {
		delete(b.byKey, b.order[0])
		b.order = b.order[1:]
	}
	b.byKey[hash] = one
	b.order = append(b.order, hash)
}

// set is for asking whether an address is looked for.
func set(addresses []string) map[string]bool {
	all := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		all[a] = true
	}
	return all
}

// quantity reads a node's hexadecimal number, 0x and all.
func quantity(text string) (*big.Int, error) {
	n, ok := new(big.Int), false
	if len(text) > 2 && len(text) <= 66 && text[:2] == "0x" {
		n, ok = n.SetString(text[2:], 16)
	}
	if !ok || n.Sign() < 0 {
		return nil, fmt.Errorf("%.20q is not a quantity", text)
	}
	return n, nil
}

// maxSeconds is the last second of the year 9999, which is the last that can be written down.
const maxSeconds = 253402300799

// madeAt is when a block was made, from seconds since 1970.
func madeAt(seconds int64) (time.Time, error) {
	if seconds < 0 || seconds > maxSeconds {
		return time.Time{}, fmt.Errorf("%d is no time of a block", seconds)
	}
	return time.Unix(seconds, 0), nil
}

// placed refuses a transfer without its place in the chain.
func placed(o *partner.Observation) error {
	if o.TxHash == "" || o.BlockHash == "" || o.Index < 0 {
		return errors.New("a transfer without its place")
	}
	return nil
}

func number(text string) (uint64, error) {
	n, err := quantity(text)
	if err == nil && !n.IsUint64() {
		err = fmt.Errorf("%.20q is not a number of 64 bits", text)
	}
	if err != nil {
		return 0, err
	}
	return n.Uint64(), nil
}
