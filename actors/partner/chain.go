package partner

import (
	"context"
	"errors"
	"time"
)

// Observation is one transfer to a watched address, as of a block. It can be withdrawn: after a
// reorganisation the same Chain, TxHash, Index and BlockHash are observed again with Removed set.
type Observation struct {
	Chain   string `json:"chain"`   // ethereum, polygon, arbitrum, base, optimism, solana or bitcoin
	Asset   string `json:"asset"`   // USDC, USDT, ETH, BTC, SOL, or the name of a look-alike
	Address string `json:"address"` // the receiver, spelled as it was watched
	TxHash  string `json:"txHash"`
	Index   int    `json:"index"`  // of the transfer within its transaction
	Amount  string `json:"amount"` // decimal integer of the asset's smallest units
	Block   uint64 `json:"block"`
	// BlockHash distinguishes the same transfer in two rival blocks.
	BlockHash string `json:"blockHash"`
	// Confirmations counts the blocks from the transfer's own to the newest: 1 in the newest block.
	Confirmations int `json:"confirmations"`
	// Threshold is the number of confirmations that makes a transfer final on this chain; at least
	// 1.
	Threshold int `json:"threshold"`
	// At is the time of the block, or the time of the first observation if the node gives none.
	At      time.Time `json:"at"`
	From    string    `json:"from"` // "" when the chain names no payer
	Removed bool      `json:"removed,omitempty"`
}

// Head is a block of a chain; Chain.Head returns the newest one.
type Head struct {
	Number uint64
	Hash   string
	At     time.Time
}

// ErrNoBlock says that a node has no block of a number: the number is past its head, or the block
// was never made.
var ErrNoBlock = errors.New("the node has no such block")

// Chain is a node of one chain, queried for all watched addresses at once. Its results may be late,
// missing, or of a fork that the node drops a moment later.
type Chain interface {
	Name() string
	// Head is the newest block of the node. It can be older than an earlier Head, after a restore
	// or a reorganisation.
	Head(ctx context.Context) (Head, error)
	// Block is the block of a number on the node's current chain; ErrNoBlock when there is none.
	Block(ctx context.Context, number uint64) (Head, error)
	// Threshold is the number of confirmations that makes a transfer final, its own block included;
	// at least 1.
	Threshold() int
	// Span is the largest number of blocks in one call of Transfers; it exceeds Threshold.
	Span() int
	// Transfers are the transfers to the addresses in the blocks from from to through, both
	// included, in the order of the chain. The caller sets Confirmations.
	Transfers(ctx context.Context, from, through uint64, addresses []string) ([]Observation, error)
}
