package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"purser/actors/partner"
)

// Limits of the sandbox chains.
const (
	MaxTransfers  = 100_000 // per chain; one more is partner.ErrFull
	MaxForks      = 10_000  // reorganisations per chain; one more is partner.ErrFull
	maxPerPayment = 16      // transfers in one transaction
	chainSpan     = 1 << 20 // blocks of one query; blocks without a transfer are not stored
	minBlockTime  = time.Millisecond
)

// Errors of a reorganisation.
var (
	// ErrNoTransfer says that a chain has no transaction with the hash.
	ErrNoTransfer = errors.New("sandbox chain: no such transaction")
	// ErrDepth says that a chain does not have so many blocks.
	ErrDepth = errors.New("sandbox chain: depth is out of range")
)

// ChainsConfig has the chains and their store. All fields are required.
type ChainsConfig struct {
	Store *Store
	Chain map[string]int // threshold by name, as partner.Chain.Threshold
	// Final is the time until a transfer is final; the threshold's blocks take that long.
	Final time.Duration
	Clock func() time.Time
}

// Chains are simulated blockchains. Blocks follow from the clock; only transfers and
// reorganisations are stored. A test can pay, reorganise and advance the clock. They survive a
// restart and a power loss.
type Chains struct{ chains map[string]*Chain }

// Chain is a partner.Chain of the sandbox.
type Chain struct {
	store     *Store
	clock     func() time.Time
	name      string
	blockTime time.Duration // interval of blocks

	mu        sync.Mutex // guards all fields below
	threshold int
	anchor    anchorBlock
	forks     []fork // by From
	transfers []*transfer
	byAddress map[string][]*transfer
}

// anchorBlock is a block and its time, from which the other blocks follow.
type anchorBlock struct {
	Number uint64        `json:"number"`
	At     time.Time     `json:"at"`
	Every  time.Duration `json:"every"`
}

// fork replaces all blocks from From on.
type fork struct {
	From uint64 `json:"from"`
	Salt uint64 `json:"salt"`
}

// transfer is a stored partner.Observation; its block's hash follows from the number.
type transfer struct {
	Asset   string    `json:"asset"`
	Address string    `json:"address"`
	TxHash  string    `json:"txHash"`
	Index   int       `json:"index"`
	Amount  string    `json:"amount"`
	Block   uint64    `json:"block"` // 0 for a dropped transfer
	At      time.Time `json:"at"`
	From    string    `json:"from"`
}

// ChainPayment is one transfer of a transaction. An Asset that is no coin of the network is a wrong
// token.
type ChainPayment struct {
	Asset, Address string
	Amount         string // decimal integer of smallest units
}

// NewChains loads the chains of an earlier run, or starts them. It fails for an incomplete config
// and with the store's error.
func NewChains(c ChainsConfig) (*Chains, error) {
	if c.Store == nil || len(c.Chain) == 0 || c.Final < 0 || c.Clock == nil {
		return nil, errors.New("sandbox chains: Store, Chain and Clock are required, Final is not negative")
	}
	all := &Chains{make(map[string]*Chain)}
	for name, threshold := range c.Chain {
		chain := &Chain{store: c.Store, clock: c.Clock, name: name, threshold: threshold,
			byAddress: make(map[string][]*transfer),
			blockTime: max(c.Final/time.Duration(max(threshold, 1)), minBlockTime)}
		if err := chain.loadOrStart(); err != nil {
			return nil, fmt.Errorf("sandbox chain %s: %w", name, err)
		}
		all.chains[name] = chain
	}
	return all, nil
}

// Chain is the chain of a name; nil when there is none.
func (c *Chains) Chain(name string) *Chain { return c.chains[name] }

// loadOrStart loads the chain, or starts it at block 1. After a change of the block time, blocks
// continue from the newest. It fails with the store's error.
func (c *Chain) loadOrStart() (err error) {
	known, err := c.store.loadChain(c)
	if err != nil {
		return err
	}
	now := c.clock()
	switch {
	case !known:
		c.anchor = anchorBlock{Number: 1, At: now, Every: c.blockTime}
	case c.anchor.Every != c.blockTime:
		c.anchor = anchorBlock{Number: c.headNumber(now), At: now, Every: c.blockTime}
	default:
		return nil
	}
	return c.store.saveAnchor(c.name, c.anchor)
}

// IsLocal is true: the chain is made in this process, and its head is not the word of a node. The
// watcher of the chain asks.
func (c *Chain) IsLocal() bool { return true }

// Name is the chain's name.
func (c *Chain) Name() string { return c.name }

// Threshold is the number of blocks that makes a transfer final.
func (c *Chain) Threshold() int { return c.threshold }

// Span is the largest number of blocks in one query.
func (c *Chain) Span() int { return chainSpan }

// headNumber is the newest block at a time. A clock that is set back removes blocks, like a node
// restored from a backup.
func (c *Chain) headNumber(now time.Time) uint64 {
	since := now.Sub(c.anchor.At)
	if since < 0 {
		return c.anchor.Number - min(c.anchor.Number-1, uint64(-since/c.anchor.Every))
	}
	return c.anchor.Number + uint64(since/c.anchor.Every)
}

// Head implements partner.Chain: the newest block. It fails only when ctx has ended.
func (c *Chain) Head(ctx context.Context) (partner.Head, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blockAt(c.headNumber(c.clock())), ctx.Err()
}

// Block implements partner.Chain. It fails with ErrNoBlock for block 0 and above the head, and when
// ctx has ended.
func (c *Chain) Block(ctx context.Context, number uint64) (partner.Head, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || number > c.headNumber(c.clock()) {
		return partner.Head{}, partner.ErrNoBlock
	}
	return c.blockAt(number), ctx.Err()
}

func (c *Chain) blockAt(number uint64) partner.Head {
	at := c.anchor.At.Add(time.Duration(int64(number)-int64(c.anchor.Number)) * c.anchor.Every)
	return partner.Head{Number: number, Hash: c.deriveHash("block", number, c.forkSalt(number)), At: at}
}

func (c *Chain) forkSalt(number uint64) uint64 {
	after, _ := slices.BinarySearchFunc(c.forks, number+1, func(f fork, n uint64) int { return cmp.Compare(f.From, n) })
	if after == 0 {
		return 0
	}
	return c.forks[after-1].Salt
}

func (c *Chain) deriveHash(what string, n, salt uint64) string {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(c.name+"|"+what+"|"), n), salt)
	sum := sha256.Sum256(text)
	return "0x" + hex.EncodeToString(sum[:])
}

// Transfers implements partner.Chain: it returns the transfers to the addresses in existing blocks.
// It fails only when ctx has ended.
func (c *Chain) Transfers(ctx context.Context, from, through uint64, addresses []string) ([]partner.Observation,
	error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	through = min(through, c.headNumber(c.clock()))
	var found []partner.Observation
	for _, address := range addresses {
		for _, t := range c.byAddress[address] {
			if t.Block >= max(from, 1) && t.Block <= through {
				found = append(found, partner.Observation{Chain: c.name, Asset: t.Asset, Address: t.Address,
					TxHash: t.TxHash,
					Index:  t.Index, Amount: t.Amount, Block: t.Block, BlockHash: c.blockAt(t.Block).Hash, At: t.At,
					From: t.From})
			}
		}
	}
	slices.SortFunc(found, func(a, b partner.Observation) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), strings.Compare(a.TxHash, b.TxHash), cmp.Compare(a.Index, b.Index))
	})
	return found, ctx.Err()
}

// Pay stores one transaction of transfers, in the next block. Equal references are one transaction:
// a repeat returns the first one. It fails for more than maxPerPayment transfers or none, with
// partner.ErrFull at MaxTransfers, and with the store's error.
func (c *Chain) Pay(_ context.Context, reference, from string, payments ...ChainPayment) (txHash string, err error) {
	if len(payments) == 0 || len(payments) > maxPerPayment {
		return "", fmt.Errorf("sandbox chain: a transaction has 1 to %d transfers", maxPerPayment)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := sha256.Sum256([]byte(c.name + "|tx|" + reference))
	txHash = "0x" + hex.EncodeToString(sum[:])
	if slices.ContainsFunc(c.transfers, func(t *transfer) bool { return t.TxHash == txHash }) {
		return txHash, nil
	}
	if len(c.transfers)+len(payments) > MaxTransfers {
		return "", partner.ErrFull
	}
	now := c.clock()
	made := make([]*transfer, len(payments))
	for i, p := range payments {
		made[i] = &transfer{Asset: p.Asset, Address: p.Address, TxHash: txHash, Index: i, Amount: p.Amount,
			Block: c.headNumber(now) + 1, At: now, From: from}
	}
	if err := c.store.saveTransfers(c.name, made, c.forks); err != nil {
		return "", fmt.Errorf("sandbox chain: %w", err)
	}
	for _, t := range made {
		c.indexTransfer(t)
	}
	return txHash, nil
}

func (c *Chain) indexTransfer(t *transfer) {
	c.transfers = append(c.transfers, t)
	c.byAddress[t.Address] = append(c.byAddress[t.Address], t)
}

// Reorganise replaces the newest depth blocks. Their transfers move to the next block, except those
// of the dropped transactions, which are in no block, as after a double spend. It fails with
// ErrDepth for a depth below 1 or over the head's number, with ErrNoTransfer for an unknown
// transaction, with partner.ErrFull at MaxForks, and with the store's error.
func (c *Chain) Reorganise(_ context.Context, depth int, dropped ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.headNumber(c.clock())
	if depth < 1 || uint64(depth) > head {
		return fmt.Errorf("%w: there are 1 to %d blocks to replace", ErrDepth, head)
	}
	for _, tx := range dropped {
		if !slices.ContainsFunc(c.transfers, func(t *transfer) bool { return t.TxHash == tx }) {
			return fmt.Errorf("%w: %s", ErrNoTransfer, tx)
		}
	}
	from := head - uint64(depth) + 1
	kept := slices.DeleteFunc(slices.Clone(c.forks), func(f fork) bool { return f.From >= from })
	if len(kept) >= MaxForks {
		return partner.ErrFull
	}
	newest := uint64(0)
	for _, f := range c.forks {
		newest = max(newest, f.Salt)
	}
	forks := append(kept, fork{From: from, Salt: newest + 1})
	var moved, after []*transfer
	for _, t := range c.transfers {
		if t.Block < from {
			continue
		}
		again := *t
		again.Block = head + 1
		if slices.Contains(dropped, t.TxHash) {
			again.Block = 0
		}
		moved, after = append(moved, t), append(after, &again)
	}
	if err := c.store.saveTransfers(c.name, after, forks); err != nil {
		return fmt.Errorf("sandbox chain: %w", err)
	}
	for i := range moved {
		*moved[i] = *after[i]
	}
	c.forks = forks
	return nil
}
