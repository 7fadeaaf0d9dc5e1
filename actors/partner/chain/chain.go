// Package chain reads transfers to addresses from the nodes of real blockchains: EVM chains over
// JSON-RPC, bitcoin over bitcoind's RPC, and solana over its own. Each is a partner.Chain: one
// query covers a range of blocks and any number of addresses.
//
// The package asks a node for its network before it believes it, and caches read blocks. Package
// watch handles a node that contradicts itself. On EVM chains it finds ether in transactions
// between accounts. Ether that a contract sends inside a transaction leaves no trace in a block and
// is not found. The package sends no transaction and holds no key.
package chain

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"purser/actors/partner"
)

// Network is one blockchain: its node's parameters and its tokens.
type Network struct {
	Name      string
	ID        int64 // chain id of an EVM chain; 0 otherwise
	Threshold int   // blocks that make a transfer final
	Span      int   // largest number of blocks in one query
	// Tokens are contracts and mints by name. A name that is no asset of Purser is a look-alike,
	// which is reported and never counted.
	Tokens map[string]string
	// Explorer is the URL prefix of a transaction in a public explorer; the transaction hash
	// follows.
	Explorer string
}

// Networks are the known networks by name. The caller owns the map.
func Networks() map[string]Network {
	all := []Network{
		{Name: "ethereum", ID: 1, Threshold: 12, Span: 100, Explorer: "https://etherscan.io/tx/",
			Tokens: map[string]string{
				"USDC": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
				"USDT": "0xdAC17F958D2ee523a2206206994597C13D831ec7"}},
		{Name: "polygon", ID: 137, Threshold: 50, Span: 200, Explorer: "https://polygonscan.com/tx/",
			Tokens: map[string]string{
				"USDC":   "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359",
				"USDT":   "0xc2132D05D31c914a87C6611C10748AEb04B58e8F",
				"USDC.e": "0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174"}},
		{Name: "arbitrum", ID: 42161, Threshold: 300, Span: 700, Explorer: "https://arbiscan.io/tx/",
			Tokens: map[string]string{
				"USDC":   "0xaf88d065e77c8cC2239327C5EDb3A432268e5831",
				"USDT":   "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9",
				"USDC.e": "0xFF970A61A04b1Ca14834A43f5dE4533eBDDB5CC8"}},
		{Name: "base", ID: 8453, Threshold: 60, Span: 200, Explorer: "https://basescan.org/tx/",
			Tokens: map[string]string{
				"USDC":         "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
				"USDbC":        "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA",
				"bridged USDT": "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2"}},
		{Name: "optimism", ID: 10, Threshold: 60, Span: 200, Explorer: "https://optimistic.etherscan.io/tx/",
			Tokens: map[string]string{
				"USDC":   "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85",
				"USDT":   "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58",
				"USDC.e": "0x7F5c764cBc14f9669B88837ca1490cCa17c31607"}},
		{Name: "solana", Threshold: 1, Span: 64, Explorer: "https://solscan.io/tx/", Tokens: map[string]string{
			"USDC": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
			"USDT": "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"}},
		{Name: "bitcoin", Threshold: 2, Span: 16, Explorer: "https://mempool.space/tx/"},
	}
	byName := make(map[string]Network, len(all))
	for _, n := range all {
		byName[n.Name] = n
	}
	return byName
}

// Open returns the chain of a network whose node is at a URL. A nil client gets this package's
// timeout. Open sends no request. It fails for an unknown network and for a URL that is not http or
// https.
func Open(n Network, node string, client *http.Client) (partner.Chain, error) {
	rpc, err := newRPC(node, client)
	if err != nil {
		return nil, fmt.Errorf("chain %s: %w", n.Name, err)
	}
	switch {
	case n.ID != 0:
		return newEVM(n, rpc).identify(), nil
	case n.Name == "solana":
		return (&solana{Network: n, rpc: rpc, blocks: newBlockCache(n.Span)}).identify(), nil
	case n.Name == "bitcoin":
		return (&bitcoin{Network: n, rpc: rpc, blocks: newBlockCache(n.Span)}).identify(), nil
	}
	return nil, fmt.Errorf("chain %s: is not known", n.Name)
}

// blockCache are the blocks read last, by hash, with all their transfers, because the watched
// addresses can change.
type blockCache struct {
	capacity  int // blocks
	transfers int // in all blocks, at most maxCached
	byKey     map[string]cachedBlock
	order     []string // oldest first
}

// cachedBlock is a read block: its parent's hash and all its transfers.
type cachedBlock struct {
	parent    string
	transfers []partner.Observation
}

func newBlockCache(most int) *blockCache {
	return &blockCache{capacity: most, byKey: make(map[string]cachedBlock)}
}

// addBlock stores a block under its hash. A full cache drops the blocks that were added first. It
// is full at capacity blocks or maxCached transfers; a dropped block is read again when it is
// needed.
func (b *blockCache) addBlock(hash string, one cachedBlock) {
	if _, known := b.byKey[hash]; known {
		return
	}
	b.transfers += len(one.transfers)
	for len(b.order) > 0 && (len(b.order) >= b.capacity || b.transfers > maxCached) {
		b.transfers -= len(b.byKey[b.order[0]].transfers)
		delete(b.byKey, b.order[0])
		b.order = b.order[1:]
	}
	b.byKey[hash] = one
	b.order = append(b.order, hash)
}

// addressSet is the set of the addresses.
func addressSet(addresses []string) map[string]bool {
	all := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		all[a] = true
	}
	return all
}

// parseQuantity parses a node's hexadecimal number with its prefix 0x. Any other text is an error.
func parseQuantity(text string) (*big.Int, error) {
	n, ok := new(big.Int), false
	if len(text) > 2 && len(text) <= 66 && text[:2] == "0x" {
		n, ok = n.SetString(text[2:], 16)
	}
	if !ok || n.Sign() < 0 {
		return nil, fmt.Errorf("%.20q is not a quantity", text)
	}
	return n, nil
}

// maxSeconds is the last second of the year 9999, the last that RFC 3339 can express.
const maxSeconds = 253402300799

// parseBlockTime converts seconds of Unix time to a block's time. A time that no block can have is
// an error.
func parseBlockTime(seconds int64) (time.Time, error) {
	if seconds < 0 || seconds > maxSeconds {
		return time.Time{}, fmt.Errorf("%d is not the time of a block", seconds)
	}
	return time.Unix(seconds, 0), nil
}

// checkPosition refuses a transfer without its position in the chain, and one whose hashes or
// addresses are longer than maxIdentifier.
func checkPosition(o *partner.Observation) error {
	if o.TxHash == "" || o.BlockHash == "" || o.Index < 0 {
		return errors.New("a transfer without its position")
	}
	if max(len(o.TxHash), len(o.BlockHash), len(o.Address), len(o.From)) > maxIdentifier {
		return fmt.Errorf("a hash or an address of over %d bytes", maxIdentifier)
	}
	return nil
}

// parseUint64 parses a node's hexadecimal number (prefix 0x). It fails for another text and for a
// number over 64 bits.
func parseUint64(text string) (uint64, error) {
	n, err := parseQuantity(text)
	if err == nil && !n.IsUint64() {
		err = fmt.Errorf("%.20q is not a number of 64 bits", text)
	}
	if err != nil {
		return 0, err
	}
	return n.Uint64(), nil
}
