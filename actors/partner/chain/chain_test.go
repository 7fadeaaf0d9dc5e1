package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/partner/chain"
	"purser/actors/watch"
	"purser/actors/watch/watchtest"
)

func histories(t *testing.T) int {
	n := 100
	if text := os.Getenv("PURSER_HISTORIES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return n
}

func open(t require.TestingT, name string, threshold int, w *nodeTransport) partner.Chain {
	n := chain.Networks()[name]
	n.Threshold, n.Span = threshold, 2*threshold+20
	w.calls = make(map[string]int)
	c, err := chain.Open(n, "http://user:secret@node.test/", &http.Client{Transport: w})
	require.NoError(t, err)
	return c
}

func names(o partner.Observation) (tx, block int) {
	_, _ = fmt.Sscanf(o.TxHash, "0xa%x", &tx)
	_, _ = fmt.Sscanf(o.BlockHash, "0xb%x", &block)
	return tx, block
}

func evmAddress(n int) string { return fmt.Sprintf("0x%040X", 0xABC000+n) }

// Each kind of node runs random histories behind its own transport, and one model judges them all.
func TestRandomHistories(t *testing.T) {
	kinds := []struct {
		name       string
		answer     nodeTransport
		assets     []string
		address    func(int) string
		thresholds []int
		fixed      bool // a transfer keeps its index in each block
		finalized  bool // blocks are never replaced
	}{
		{"arbitrum", nodeTransport{answer: evmAnswer}, []string{"USDC", "USDT", "USDC.e"}, evmAddress, []int{1, 3,
			12}, false, false},
		{"bitcoin", nodeTransport{answer: bitcoinAnswer}, []string{"BTC"},
			func(n int) string { return fmt.Sprint("bc1q", n) },
			[]int{1, 2}, true, false},
		{"solana", nodeTransport{answer: solanaAnswer}, []string{"USDC", "USDT"},
			func(n int) string { return fmt.Sprint("So", n) },
			[]int{1}, true, true},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lived := 0
			for lived < histories(t) {
				rapid.Check(t, func(rt *rapid.T) {
					lived++
					threshold := rapid.SampledFrom(k.thresholds).Draw(rt, "threshold")
					history := watchtest.NewHistory(rapid.IntRange(1, 20).Draw(rt, "old blocks"))
					node := &watchtest.Node{History: history}
					depth := threshold - 1
					if k.finalized {
						depth = 0
					}
					simulation := &watchtest.Simulation{T: rt, Node: node, Assets: k.assets, Address: k.address, MaxDepth: depth,
						StableIndexes: k.fixed,
						Wire:          open(rt, k.name, threshold, &nodeTransport{node: node, answer: k.answer.answer}),
						Judge: &watchtest.Judge{T: rt, History: history, Node: node, Threshold: threshold,
							ParseNames: names}}
					simulation.Run(rapid.IntRange(1, 40).Draw(rt, "moves"))
				})
			}
		})
	}
}

// A thousand addresses cost one query for logs per new block.
func TestAThousandAddressesAreOneQuery(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(20)
		w := &nodeTransport{node: &watchtest.Node{History: history}, answer: evmAnswer}
		judge := &watchtest.Judge{T: rt, History: history, Threshold: 3, ParseNames: names}
		for n := range 1000 {
			judge.Watching = append(judge.Watching, watch.Address{Address: evmAddress(n),
				Since: history.Now().Add(time.Minute)})
		}
		watcher := watch.New(open(rt, "arbitrum", 3, w), judge)
		require.NoError(rt, watcher.Step(t.Context()))
		before := w.calls["eth_getLogs"]
		for range 5 {
			history.Mine(nil)
			require.NoError(rt, watcher.Step(t.Context()))
			require.NoError(rt, watcher.Step(t.Context()))
		}
		require.Equal(rt, 5, w.calls["eth_getLogs"]-before)
	})
}

func TestEtherIsFoundInTransactionsThatSucceeded(t *testing.T) {
	history := watchtest.NewHistory(5)
	history.Mine([]watchtest.Transfer{
		{Asset: "ETH", Address: evmAddress(1), From: evmAddress(9), Tx: 1, Amount: 5e17},
		{Asset: "ETH", Address: evmAddress(1), From: evmAddress(9), Tx: 2, Amount: 7, Index: 1}, // fails
		{Asset: "ETH", Address: evmAddress(2), From: evmAddress(9), Tx: 3, Amount: 7},           // unwatched
	})
	history.Mine(nil)
	w := &nodeTransport{node: &watchtest.Node{History: history}, answer: evmAnswer}
	c := open(t, "ethereum", 3, w)
	for range 2 {
		found, err := c.Transfers(t.Context(), 1, 7, []string{evmAddress(1)})
		require.NoError(t, err)
		require.Len(t, found, 1)
		o := found[0]
		require.Equal(t, []any{"ETH", "500000000000000000", evmAddress(1), uint64(6)},
			[]any{o.Asset, o.Amount, o.Address, o.Block})
		require.Equal(t, history.Chain[5].At.Unix(), o.At.Unix())
	}
	require.Equal(t, 7, w.calls["eth_getBlockByHash"], "each block is read once")
	require.Equal(t, 2, w.calls["eth_getTransactionReceipt"], "and each receipt")
}

// Receipts that were read before a step ended early are not asked for again.
func TestReceiptsOfAnAbortedStepAreKept(t *testing.T) {
	const payments = 250
	var all []watchtest.Transfer
	for tx := range payments {
		all = append(all, watchtest.Transfer{Asset: "ETH", Address: evmAddress(1), From: evmAddress(9), Tx: tx + 1, Amount: 1})
	}
	history := watchtest.NewHistory(5)
	history.Mine(all)
	left := 150 // receipts before the node refuses
	w := &nodeTransport{node: &watchtest.Node{History: history}, answer: func(n *watchtest.Node, method string,
		params []json.RawMessage) (any, *nodeError) {
		if method == "eth_getTransactionReceipt" {
			if left--; left < 0 {
				return nil, &nodeError{-32005, "limit exceeded"}
			}
		}
		return evmAnswer(n, method, params)
	}}
	c := open(t, "ethereum", 3, w)
	_, err := c.Transfers(t.Context(), 1, 6, []string{evmAddress(1)})
	require.ErrorContains(t, err, "limit exceeded")
	left = payments - 100 // the first batch is known
	found, err := c.Transfers(t.Context(), 1, 6, []string{evmAddress(1)})
	require.NoError(t, err)
	require.Len(t, found, payments)
}

// A node that limits its answers to ten logs is asked for less at once. Too many transfers to one
// address in one block hide no payment to another: they are an error some times, and then left out.
func TestTransfersToOneAddressHideNoOther(t *testing.T) {
	const limit = 10
	history := watchtest.NewHistory(5)
	pay := func(n int, address, tx int) (all []watchtest.Transfer) {
		for i := range n {
			all = append(all, watchtest.Transfer{Asset: "USDC", Address: evmAddress(address), From: evmAddress(99), Tx: tx + i,
				Index: tx + i, Amount: 5})
		}
		return all
	}
	for n := range 4 {
		history.Mine(pay(limit-1, 1, 100*n+1)) // together more than one answer has
	}
	w := &nodeTransport{node: &watchtest.Node{History: history}, answer: func(n *watchtest.Node, method string,
		params []json.RawMessage) (any, *nodeError) {
		result, refused := evmAnswer(n, method, params)
		if logs, ok := result.([]any); ok && method == "eth_getLogs" && len(logs) > limit {
			return nil, &nodeError{-32005, "query returned more than 10 results"}
		}
		return result, refused
	}}
	c := open(t, "arbitrum", 3, w)
	addresses := []string{evmAddress(1), evmAddress(2), evmAddress(3)}
	found, err := c.Transfers(t.Context(), 1, 9, addresses)
	require.NoError(t, err)
	require.Len(t, found, 4*(limit-1))
	history.Mine(append(pay(3*limit, 1, 1001), pay(1, 3, 2001)...))
	for range 8 {
		_, err = c.Transfers(t.Context(), 1, 10, addresses)
		require.ErrorContains(t, err, "in block 10: eth_getLogs")
	}
	found, err = c.Transfers(t.Context(), 1, 10, addresses)
	require.NoError(t, err)
	require.Len(t, found, 4*(limit-1)+1)
	require.Equal(t, addresses[2], found[len(found)-1].Address)
}

// A node that refuses every query is an error for as long as it does.
func TestRefusalOfEveryQueryLeavesNothingOut(t *testing.T) {
	history := watchtest.NewHistory(5)
	history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: evmAddress(1), From: evmAddress(2), Tx: 1, Amount: 5}})
	w := &nodeTransport{node: &watchtest.Node{History: history}, answer: func(n *watchtest.Node, method string,
		params []json.RawMessage) (any, *nodeError) {
		if method == "eth_getLogs" {
			return nil, &nodeError{-32005, "limit exceeded"}
		}
		return evmAnswer(n, method, params)
	}}
	c := open(t, "arbitrum", 3, w)
	for range 30 {
		_, err := c.Transfers(t.Context(), 1, 6, []string{evmAddress(1)})
		require.ErrorContains(t, err, "limit exceeded")
	}
}

// fixedAnswers is a node of the right network with one fixed answer for every other method.
type fixedAnswers struct {
	status int
	body   string
	asked  *http.Request
}

func (s *fixedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = r
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	identity := map[string]string{"eth_chainId": "0x1", "getblockhash": bitcoinGenesis, "getGenesisHash": solanaGenesis}
	if id, asked := identity[q.Method]; asked {
		body := fmt.Sprintf(`{"id":1,"result":%q}`, id)
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(bytes.NewReader([]byte(s.body)))}, nil
}

func TestInvalidAnswersOfANodeAreRefused(t *testing.T) {
	for _, c := range []struct {
		network, body string
		status        int
		want          string
	}{
		{"ethereum", "", 200, "not JSON-RPC"},
		{"ethereum", "bad gateway", 502, "HTTP 502"},
		{"ethereum", `{"id":1}`, 200, "neither a result nor an error"},
		{"ethereum", `{"id":1,"error":{"code":-32000,"message":"transaction indexing is in progress"}}`, 200,
			"indexing is in progress"},
		{"ethereum", `{"id":1,"result":null}`, 200, "no such block"},
		{"ethereum", `{"id":1,"result":{"number":"12","hash":"0x1","timestamp":"0x1"}}`, 200, "not a quantity"},
		{"ethereum", `{"id":1,"result":{"number":"0x1ffffffffffffffff","hash":"0x1","timestamp":"0x1"}}`, 200,
			"64 bits"},
		{"bitcoin", `{"id":1,"result":"h","error":null}`, 200, "getblockheader"},
		{"bitcoin", `{"id":1,"result":null,"error":{"code":-28,"message":"Loading block index"}}`, 500,
			"Loading block index"},
		{"solana", `{"id":1,"result":"7"}`, 200, "getSlot"},
	} {
		node := &fixedAnswers{status: c.status, body: c.body}
		opened, err := chain.Open(chain.Networks()[c.network], "http://user:secret@node.test/key",
			&http.Client{Transport: node})
		require.NoError(t, err)
		_, err = opened.Head(t.Context())
		require.ErrorContains(t, err, c.want, c.body)
		require.NotContains(t, err.Error(), "secret")
		user, password, _ := node.asked.BasicAuth()
		require.Equal(t, "user/secret", user+"/"+password)
	}
}

// A node of another network is refused by name before any of its blocks is believed, and asked again
// after a failed Head.
func TestANodeOfAnotherNetworkIsRefused(t *testing.T) {
	for _, c := range []struct {
		network, method, other string
		answer                 func(*watchtest.Node, string, []json.RawMessage) (any, *nodeError)
	}{
		{"arbitrum", "eth_chainId", "0xaa36a7", evmAnswer},
		{"bitcoin", "getblockhash", "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943", bitcoinAnswer},
		{"solana", "getGenesisHash", "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", solanaAnswer},
	} {
		other := true
		node := &watchtest.Node{History: watchtest.NewHistory(5)}
		w := &nodeTransport{node: node, answer: func(n *watchtest.Node, method string,
			params []json.RawMessage) (any, *nodeError) {
			if other && method == c.method && (c.network != "bitcoin" || parameter[int](params, 0) == 0) {
				return c.other, nil
			}
			return c.answer(n, method, params)
		}}
		opened := open(t, c.network, 1, w)
		_, err := opened.Head(t.Context())
		require.ErrorIs(t, err, chain.ErrOtherNetwork)
		require.Equal(t, map[string]int{c.method: 1}, w.calls, "no block is asked for")
		other = false
		head, err := opened.Head(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(5), head.Number)
		other = true
		_, err = opened.Head(t.Context())
		require.NoError(t, err, "it is asked once")
		node.Fault = watchtest.Unreachable
		_, err = opened.Head(t.Context())
		require.Error(t, err)
		node.Fault = watchtest.Honest
		_, err = opened.Head(t.Context())
		require.ErrorIs(t, err, chain.ErrOtherNetwork, "another node may answer after a fault")
	}
}

func TestNetworksLeaveRoomBelowTheirThreshold(t *testing.T) {
	for name, n := range chain.Networks() {
		require.Greater(t, n.Span, 2*n.Threshold+8, name)
	}
	for _, bad := range []string{"", "ftp://node", "http://", "::"} {
		_, err := chain.Open(chain.Networks()["base"], bad, nil)
		require.Error(t, err, bad)
	}
	_, err := chain.Open(chain.Network{Name: "dogecoin"}, "http://node.test", nil)
	require.Error(t, err)
}
