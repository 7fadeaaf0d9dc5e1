package chain

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"purser/actors/partner"
)

// ErrOtherNetwork reports a node that serves another network than the one it is configured for: a
// test network, or another chain behind the same provider. Payments there are worth nothing here.
var ErrOtherNetwork = errors.New("the node serves another network")

// Genesis blocks by hash. They are the identity of a network whose nodes have no chain id.
const (
	bitcoinGenesis = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
	solanaGenesis  = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
)

// identified is a chain that believes its node after the node has named its network. It asks at the
// first Head, and again at the first Head after a failed one: another node may answer then. It is
// not safe for concurrent use.
type identified struct {
	partner.Chain
	want     string                                // identity of the network
	ask      func(context.Context) (string, error) // of the node
	believed bool
}

// Head returns the newest block of the network. It fails with ErrOtherNetwork for a node of another
// network, and when the node does not answer.
func (c *identified) Head(ctx context.Context) (partner.Head, error) {
	if !c.believed {
		got, err := c.ask(ctx)
		if err != nil {
			return partner.Head{}, err
		}
		if got != c.want {
			return partner.Head{}, fmt.Errorf("%w: it is %.80q, and %s is %q", ErrOtherNetwork, got, c.Name(), c.want)
		}
		c.believed = true
	}
	head, err := c.Chain.Head(ctx)
	c.believed = err == nil
	return head, err
}

// identify has an EVM chain name its chain id.
func (e *evm) identify() *identified {
	return &identified{Chain: e, want: strconv.FormatInt(e.ID, 10), ask: func(ctx context.Context) (string, error) {
		var id string
		if err := e.rpc.callMethod(ctx, &id, "eth_chainId"); err != nil {
			return "", err
		}
		n, err := parseUint64(id)
		if err != nil {
			return "", fmt.Errorf("eth_chainId: %w", err)
		}
		return strconv.FormatUint(n, 10), nil
	}}
}

// identify has a bitcoin node name its first block.
func (b *bitcoin) identify() *identified {
	return &identified{Chain: b, want: bitcoinGenesis, ask: func(ctx context.Context) (hash string, err error) {
		return hash, b.rpc.callMethod(ctx, &hash, "getblockhash", 0)
	}}
}

// identify has a Solana node name its first block.
func (s *solana) identify() *identified {
	return &identified{Chain: s, want: solanaGenesis, ask: func(ctx context.Context) (hash string, err error) {
		return hash, s.rpc.callMethod(ctx, &hash, "getGenesisHash")
	}}
}
