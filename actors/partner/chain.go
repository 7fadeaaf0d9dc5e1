package partner

import (
	"context"
	"errors"
	"time"
)

// Observation is what a chain is seen to say, as of a block, of one transfer to a watched address. It is a fact that can be
// withdrawn: after a reorganisation the same Chain, TxHash, Index and BlockHash come once more, with Removed set.
type Observation struct {
	Chain   string `json:"chain"`   // ethereum, polygon, arbitrum, base, optimism, solana or bitcoin
	Asset   string `json:"asset"`   // USDC, USDT, ETH, BTC or SOL; of any other token a name that is none of these
	Address string `json:"address"` // where it went, spelled as it was watched
	TxHash  string `json:"txHash"`
	Index   int    `json:"index"`  // of the transfer within its transaction
	Amount  string `json:"amount"` // a decimal number of whole smallest units of the asset
	Block   uint64 `json:"block"`
	// BlockHash tells the same transfer in two rival blocks apart.
	BlockHash string `json:"blockHash"`
	// Confirmations are the blocks that hold the transfer up, its own included: 1 in the newest block.
	Confirmations int `json:"confirmations"`
	// Threshold is how many confirmations make a transfer final on this chain; at least 1.
	Threshold int `json:"threshold"`
	// when it was sent, as far as it is known: the time of the block, or when it was seen before
	At      time.Time `json:"at"`
	From    string    `json:"from"` // "" when the chain names no payer
	Removed bool      `json:"removed,omitempty"`
}

// Head is a block of a chain; as a head the newest.
type Head struct {
	Number uint64
	Hash   string
	At     time.Time
}

// ErrNoBlock says that a node has no block of a number: it is past the node's head, or was never made.
var ErrNoBlock = errors.New("the node has no such block")

// Chain is a node of one chain, asked on behalf of every watched address at once. Its answers may be late, missing, or of a fork
// that is gone a moment later.
type Chain interface {
	Name() string
	// Head is the newest block the node knows. It may be older than the one before: nodes are restored and chains reorganised.
	Head(ctx context.Context) (Head, error)
	// Block is the block of a number on what the node takes for the chain now; ErrNoBlock when it has none.
	Block(ctx context.Context, number uint64) (Head, error)
	// Threshold is how many confirmations make a transfer final, its own block included; at least 1.
	Threshold() int
	// Span is the most blocks that one call of Transfers takes; over Threshold.
	Span() int
	// Transfers are the transfers to the addresses in the blocks from from through through, in the order of the chain. The caller
	// fills in Confirmations.
	Transfers(ctx context.Context, from, through uint64, addresses []string) ([]Observation, error)
}
