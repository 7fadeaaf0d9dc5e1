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

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors/partner"
)

// Limits of the sandbox chains.
const (
	MaxTransfers   = 100_000 // kept for each chain; one more is partner.ErrFull
	MaxForks       = 10_000  // reorganisations of each chain; one more is partner.ErrFull
	maxPerPayment  = 16      // transfers in one transaction
	chainSpan      = 1 << 20 // blocks of one query: a block without a transfer is not kept anywhere
	leastBlockTime = time.Millisecond
)

// ErrNoTransfer says that a chain has no transaction of a hash.
var ErrNoTransfer = errors.New("sandbox chain: no such transaction")

// ChainsConfig says which chains there are and where they are kept. All fields are required but FS.
type ChainsConfig struct {
	Dir   string
	FS    vfs.FS         // nil: the disk
	Chain map[string]int // threshold by name, as partner.Chain has it
	// Final is how long a transfer takes to be final: so long is a threshold of blocks.
	Final time.Duration
	Clock func() time.Time
}

// Chains are blockchains that nobody mines: blocks follow from the clock, one after another, and only transfers and
// reorganisations are kept. A test can pay, take back and turn the clock. They survive a restart and a power loss.
type Chains struct {
	store  *chainStore
	clock  func() time.Time
	chains map[string]*Chain
}

// Chain is a partner.Chain of the sandbox.
type Chain struct {
	store *chainStore
	clock func() time.Time
	name  string
	every time.Duration // between two blocks

	mu        sync.Mutex // over all below
	threshold int
	base      base
	forks     []fork // by From
	transfers []*transfer
	byAddress map[string][]*transfer
}

// base is a block and when it was made; later blocks follow from it.
type base struct {
	Number uint64        `json:"number"`
	At     time.Time     `json:"at"`
	Every  time.Duration `json:"every"`
}

// fork says that the blocks from From on are not those that were there before.
type fork struct {
	From uint64 `json:"from"`
	Salt uint64 `json:"salt"`
}

// transfer is a partner.Observation that is kept; its block's hash follows from the number.
type transfer struct {
	Asset   string    `json:"asset"`
	Address string    `json:"address"`
	TxHash  string    `json:"txHash"`
	Index   int       `json:"index"`
	Amount  string    `json:"amount"`
	Block   uint64    `json:"block"` // 0: dropped, it is in no block
	At      time.Time `json:"at"`
	From    string    `json:"from"`
}

// ChainPayment is one transfer of a transaction on a sandbox chain. Asset is any name: what is no coin of the network is a
// wrong token.
type ChainPayment struct {
	Asset, Address string
	Amount         string // whole smallest units
}

// NewChains opens the store and finds there what an earlier run left.
func NewChains(c ChainsConfig) (*Chains, error) {
	if c.Dir == "" || len(c.Chain) == 0 || c.Final < 0 || c.Clock == nil {
		return nil, errors.New("sandbox chains: Dir, Chain and Clock are required, Final is not negative")
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	s, err := openChainStore(c.Dir, c.FS)
	if err != nil {
		return nil, err
	}
	all := &Chains{store: s, clock: c.Clock, chains: make(map[string]*Chain)}
	for name, threshold := range c.Chain {
		chain := &Chain{store: s, clock: c.Clock, name: name, threshold: threshold, byAddress: make(map[string][]*transfer),
			every: max(c.Final/time.Duration(max(threshold, 1)), leastBlockTime)}
		if err := chain.load(); err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox chain %s: %w", name, err), s.close())
		}
		all.chains[name] = chain
	}
	return all, nil
}

// Close closes the store. No chain may be asked any more.
func (c *Chains) Close() error { return c.store.close() }

// Chain is the chain of a name, nil when there is none.
func (c *Chains) Chain(name string) *Chain { return c.chains[name] }

// load finds out where the chain is. When the time between blocks is another than before, blocks go on from the newest.
func (c *Chain) load() (err error) {
	known, err := c.store.load(c)
	if err != nil {
		return err
	}
	now := c.clock()
	switch {
	case !known:
		c.base = base{Number: 1, At: now, Every: c.every}
	case c.base.Every != c.every:
		c.base = base{Number: c.number(now), At: now, Every: c.every}
	default:
		return nil
	}
	return c.store.saveBase(c.name, c.base)
}

// Name is the chain's.
func (c *Chain) Name() string { return c.name }

// Threshold is how many blocks make a transfer final.
func (c *Chain) Threshold() int { return c.threshold }

// Span is the most blocks of one query.
func (c *Chain) Span() int { return chainSpan }

// number is the newest block at a time. A clock that is turned back takes blocks away, as a node restored from a copy does.
func (c *Chain) number(now time.Time) uint64 {
	since := now.Sub(c.base.At)
	if since < 0 {
		return c.base.Number - min(c.base.Number-1, uint64(-since/c.base.Every))
	}
	return c.base.Number + uint64(since/c.base.Every)
}

// Head is the newest block.
func (c *Chain) Head(ctx context.Context) (partner.Head, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.block(c.number(c.clock())), ctx.Err()
}

// Block is a block by its number.
func (c *Chain) Block(ctx context.Context, number uint64) (partner.Head, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || number > c.number(c.clock()) {
		return partner.Head{}, partner.ErrNoBlock
	}
	return c.block(number), ctx.Err()
}

func (c *Chain) block(number uint64) partner.Head {
	at := c.base.At.Add(time.Duration(int64(number)-int64(c.base.Number)) * c.base.Every)
	return partner.Head{Number: number, Hash: c.hash("block", number, c.salt(number)), At: at}
}

func (c *Chain) salt(number uint64) uint64 {
	after, _ := slices.BinarySearchFunc(c.forks, number+1, func(f fork, n uint64) int { return cmp.Compare(f.From, n) })
	if after == 0 {
		return 0
	}
	return c.forks[after-1].Salt
}

func (c *Chain) hash(what string, n, salt uint64) string {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(c.name+"|"+what+"|"), n), salt)
	sum := sha256.Sum256(text)
	return "0x" + hex.EncodeToString(sum[:])
}

// Transfers are those in the blocks that are there.
func (c *Chain) Transfers(ctx context.Context, from, through uint64, addresses []string) ([]partner.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	through = min(through, c.number(c.clock()))
	var found []partner.Observation
	for _, address := range addresses {
		for _, t := range c.byAddress[address] {
			if t.Block >= max(from, 1) && t.Block <= through {
				found = append(found, partner.Observation{Chain: c.name, Asset: t.Asset, Address: t.Address, TxHash: t.TxHash,
					Index: t.Index, Amount: t.Amount, Block: t.Block, BlockHash: c.block(t.Block).Hash, At: t.At, From: t.From})
			}
		}
	}
	slices.SortFunc(found, func(a, b partner.Observation) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), strings.Compare(a.TxHash, b.TxHash), cmp.Compare(a.Index, b.Index))
	})
	return found, ctx.Err()
}

// Pay makes one transaction of transfers, kept when it returns, and in the next block. The same reference is the same
// transaction, whatever it was to pay the first time.
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
			Block: c.number(now) + 1, At: now, From: from}
	}
	if err := c.store.saveTransfers(c.name, made, c.forks); err != nil {
		return "", fmt.Errorf("sandbox chain: %w", err)
	}
	for _, t := range made {
		c.keep(t)
	}
	return txHash, nil
}

func (c *Chain) keep(t *transfer) {
	c.transfers = append(c.transfers, t)
	c.byAddress[t.Address] = append(c.byAddress[t.Address], t)
}

// Reorganise replaces the newest blocks, so many. What was paid in them is in the next block instead, but for the dropped
// transactions, which are in none: as when the payer has spent the same coins another way.
func (c *Chain) Reorganise(_ context.Context, depth int, dropped ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.number(c.clock())
	if depth < 1 || uint64(depth) > head {
		return fmt.Errorf("sandbox chain: there are 1 to %d blocks to replace", head)
	}
	for _, tx := range dropped {
		if !slices.ContainsFunc(c.transfers, func(t *transfer) bool { return t.TxHash == tx }) {
			return ErrNoTransfer
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
