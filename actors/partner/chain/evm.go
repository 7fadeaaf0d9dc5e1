package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"purser/actors/partner"
)

const (
	// transferTopic is the hash of Transfer(address,address,uint256), the event of every ERC-20 token.
	transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	maxTopics     = 1000 // destinations in one query
	// nativeIndex is the Index of the ether of a transaction; tokens have the index of their log, from 0 and far below.
	nativeIndex = 1 << 30
)

// errMoved says that a node's answers do not belong together. They may the next time.
var errMoved = errors.New("the node's chain has changed while it was asked")

// evm is an EVM chain. It is not safe for concurrent use.
type evm struct {
	Network
	rpc    *rpcClient
	tokens map[string]string // name by contract, lower case
	blocks *blocks           // for ether
}

func newEVM(n Network, rpc *rpcClient) *evm {
	e := &evm{Network: n, rpc: rpc, tokens: make(map[string]string), blocks: newBlocks(n.Span)}
	for name, contract := range n.Tokens {
		e.tokens[strings.ToLower(contract)] = name
	}
	return e
}

// Name is the network's.
func (e *evm) Name() string { return e.Network.Name }

// Threshold is the network's.
func (e *evm) Threshold() int { return e.Network.Threshold }

// Span is the network's.
func (e *evm) Span() int { return e.Network.Span }

type evmBlock struct {
	Number       string          `json:"number"`
	Hash         string          `json:"hash"`
	ParentHash   string          `json:"parentHash"`
	Timestamp    string          `json:"timestamp"`
	Transactions json.RawMessage `json:"transactions"`
}

// Head is the newest block.
func (e *evm) Head(ctx context.Context) (partner.Head, error) {
	var b *evmBlock
	if err := e.rpc.call(ctx, &b, "eth_getBlockByNumber", "latest", false); err != nil {
		return partner.Head{}, err
	}
	return b.head()
}

// Block is a block by its number.
func (e *evm) Block(ctx context.Context, n uint64) (partner.Head, error) {
	var b *evmBlock
	if err := e.rpc.call(ctx, &b, "eth_getBlockByNumber", hex(n), false); err != nil {
		return partner.Head{}, err
	}
	h, err := b.head()
	if err == nil && h.Number != n {
		err = fmt.Errorf("block %d is numbered %d", n, h.Number)
	}
	return h, err
}

func hex(n uint64) string { return fmt.Sprintf("0x%x", n) }

func (b *evmBlock) head() (partner.Head, error) {
	if b == nil {
		return partner.Head{}, partner.ErrNoBlock
	}
	n, err := number(b.Number)
	seconds, errAt := number(b.Timestamp)
	at, errMade := madeAt(int64(min(seconds, maxSeconds+1)))
	if err := errors.Join(err, errAt, errMade); err != nil || b.Hash == "" {
		return partner.Head{}, fmt.Errorf("block: %w", cmp.Or(err, errMoved))
	}
	return partner.Head{Number: n, Hash: b.Hash, At: at}, nil
}

// Transfers are those of the known tokens, and of ether.
func (e *evm) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation, err error) {
	spelled := make(map[string]string, len(addresses)) // as it was asked for, by how the node spells it
	topics := make([]string, 0, len(addresses))
	for _, a := range addresses {
		low := strings.ToLower(a)
		spelled[low] = a
		topics = append(topics, "0x"+strings.Repeat("0", 24)+strings.TrimPrefix(low, "0x"))
	}
	for part := range slices.Chunk(topics, maxTopics) {
		logs, err := e.logs(ctx, from, through, part)
		if err != nil {
			return nil, err
		}
		found = append(found, logs...)
	}
	ether, err := e.ether(ctx, from, through, spelled)
	if err != nil {
		return nil, err
	}
	found = append(found, ether...)
	for i := range found {
		asked, ours := spelled[found[i].Address]
		if !ours {
			return nil, errors.New("eth_getLogs: a transfer to somebody else")
		}
		found[i].Address = asked
	}
	if err := e.dates(ctx, found); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b partner.Observation) int { return cmp.Compare(a.Block, b.Block) })
	return found, nil
}

type evmLog struct {
	Address         string   `json:"address"`
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	BlockNumber     string   `json:"blockNumber"`
	BlockHash       string   `json:"blockHash"`
	TransactionHash string   `json:"transactionHash"`
	LogIndex        string   `json:"logIndex"`
	Removed         bool     `json:"removed"`
}

func (e *evm) logs(ctx context.Context, from, through uint64, to []string) (found []partner.Observation, err error) {
	contracts := make([]string, 0, len(e.tokens))
	for contract := range e.tokens {
		contracts = append(contracts, contract)
	}
	slices.Sort(contracts)
	var logs []evmLog
	err = e.rpc.call(ctx, &logs, "eth_getLogs", map[string]any{"fromBlock": hex(from), "toBlock": hex(through),
		"address": contracts, "topics": []any{transferTopic, nil, to}})
	if err != nil {
		return nil, err
	}
	for i := range logs {
		l := &logs[i]
		o, err := e.token(l)
		if err != nil {
			return nil, fmt.Errorf("eth_getLogs: %w", err)
		}
		if o.Block < from || o.Block > through {
			return nil, fmt.Errorf("eth_getLogs: a log of block %d", o.Block)
		}
		if l.Removed || o.Amount == "0" {
			continue
		}
		found = append(found, o)
	}
	return found, nil
}

// token is what a log says. A log's index counts within its block, and is the same wherever a node shows the block.
func (e *evm) token(l *evmLog) (o partner.Observation, err error) {
	name, known := e.tokens[strings.ToLower(l.Address)]
	if !known || len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Topics[1]) != 66 || len(l.Topics[2]) != 66 {
		return o, errors.New("a log that was not asked for")
	}
	block, errBlock := number(l.BlockNumber)
	index, errIndex := number(l.LogIndex)
	amount, errAmount := quantity(l.Data)
	if err := errors.Join(errBlock, errIndex, errAmount); err != nil {
		return o, err
	}
	if index >= nativeIndex {
		return o, errors.New("a log without its place")
	}
	o = partner.Observation{Chain: e.Network.Name, Asset: name, Address: "0x" + strings.ToLower(l.Topics[2][26:]),
		TxHash: l.TransactionHash, Index: int(index), Amount: amount.String(), Block: block, BlockHash: l.BlockHash,
		From: "0x" + l.Topics[1][26:]}
	return o, placed(&o)
}

// dates fills in when blocks were made, and refuses transfers from blocks that are not there.
func (e *evm) dates(ctx context.Context, found []partner.Observation) error {
	made := make(map[uint64]partner.Head)
	for i := range found {
		o := &found[i]
		b, known := made[o.Block]
		if !known {
			var err error
			if b, err = e.Block(ctx, o.Block); err != nil {
				return err
			}
			made[o.Block] = b
		}
		if b.Hash != o.BlockHash {
			return errMoved
		}
		o.At = b.At
	}
	return nil
}

type evmTransaction struct {
	Hash  string  `json:"hash"`
	From  string  `json:"from"`
	To    *string `json:"to"` // null: it makes a contract
	Value string  `json:"value"`
}

// ether is what transactions carry themselves. Blocks are read whole, once each, back from the newest by their parents' hashes.
func (e *evm) ether(ctx context.Context, from, through uint64, to map[string]string) (found []partner.Observation, err error) {
	if e.Network.Name == "polygon" {
		return nil, nil // its coin is none of ours
	}
	newest, err := e.Block(ctx, through)
	if err != nil {
		return nil, err
	}
	for n, hash := through, newest.Hash; n >= from && n > 0; n-- {
		b, err := e.whole(ctx, n, hash)
		if err != nil {
			return nil, err
		}
		for _, o := range b.transfers {
			if _, ours := to[o.Address]; ours {
				found = append(found, o)
			}
		}
		hash = b.parent
	}
	slices.Reverse(found)
	return e.succeeded(ctx, found)
}

func (e *evm) whole(ctx context.Context, n uint64, hash string) (block, error) {
	if b, known := e.blocks.byKey[hash]; known {
		return b, nil
	}
	var b *evmBlock
	if err := e.rpc.call(ctx, &b, "eth_getBlockByHash", hash, true); err != nil {
		return block{}, err
	}
	h, err := b.head()
	if err != nil {
		return block{}, err
	}
	if h.Hash != hash || h.Number != n {
		return block{}, errMoved
	}
	var all []evmTransaction
	if err := json.Unmarshal(b.Transactions, &all); err != nil {
		return block{}, fmt.Errorf("block %d: %w", n, err)
	}
	one := block{parent: b.ParentHash}
	for _, t := range all {
		value, err := quantity(t.Value)
		if err != nil {
			return block{}, fmt.Errorf("block %d: %w", n, err)
		}
		if t.To == nil || value.Sign() == 0 {
			continue
		}
		o := partner.Observation{Chain: e.Network.Name, Asset: "ETH", Address: strings.ToLower(*t.To), TxHash: t.Hash,
			Index: nativeIndex, Amount: value.String(), Block: n, BlockHash: hash, From: t.From}
		if err := placed(&o); err != nil {
			return block{}, fmt.Errorf("block %d: %w", n, err)
		}
		one.transfers = append(one.transfers, o)
	}
	e.blocks.keep(hash, one)
	return one, nil
}

// succeeded leaves out what was tried in vain: a transaction that failed is in its block all the same.
func (e *evm) succeeded(ctx context.Context, tried []partner.Observation) (found []partner.Observation, err error) {
	params := make([][]any, len(tried))
	for i := range tried {
		params[i] = []any{tried[i].TxHash}
	}
	err = e.rpc.batch(ctx, "eth_getTransactionReceipt", params, func(i int, result json.RawMessage) error {
		var receipt struct{ Status, BlockHash string }
		if err := json.Unmarshal(result, &receipt); err != nil {
			return err
		}
		switch {
		case receipt.BlockHash != tried[i].BlockHash: // null when the node has not got to it yet
			return errMoved
		case receipt.Status == "0x1":
			found = append(found, tried[i])
		}
		return nil
	})
	return found, err
}
