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
	// transferTopic is the hash of Transfer(address,address,uint256), the event of each ERC-20
	// token.
	transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	maxTopics     = 1000 // destinations in one query
	// nativeIndex is the Index of a transaction's ether. Tokens have the index of their log, which
	// is far lower.
	nativeIndex = 1 << 30
	maxOutcomes = 100_000 // transactions whose receipt was read; beyond it all are forgotten
)

// errChainChanged says that a node's answers belong to different chains. A retry may succeed.
var errChainChanged = errors.New("the node's chain has changed between two calls")

// evm is an EVM chain. It is not safe for concurrent use.
type evm struct {
	Network
	rpc    *rpcClient
	tokens map[string]string // names by contract, in lower case
	blocks *blockCache       // read for ether
	// outcomes says of transactions whether they succeeded. A block's hash fixes them.
	outcomes map[minedTransaction]bool
	crowds   map[crowd]int // refusals of one address in one block, by queryLogs
}

func newEVM(n Network, rpc *rpcClient) *evm {
	e := &evm{Network: n, rpc: rpc, tokens: make(map[string]string), blocks: newBlockCache(n.Span),
		crowds: make(map[crowd]int), outcomes: make(map[minedTransaction]bool)}
	for name, contract := range n.Tokens {
		e.tokens[strings.ToLower(contract)] = name
	}
	return e
}

// Name is the network's name.
func (e *evm) Name() string { return e.Network.Name }

// Threshold is the network's threshold.
func (e *evm) Threshold() int { return e.Network.Threshold }

// Span is the network's span.
func (e *evm) Span() int { return e.Network.Span }

type evmBlock struct {
	Number     string `json:"number"`
	Hash       string `json:"hash"`
	ParentHash string `json:"parentHash"`
	Timestamp  string `json:"timestamp"`
}

// Head implements partner.Chain: the newest block. It fails with the node's error and for an answer
// that cannot be read.
func (e *evm) Head(ctx context.Context) (partner.Head, error) {
	var b *evmBlock
	if err := e.rpc.callMethod(ctx, &b, "eth_getBlockByNumber", "latest", false); err != nil {
		return partner.Head{}, err
	}
	return b.parseHead()
}

// Block implements partner.Chain. A block whose own number differs is an error. It fails with
// ErrNoBlock above the newest block, and with the node's error.
func (e *evm) Block(ctx context.Context, n uint64) (partner.Head, error) {
	var b *evmBlock
	if err := e.rpc.callMethod(ctx, &b, "eth_getBlockByNumber", formatQuantity(n), false); err != nil {
		return partner.Head{}, err
	}
	h, err := b.parseHead()
	if err == nil && h.Number != n {
		err = fmt.Errorf("block %d is numbered %d", n, h.Number)
	}
	return h, err
}

func formatQuantity(n uint64) string { return fmt.Sprintf("0x%x", n) }

// parseHead returns the number, hash and time of a block. It fails with ErrNoBlock when the node
// answered null, and for a number, time or hash that is missing or cannot be read.
func (b *evmBlock) parseHead() (partner.Head, error) {
	if b == nil {
		return partner.Head{}, partner.ErrNoBlock
	}
	n, err := parseUint64(b.Number)
	seconds, errAt := parseUint64(b.Timestamp)
	at, errMade := parseBlockTime(int64(min(seconds, maxSeconds+1)))
	if err := errors.Join(err, errAt, errMade); err != nil || b.Hash == "" {
		return partner.Head{}, fmt.Errorf("block: %w", cmp.Or(err, errChainChanged))
	}
	return partner.Head{Number: n, Hash: b.Hash, At: at}, nil
}

// Transfers implements partner.Chain: it returns the transfers of the known tokens and of ether. It
// fails with the node's error, for an answer that does not match the query, and with
// errChainChanged when the chain changes during the call.
func (e *evm) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation,
	err error) {
	spelled := make(map[string]string, len(addresses)) // the requested spelling by the node's spelling
	topics := make([]string, 0, len(addresses))
	for _, a := range addresses {
		low := strings.ToLower(a)
		spelled[low] = a
		topics = append(topics, "0x"+strings.Repeat("0", 24)+strings.TrimPrefix(low, "0x"))
	}
	for part := range slices.Chunk(topics, maxTopics) {
		logs, err := e.queryLogs(ctx, from, through, part)
		if err != nil {
			return nil, err
		}
		if found, err = appendFound(found, logs...); err != nil {
			return nil, err
		}
	}
	ether, err := e.etherTransfers(ctx, from, through, spelled)
	if err != nil {
		return nil, err
	}
	if found, err = appendFound(found, ether...); err != nil {
		return nil, err
	}
	for i := range found {
		asked, ours := spelled[found[i].Address]
		if !ours {
			return nil, errors.New("eth_getLogs: a transfer to an address outside the query")
		}
		found[i].Address = asked
	}
	if err := e.setBlockTimes(ctx, found); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b partner.Observation) int { return cmp.Compare(a.Block, b.Block) })
	return found, nil
}

type evmLog struct {
	Address         string    `json:"address"`
	Topics          [4]string `json:"topics"` // an EVM log has at most four
	Data            string    `json:"data"`
	BlockNumber     string    `json:"blockNumber"`
	BlockHash       string    `json:"blockHash"`
	TransactionHash string    `json:"transactionHash"`
	LogIndex        string    `json:"logIndex"`
	Removed         bool      `json:"removed"`
}

// parseTokenLog converts a log. A log's index counts within its block and is the same in every
// answer. It fails for a log that does not match the query or cannot be read.
func (e *evm) parseTokenLog(l *evmLog) (o partner.Observation, err error) {
	name, known := e.tokens[strings.ToLower(l.Address)]
	if !known || l.Topics[3] != "" || l.Topics[0] != transferTopic || len(l.Topics[1]) != 66 ||
		len(l.Topics[2]) != 66 {
		return o, errors.New("a log that does not match the query")
	}
	block, errBlock := parseUint64(l.BlockNumber)
	index, errIndex := parseUint64(l.LogIndex)
	amount, errAmount := parseQuantity(l.Data)
	if err := errors.Join(errBlock, errIndex, errAmount); err != nil {
		return o, err
	}
	if index >= nativeIndex {
		return o, errors.New("a log without its position")
	}
	o = partner.Observation{Chain: e.Network.Name, Asset: name, Address: "0x" + strings.ToLower(l.Topics[2][26:]),
		TxHash: l.TransactionHash, Index: int(index), Amount: amount.String(), Block: block, BlockHash: l.BlockHash,
		From: "0x" + l.Topics[1][26:]}
	return o, checkPosition(&o)
}

// setBlockTimes sets the times of the transfers' blocks. It fails with errChainChanged for a
// transfer of a block that is gone, and with the node's error.
func (e *evm) setBlockTimes(ctx context.Context, found []partner.Observation) error {
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
			return errChainChanged
		}
		o.At = b.At
	}
	return nil
}

type evmTransaction struct {
	Hash  string  `json:"hash"`
	From  string  `json:"from"`
	To    *string `json:"to"` // null: the transaction creates a contract
	Value string  `json:"value"`
}

// etherTransfers are the transfers of ether by transactions. Blocks are read whole, once each, from
// the newest back by their parents' hashes. Polygon has none. It fails with the errors of Block,
// readBlock and keepSucceeded.
func (e *evm) etherTransfers(ctx context.Context, from, through uint64,
	to map[string]string) (found []partner.Observation, err error) {
	if e.Network.Name == "polygon" {
		return nil, nil // Purser does not take its coin
	}
	newest, err := e.Block(ctx, through)
	if err != nil {
		return nil, err
	}
	for n, hash := through, newest.Hash; n >= from && n > 0; n-- {
		b, err := e.readBlock(ctx, n, hash)
		if err != nil {
			return nil, err
		}
		for _, o := range b.transfers {
			if _, ours := to[o.Address]; ours {
				if found, err = appendFound(found, o); err != nil {
					return nil, err
				}
			}
		}
		hash = b.parent
	}
	slices.Reverse(found)
	return e.keepSucceeded(ctx, found)
}

// readBlock returns the ether transfers of the block with a number and a hash, from the cache or
// the node. It fails with the node's error, with ErrNoBlock for a block the node does not have, and
// with errChainChanged when the node answers with another block.
func (e *evm) readBlock(ctx context.Context, n uint64, hash string) (cachedBlock, error) {
	if b, known := e.blocks.byKey[hash]; known {
		return b, nil
	}
	var b evmBlock
	var one cachedBlock
	null := false
	err := e.rpc.streamMethod(ctx, func(d *json.Decoder) (err error) {
		null, err = readObject(d, members{"number": decodeInto(&b.Number), "hash": decodeInto(&b.Hash),
			"parentHash": decodeInto(&b.ParentHash), "timestamp": decodeInto(&b.Timestamp),
			"transactions": listOf(maxTransactions, func(t *evmTransaction) error {
				o, paid, err := e.parseTransaction(n, hash, t)
				if paid && err == nil {
					one.transfers = append(one.transfers, o)
				}
				return err
			})})
		return err
	}, "eth_getBlockByHash", hash, true)
	if err != nil {
		return cachedBlock{}, fmt.Errorf("block %d: %w", n, err)
	}
	if null {
		return cachedBlock{}, partner.ErrNoBlock
	}
	h, err := b.parseHead()
	if err != nil {
		return cachedBlock{}, err
	}
	if h.Hash != hash || h.Number != n || len(b.ParentHash) > maxIdentifier {
		return cachedBlock{}, errChainChanged
	}
	one.parent = b.ParentHash
	e.blocks.addBlock(hash, one)
	return one, nil
}

// parseTransaction converts a transaction of a block; paid is false for one that moves no ether to
// an account. It fails for an amount that cannot be read and for a transaction without its hash.
func (e *evm) parseTransaction(n uint64, hash string, t *evmTransaction) (o partner.Observation, paid bool,
	err error) {
	value, err := parseQuantity(t.Value)
	if err != nil {
		return o, false, err
	}
	if t.To == nil || value.Sign() == 0 {
		return o, false, nil
	}
	o = partner.Observation{Chain: e.Network.Name, Asset: "ETH", Address: strings.ToLower(*t.To), TxHash: t.Hash,
		Index: nativeIndex, Amount: value.String(), Block: n, BlockHash: hash, From: t.From}
	return o, true, checkPosition(&o)
}

// minedTransaction is a transaction in a block.
type minedTransaction struct{ tx, block string }

// keepSucceeded drops failed transactions, which are in their blocks too. Each receipt is asked for
// once while outcomes has room, so that a step that ends early loses none of them. It fails with
// the errors of readReceipts.
func (e *evm) keepSucceeded(ctx context.Context, tried []partner.Observation) (found []partner.Observation,
	err error) {
	var unknown []minedTransaction
	succeeded := make(map[minedTransaction]bool, len(tried))
	for _, o := range tried {
		mined := minedTransaction{o.TxHash, o.BlockHash}
		outcome, known := e.outcomes[mined]
		if succeeded[mined] = outcome; !known {
			unknown = append(unknown, mined)
		}
	}
	if err := e.readReceipts(ctx, unknown, succeeded); err != nil {
		return nil, err
	}
	for _, o := range tried {
		if succeeded[minedTransaction{o.TxHash, o.BlockHash}] {
			found = append(found, o)
		}
	}
	return found, nil
}

// readReceipts adds the outcomes of transactions to succeeded and to the stored ones. It fails with
// the node's error, and with errChainChanged for a receipt that is missing or of another block.
func (e *evm) readReceipts(ctx context.Context, of []minedTransaction, succeeded map[minedTransaction]bool) error {
	params := make([][]any, len(of))
	for i := range of {
		params[i] = []any{of[i].tx}
	}
	return e.rpc.callBatch(ctx, "eth_getTransactionReceipt", params, func(i int, result json.RawMessage) error {
		var receipt struct{ Status, BlockHash string }
		if err := json.Unmarshal(result, &receipt); err != nil {
			return err
		}
		if receipt.BlockHash != of[i].block { // null when the node has no receipt yet
			return errChainChanged
		}
		if len(e.outcomes) >= maxOutcomes {
			clear(e.outcomes)
		}
		succeeded[of[i]] = receipt.Status == "0x1"
		e.outcomes[of[i]] = succeeded[of[i]]
		return nil
	})
}
