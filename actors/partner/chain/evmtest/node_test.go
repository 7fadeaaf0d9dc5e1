package evmtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// Contracts of the chain. Those in the program's table have their real addresses.
var (
	usdc         = common.HexToAddress("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48") // on ethereum
	unknownToken = common.HexToAddress("0x00000000000000000000000000000000000c0de1") // named USDC, in no table
	bridged      = common.HexToAddress("0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174") // USDC.e on polygon
	native       = common.HexToAddress("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359") // USDC on polygon
	doublePayer  = common.HexToAddress("0x00000000000000000000000000000000000c0de2") // makes two transfers in one call
)

// Balances of the customer, and prices of a transaction.
const (
	customerUnits = 1_000_000_000_000 // a million of each token
	gas           = 200_000
	tipWei        = 1_000_000_000
	feeCapWei     = 50_000_000_000
	olderBlocks   = 60 // before any payment
)

// node is a real EVM behind its own JSON-RPC over HTTP. The gate in front of it keeps its address
// across restarts of the node, and counts the calls.
type node struct {
	t          *testing.T
	alloc      types.GenesisAlloc
	dir        string
	backend    *simulated.Backend
	gate       *httptest.Server
	customer   *ecdsa.PrivateKey
	competitor *ecdsa.PrivateKey // pays for earlier inclusion

	mu    sync.Mutex
	url   string         // "" while the node is stopped
	calls map[string]int // by method; "head" is eth_getBlockByNumber of latest, or eth_chainId before it
	// recipients is the number of addresses in the last eth_getLogs.
	recipients int
}

func startNode(t *testing.T) *node {
	t.Helper()
	customer, err := crypto.GenerateKey()
	require.NoError(t, err)
	other, err := crypto.GenerateKey()
	require.NoError(t, err)
	n := &node{t: t, dir: t.TempDir(), customer: customer, competitor: other, calls: map[string]int{}}
	token, units := contractCode(t, "token"), common.BigToHash(big.NewInt(customerUnits))
	ether := new(big.Int).Mul(big.NewInt(1000), big.NewInt(1e18))
	n.alloc = types.GenesisAlloc{n.payer(): {Balance: ether}, addressOf(other): {Balance: ether},
		doublePayer: {Balance: new(big.Int), Code: contractCode(t, "twice")}}
	for _, contract := range []common.Address{usdc, unknownToken, bridged, native} {
		n.alloc[contract] = types.Account{Balance: new(big.Int), Code: token,
			Storage: map[common.Hash]common.Hash{balanceSlot(n.payer()): units, balanceSlot(addressOf(other)): units,
				balanceSlot(doublePayer): units}}
	}
	n.gate = httptest.NewServer(http.HandlerFunc(n.proxyRequest))
	t.Cleanup(func() {
		n.gate.Close()
		n.stop()
	})
	n.start(common.Hash{})
	n.mine(olderBlocks)
	return n
}

// contractCode is the code of a contract of testdata.
func contractCode(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return b
}

// balanceSlot is the storage key of an address's token balance, in the map of slot 0.
func balanceSlot(who common.Address) common.Hash {
	return crypto.Keccak256Hash(common.LeftPadBytes(who.Bytes(), 32), make([]byte, 32))
}

func addressOf(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

func (n *node) payer() common.Address { return addressOf(n.customer) }

// start starts the node on its directory. It takes only the first stored block for the chain, so
// head names the end of the chain, if there are more.
func (n *node) start(head common.Hash) {
	n.t.Helper()
	var log nodeLog
	n.backend = simulated.NewBackend(n.alloc, func(c *gethnode.Config, e *ethconfig.Config) {
		c.DataDir, c.HTTPHost, c.HTTPPort, c.HTTPModules = n.dir, "127.0.0.1", 0, []string{"eth"}
		c.Logger = gethlog.NewLogger(&log)
		e.Miner.Recommit = within // longer blocks would be mined without the pending transactions
	})
	if head != (common.Hash{}) {
		require.NoError(n.t, n.backend.Fork(head))
	}
	require.NotEmpty(n.t, log.url, "the node says where it listens")
	n.setURL(log.url)
}

// nodeLog is the node's log. The system chooses the port, and only the log names it.
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
	n.setURL("")
	if n.backend != nil {
		require.NoError(n.t, n.backend.Close())
		n.backend = nil
	}
}

func (n *node) setURL(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.url = url
}

// nodeCopy is a copy of a node's directory, and its head.
type nodeCopy struct {
	dir  string
	head common.Hash
}

// copyDirectory stops the node, copies its directory, and starts it again.
func (n *node) copyDirectory() (o nodeCopy) {
	n.t.Helper()
	o = nodeCopy{n.t.TempDir(), n.head().Hash()}
	n.stop()
	require.NoError(n.t, os.CopyFS(o.dir, os.DirFS(n.dir)))
	n.start(o.head)
	return o
}

// restore stops the node and starts it on a copy. Meanwhile its calls fail.
func (n *node) restore(o nodeCopy) {
	n.t.Helper()
	n.stop()
	n.awaitHeadPolls(2)
	n.dir = o.dir
	n.start(o.head)
}

// chainIDs are the networks that the node stands for, by the path under which the program asks it.
// Under another path the node answers with the id of its own network.
var chainIDs = map[string]int{"ethereum": 1, "polygon": 137, "arbitrum": 42161, "base": 8453, "optimism": 10}

// proxyRequest forwards a request to the node.
func (n *node) proxyRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n.mu.Lock()
	url := n.url
	n.mu.Unlock()
	if err != nil || url == "" {
		n.countCall(body)
		http.Error(w, "no node here", http.StatusServiceUnavailable)
		return
	}
	if id, named := chainIDs[strings.TrimPrefix(r.URL.Path, "/")]; named && bytes.Contains(body, []byte(`"eth_chainId"`)) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":"0x%x"}`, id)
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
	n.countCall(body)
}

func (n *node) countCall(body []byte) {
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
	case "eth_chainId": // precedes the head at the start and after a fault
		n.calls["head"]++
	case "eth_getBlockByNumber":
		if string(asked.Params[0]) == `"latest"` {
			n.calls["head"]++
		}
	case "eth_getLogs":
		var filter struct{ Topics []json.RawMessage }
		var to []string
		if json.Unmarshal(asked.Params[0], &filter) == nil && len(filter.Topics) == 3 &&
			json.Unmarshal(filter.Topics[2], &to) == nil {
			n.recipients = len(to)
		}
	}
}

// watchedAddresses is the number of addresses in the last query for logs.
func (n *node) watchedAddresses() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.recipients
}

func (n *node) callCount(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// awaitHeadPolls waits for so many more polls of the head: all but the last have then ended.
func (n *node) awaitHeadPolls(times int) {
	n.t.Helper()
	until := n.callCount("head") + times
	await(n.t, "the next look at the chain", func() bool { return n.callCount("head") >= until })
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

// fork removes the newest depth blocks. Their transactions are pending again.
func (n *node) fork(depth uint64) {
	n.t.Helper()
	number := new(big.Int).SetUint64(n.head().Number.Uint64() - depth)
	h, err := n.backend.Client().HeaderByNumber(context.Background(), number)
	require.NoError(n.t, err)
	require.NoError(n.t, n.backend.Fork(h.Hash()))
}

// encodeTransfer is the call transfer(to, units) of a token.
func encodeTransfer(to common.Address, units int64) []byte {
	return encodeCall("transfer(address,uint256)", to.Bytes(), big.NewInt(units).Bytes())
}

func encodeCall(signature string, arguments ...[]byte) []byte {
	data := crypto.Keccak256([]byte(signature))[:4]
	for _, a := range arguments {
		data = append(data, common.LeftPadBytes(a, 32)...)
	}
	return data
}

// send sends a transaction of the customer, which the next mined block includes.
func (n *node) send(to common.Address, wei *big.Int, data []byte) *types.Transaction {
	n.t.Helper()
	nonce, err := n.backend.Client().PendingNonceAt(context.Background(), n.payer())
	require.NoError(n.t, err)
	return n.signAndSend(n.customer, &types.DynamicFeeTx{Nonce: nonce, GasTipCap: big.NewInt(tipWei),
		GasFeeCap: big.NewInt(feeCapWei),
		To:        &to, Value: wei, Data: data})
}

// replaceTransaction reuses the nonce for an empty transaction with a higher fee, so that the node
// drops tx. After a fork it first waits until tx is pending again; until then its nonce counts as
// used.
func (n *node) replaceTransaction(tx *types.Transaction) {
	n.t.Helper()
	await(n.t, "the transaction is to be mined again", func() bool {
		_, pending, err := n.backend.Client().TransactionByHash(context.Background(), tx.Hash())
		return err == nil && pending
	})
	to := n.payer()
	n.signAndSend(n.customer, &types.DynamicFeeTx{Nonce: tx.Nonce(), GasTipCap: big.NewInt(3 * tipWei),
		GasFeeCap: big.NewInt(3 * feeCapWei), To: &to})
}

// sendCompeting sends a call of USDC by another account with a fee that makes it the first of its
// block.
func (n *node) sendCompeting(data []byte) {
	n.t.Helper()
	n.signAndSend(n.competitor, &types.DynamicFeeTx{GasTipCap: big.NewInt(10 * tipWei),
		GasFeeCap: big.NewInt(feeCapWei), To: &usdc, Data: data})
}

// signAndSend sends a transaction and waits until the node counts its nonce, which the sender's
// next one needs.
func (n *node) signAndSend(key *ecdsa.PrivateKey, fields *types.DynamicFeeTx) *types.Transaction {
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

// blockOf is the block of a transaction.
func (n *node) blockOf(tx *types.Transaction) common.Hash { return n.receipt(tx).BlockHash }

// receipt is the receipt of a transaction, which must have succeeded.
func (n *node) receipt(tx *types.Transaction) *types.Receipt {
	n.t.Helper()
	receipt, err := n.backend.Client().TransactionReceipt(context.Background(), tx.Hash())
	require.NoError(n.t, err)
	require.Equal(n.t, types.ReceiptStatusSuccessful, receipt.Status)
	return receipt
}
