package evmtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	gethlog "github.com/ethereum/go-ethereum/log"
	gethnode "github.com/ethereum/go-ethereum/node"
	"github.com/stretchr/testify/require"
)

// Contracts of the chain. Those of the program's own table are where the program expects them.
var (
	usdc     = common.HexToAddress("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48") // on ethereum
	stranger = common.HexToAddress("0x00000000000000000000000000000000000c0de1") // calls itself USDC and is in no table
	bridged  = common.HexToAddress("0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174") // USDC.e on polygon
	native   = common.HexToAddress("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359") // USDC on polygon
	twice    = common.HexToAddress("0x00000000000000000000000000000000000c0de2") // makes two transfers of one call
)

// What the customer has, and what a transaction costs.
const (
	customerUnits = 1_000_000_000_000 // a million of each token
	gas           = 200_000
	tipWei        = 1_000_000_000
	feeCapWei     = 50_000_000_000
	olderBlocks   = 60 // before anybody pays
)

// node is a real EVM behind its own JSON-RPC over HTTP. The gate in front of it stays where it is while the node is restarted,
// and counts what is asked.
type node struct {
	t        *testing.T
	alloc    types.GenesisAlloc
	dir      string
	backend  *simulated.Backend
	gate     *httptest.Server
	customer *ecdsa.PrivateKey
	other    *ecdsa.PrivateKey // somebody who is in a hurry

	mu    sync.Mutex
	url   string         // "": the node is gone
	calls map[string]int // answered, by method; "head" is eth_getBlockByNumber of latest
	// recipients is how many addresses the last eth_getLogs was about
	recipients int
}

func startNode(t *testing.T) *node {
	t.Helper()
	customer, err := crypto.GenerateKey()
	require.NoError(t, err)
	other, err := crypto.GenerateKey()
	require.NoError(t, err)
	n := &node{t: t, dir: t.TempDir(), customer: customer, other: other, calls: map[string]int{}}
	token, units := code(t, "token"), common.BigToHash(big.NewInt(customerUnits))
	ether := new(big.Int).Mul(big.NewInt(1000), big.NewInt(1e18))
	n.alloc = types.GenesisAlloc{n.payer(): {Balance: ether}, addressOf(other): {Balance: ether},
		twice: {Balance: new(big.Int), Code: code(t, "twice")}}
	for _, contract := range []common.Address{usdc, stranger, bridged, native} {
		n.alloc[contract] = types.Account{Balance: new(big.Int), Code: token,
			Storage: map[common.Hash]common.Hash{holding(n.payer()): units, holding(addressOf(other)): units, holding(twice): units}}
	}
	n.gate = httptest.NewServer(http.HandlerFunc(n.pass))
	t.Cleanup(func() {
		n.gate.Close()
		n.stop()
	})
	n.start(common.Hash{})
	n.mine(olderBlocks)
	return n
}

// code is what a contract of testdata runs.
func code(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return b
}

// holding is where a token keeps what somebody has: in the map of slot 0.
func holding(who common.Address) common.Hash {
	return crypto.Keccak256Hash(common.LeftPadBytes(who.Bytes(), 32), make([]byte, 32))
}

func addressOf(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

func (n *node) payer() common.Address { return addressOf(n.customer) }

// start starts the node on its directory. Of the blocks there it takes only the first for the chain: head says where that ends,
// when there are others.
func (n *node) start(head common.Hash) {
	n.t.Helper()
	var log nodeLog
	n.backend = simulated.NewBackend(n.alloc, func(c *gethnode.Config, e *ethconfig.Config) {
		c.DataDir, c.HTTPHost, c.HTTPPort, c.HTTPModules = n.dir, "127.0.0.1", 0, []string{"eth"}
		c.Logger = gethlog.NewLogger(&log)
		e.Miner.Recommit = within // a block that takes as long is mined without what was sent
	})
	if head != (common.Hash{}) {
		require.NoError(n.t, n.backend.Fork(head))
	}
	require.NotEmpty(n.t, log.url, "the node says where it listens")
	n.open(log.url)
}

// nodeLog is what the node writes. The port is the system's choice, which nobody else can take meanwhile; it is told here alone.
type nodeLog struct{ url string }

func (l *nodeLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "HTTP server started" && a.Key == "endpoint" {
			l.url = "http://" + a.Value.String()
		}
		return true
	})
	return nil
}

func (l *nodeLog) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelInfo }

func (l *nodeLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *nodeLog) WithGroup(string) slog.Handler { return l }

func (n *node) stop() {
	n.open("")
	if n.backend != nil {
		require.NoError(n.t, n.backend.Close())
		n.backend = nil
	}
}

func (n *node) open(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.url = url
}

// older is a node's directory as it was, and its head then.
type older struct {
	dir  string
	head common.Hash
}

// copy stops the node, copies what it has, and starts it again where it was.
func (n *node) copy() (o older) {
	n.t.Helper()
	o = older{n.t.TempDir(), n.head().Hash()}
	n.stop()
	require.NoError(n.t, os.CopyFS(o.dir, os.DirFS(n.dir)))
	n.start(o.head)
	return o
}

// restore ends the node and starts it on a copy. While it is gone it is asked in vain.
func (n *node) restore(o older) {
	n.t.Helper()
	n.stop()
	n.looked(2)
	n.dir = o.dir
	n.start(o.head)
}

// pass hands a request on to the node.
func (n *node) pass(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n.mu.Lock()
	url := n.url
	n.mu.Unlock()
	if err != nil || url == "" {
		n.count(body)
		http.Error(w, "no node here", http.StatusServiceUnavailable)
		return
	}
	answer, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		http.Error(w, "the node has ended", http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
	n.count(body)
}

func (n *node) count(body []byte) {
	var asked struct {
		Method string
		Params []json.RawMessage
	}
	if json.Unmarshal(body, &asked) != nil {
		return // a batch
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[asked.Method]++
	switch asked.Method {
	case "eth_getBlockByNumber":
		if string(asked.Params[0]) == `"latest"` {
			n.calls["head"]++
		}
	case "eth_getLogs":
		var filter struct{ Topics []json.RawMessage }
		var to []string
		if json.Unmarshal(asked.Params[0], &filter) == nil && len(filter.Topics) == 3 && json.Unmarshal(filter.Topics[2], &to) == nil {
			n.recipients = len(to)
		}
	}
}

// lookedFor is for how many addresses there was a look the last time.
func (n *node) lookedFor() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.recipients
}

func (n *node) asked(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// looked waits until the program has begun so many further looks at the head: all but the last are over.
func (n *node) looked(times int) {
	n.t.Helper()
	until := n.asked("head") + times
	await(n.t, "the next look at the chain", func() bool { return n.asked("head") >= until })
}

func (n *node) mine(blocks int) {
	for range blocks {
		n.backend.Commit()
	}
}

// head is the newest block.
func (n *node) head() *types.Header {
	n.t.Helper()
	h, err := n.backend.Client().HeaderByNumber(context.Background(), nil)
	require.NoError(n.t, err)
	return h
}

// fork takes the newest blocks away. What was in them is mined again in the next block.
func (n *node) fork(depth uint64) {
	n.t.Helper()
	number := new(big.Int).SetUint64(n.head().Number.Uint64() - depth)
	h, err := n.backend.Client().HeaderByNumber(context.Background(), number)
	require.NoError(n.t, err)
	require.NoError(n.t, n.backend.Fork(h.Hash()))
}

// transfer is the call transfer(to, units) of a token.
func transfer(to common.Address, units int64) []byte {
	return call("transfer(address,uint256)", to.Bytes(), big.NewInt(units).Bytes())
}

func call(signature string, arguments ...[]byte) []byte {
	data := crypto.Keccak256([]byte(signature))[:4]
	for _, a := range arguments {
		data = append(data, common.LeftPadBytes(a, 32)...)
	}
	return data
}

// send gives a transaction of the customer's to the node; it is in the next block that is mined.
func (n *node) send(to common.Address, wei *big.Int, data []byte) *types.Transaction {
	n.t.Helper()
	nonce, err := n.backend.Client().PendingNonceAt(context.Background(), n.payer())
	require.NoError(n.t, err)
	return n.sign(n.customer, &types.DynamicFeeTx{Nonce: nonce, GasTipCap: big.NewInt(tipWei), GasFeeCap: big.NewInt(feeCapWei),
		To: &to, Value: wei, Data: data})
}

// replace spends the same nonce on nothing, for more: the node drops what it was spent on. After a fork the node has yet to see
// that what was in the blocks is to be mined again; until then the nonce is spent.
func (n *node) replace(tx *types.Transaction) {
	n.t.Helper()
	await(n.t, "the transaction is to be mined again", func() bool {
		_, pending, err := n.backend.Client().TransactionByHash(context.Background(), tx.Hash())
		return err == nil && pending
	})
	to := n.payer()
	n.sign(n.customer, &types.DynamicFeeTx{Nonce: tx.Nonce(), GasTipCap: big.NewInt(3 * tipWei),
		GasFeeCap: big.NewInt(3 * feeCapWei), To: &to})
}

// overtake is a call of USDC by somebody else that pays so much for it that it is the first of its block.
func (n *node) overtake(data []byte) {
	n.t.Helper()
	n.sign(n.other, &types.DynamicFeeTx{GasTipCap: big.NewInt(10 * tipWei), GasFeeCap: big.NewInt(feeCapWei), To: &usdc, Data: data})
}

// sign gives a transaction to the node, and waits until that counts it: the sender's next one is asked for its nonce.
func (n *node) sign(key *ecdsa.PrivateKey, fields *types.DynamicFeeTx) *types.Transaction {
	n.t.Helper()
	id, err := n.backend.Client().ChainID(context.Background())
	require.NoError(n.t, err)
	fields.ChainID, fields.Gas = id, gas
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), fields)
	require.NoError(n.t, err)
	require.NoError(n.t, n.backend.Client().SendTransaction(context.Background(), tx))
	await(n.t, "the transaction is to be mined", func() bool {
		next, err := n.backend.Client().PendingNonceAt(context.Background(), addressOf(key))
		return err == nil && next > fields.Nonce
	})
	return tx
}

// block is where a transaction is now.
func (n *node) block(tx *types.Transaction) common.Hash { return n.receipt(tx).BlockHash }

// receipt is a transaction's, which must have succeeded.
func (n *node) receipt(tx *types.Transaction) *types.Receipt {
	n.t.Helper()
	receipt, err := n.backend.Client().TransactionReceipt(context.Background(), tx.Hash())
	require.NoError(n.t, err)
	require.Equal(n.t, types.ReceiptStatusSuccessful, receipt.Status)
	return receipt
}
