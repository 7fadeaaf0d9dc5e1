package chain_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/chain"
)

// answerFactor bounds the memory allocated in all for an answer, in multiples of its bytes.
const answerFactor = 8

// rawNode answers each method with its text. A method without one gets null.
type rawNode map[string]string

func (n rawNode) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var q request
	answer := n["batch"]
	if json.Unmarshal(text, &q) == nil {
		result := n[q.Method]
		if result == "" {
			result = "null"
		}
		answer = `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

func listOf(element string, bytes int) string {
	return `[` + strings.Repeat(element+`,`, bytes/(len(element)+1)) + element + `]`
}

// bombs are answers whose bytes are within the limit and whose elements are not.
func bombs(size int) map[string]struct {
	network string
	node    rawNode
} {
	const evmBlockHead = `{"number":"0x7","hash":"0xb7","parentHash":"0xb6","timestamp":"0x65","transactions":`
	const bitcoinHead = `{"hash":"b7","height":7,"time":1700000000,"previousblockhash":"b6","tx":`
	const solanaHead = `{"blockhash":"b7","blockTime":1700000000,"transactions":`
	evmNode := func(transactions string) rawNode {
		return rawNode{"eth_getBlockByNumber": evmBlockHead + `[]}`, "eth_getBlockByHash": evmBlockHead + transactions + `}`,
			"eth_getLogs": `[]`}
	}
	bitcoinNode := func(tx string) rawNode {
		return rawNode{"getblockhash": `"b7"`, "getblockheader": bitcoinHead + `[]}`, "getblock": bitcoinHead + tx + `}`}
	}
	solanaNode := func(transactions string) rawNode {
		return rawNode{"getBlocks": `[7]`, "getBlock": solanaHead + transactions + `}`}
	}
	receipts := evmNode(`[{"hash":"0xa1","from":"0x2","to":"` + evmAddress(1) + `","value":"0x1"}]`)
	receipts["batch"] = listOf(`{}`, size)
	return map[string]struct {
		network string
		node    rawNode
	}{
		"logs":          {"polygon", rawNode{"eth_getLogs": listOf(`{}`, size)}},
		"null logs":     {"polygon", rawNode{"eth_getLogs": listOf(`null`, size)}},
		"topics":        {"polygon", rawNode{"eth_getLogs": `[{"topics":` + listOf(`""`, size) + `}]`}},
		"transactions":  {"ethereum", evmNode(listOf(`{}`, size))},
		"paid nothing":  {"ethereum", evmNode(listOf(`{"value":"0x0"}`, size))},
		"batch":         {"ethereum", receipts},
		"bitcoin txs":   {"bitcoin", bitcoinNode(listOf(`{}`, size))},
		"outputs":       {"bitcoin", bitcoinNode(`[{"txid":"a1","vout":` + listOf(`{}`, size) + `}]`)},
		"free outputs":  {"bitcoin", bitcoinNode(`[{"txid":"a1","vout":` + listOf(`{"value":0}`, size) + `}]`)},
		"slots":         {"solana", rawNode{"getBlocks": listOf(`7`, size)}},
		"solana txs":    {"solana", solanaNode(listOf(`{}`, size))},
		"signatures":    {"solana", solanaNode(`[{"transaction":{"signatures":` + listOf(`""`, size) + `}}]`)},
		"balances":      {"solana", solanaNode(`[{"transaction":{"signatures":["a"]},"meta":{"preTokenBalances":` + listOf(`{}`, size) + `}}]`)},
		"mint balances": {"solana", solanaNode(`[{"transaction":{"signatures":["a"]},"meta":{"preTokenBalances":` + listOf(`{"mint":"m"}`, size) + `}}]`)},
		"error":         {"solana", solanaNode(`[{"meta":{"err":` + listOf(`[]`, size) + `}}]`)},
	}
}

// A list of worthless elements in an answer is refused, and the whole answer costs a small multiple
// of its bytes.
func TestListsOfWorthlessElementsAreRefusedInBoundedMemory(t *testing.T) {
	const size = 16 << 20
	for name, bomb := range bombs(size) {
		t.Run(name, func(t *testing.T) {
			c, err := chain.Open(chain.Networks()[bomb.network], "http://node.test", &http.Client{Transport: bomb.node})
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = c.Transfers(t.Context(), 7, 7, []string{evmAddress(1)})
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes allocated for %d: %v", allocated, size, err)
			require.Less(t, allocated, uint64(answerFactor*size))
		})
	}
}

// The largest answer of logs that an honest node gives is taken whole: a hundred thousand
// transfers. One more than the limit is a refusal for length, after which the watcher's query is
// divided.
func TestTheLargestHonestAnswerIsTaken(t *testing.T) {
	log := func(block, index int) string {
		return fmt.Sprintf(`{"address":"0x3c499c542cef5e3811e1192ce70d8cc03d5c3359","topics":[%q,%q,%q],"data":"0x%064x",`+
			`"blockNumber":"0x%x","blockHash":%q,"transactionHash":"0x%064x","logIndex":"0x%x","removed":false}`,
			"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", fmt.Sprintf("0x%064x", 12),
			"0x000000000000000000000000"+strings.ToLower(evmAddress(1)[2:]), 1, block, hash32("b", block), index, index)
	}
	var asked []string
	node := nodeFunc(func(q request) string {
		if q.Method != "eth_getLogs" {
			n := parameter[string](q.Params, 0)
			var number int
			_, _ = fmt.Sscanf(n, "0x%x", &number)
			return fmt.Sprintf(`{"number":%q,"hash":%q,"timestamp":"0x65"}`, n, hash32("b", number))
		}
		filter := parameter[struct{ FromBlock, ToBlock string }](q.Params, 0)
		asked = append(asked, filter.FromBlock+"-"+filter.ToBlock)
		var from, through int
		_, _ = fmt.Sscanf(filter.FromBlock+" "+filter.ToBlock, "0x%x 0x%x", &from, &through)
		var all []string
		for block := from; block <= through; block++ {
			for i := range 45_000 {
				all = append(all, log(block, i))
			}
		}
		return `[` + strings.Join(all, ",") + `]`
	})
	c, err := chain.Open(chain.Networks()["polygon"], "http://node.test", &http.Client{Transport: node})
	require.NoError(t, err)
	found, err := c.Transfers(t.Context(), 5, 6, []string{evmAddress(1)})
	require.NoError(t, err)
	require.Len(t, found, 90_000)
	require.Equal(t, []string{"0x5-0x6"}, asked)
	asked = nil
	found, err = c.Transfers(t.Context(), 5, 8, []string{evmAddress(1)})
	require.NoError(t, err)
	require.Len(t, found, 180_000)
	require.Equal(t, []string{"0x5-0x8", "0x5-0x6", "0x7-0x8"}, asked)
}

// nodeFunc is a node that answers each call with the result of a function.
type nodeFunc func(q request) string

func (n nodeFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	body := `{"jsonrpc":"2.0","id":1,"result":` + n(q) + `}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// FuzzLists gives each list of each network two elements of the input's text.
func FuzzLists(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `7`, `"0x1"`, `[]`, `{"mint":"m","accountIndex":1}`, `{"value":1e-8,"n":0}`,
		`{"txid":"a","vout":[{"value":1}]}`, `{"meta":{"err":[[]]}}`, `{"hash":"0x1","value":"0x1","to":"0x2"}`, `]`, `},{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, element string) {
		size := 2 * len(element)
		for name, bomb := range bombs(0) {
			for method, text := range bomb.node {
				bomb.node[method] = strings.NewReplacer(`[{}]`, listOf(element, size), `[null]`, listOf(element, size),
					`[""]`, listOf(element, size), `[[]]`, listOf(element, size)).Replace(text)
			}
			c, err := chain.Open(chain.Networks()[bomb.network], "http://node.test", &http.Client{Transport: bomb.node})
			require.NoError(t, err)
			var found []partner.Observation
			if found, err = c.Transfers(t.Context(), 7, 7, []string{evmAddress(1)}); err == nil {
				for _, o := range found {
					require.True(t, o.TxHash != "" && o.BlockHash != "" && o.Block == 7, "%s: %+v", name, o)
				}
			}
		}
	})
}
