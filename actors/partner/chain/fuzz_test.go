package chain_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/chain"
)

// fuzzedNode answers each method with the input's member of that name. An input that is no such
// object answers every method, byte for byte.
type fuzzedNode []byte

func (p fuzzedNode) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	said, results := []byte(p), map[string]json.RawMessage{}
	if json.Unmarshal(p, &results) == nil {
		result := func(q request) map[string]any { return map[string]any{"id": q.ID, "result": results[q.Method]} }
		var one request
		var many []request
		var out any
		if json.Unmarshal(asked, &many) == nil {
			all := make([]any, len(many))
			for i := range many {
				all[i] = result(many[i])
			}
			out = all
		} else if err := json.Unmarshal(asked, &one); err != nil {
			return nil, err
		} else {
			out = result(one)
		}
		if said, err = json.Marshal(out); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(said))}, nil
}

// fuzzChain calls every method of a chain. The node's answers may be refused; accepted ones must be
// valid.
func fuzzChain(f *testing.F, network string, addresses []string, seeds ...string) {
	for _, seed := range append(seeds, ``, `null`, `[]`, `{"id":1,"result":"0x1"}`, `[{"id":0,"result":{}}]`,
		`{"id":1,"error":{"code":-32000,"message":"transaction indexing is in progress"}}`) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		c, err := chain.Open(chain.Networks()[network], "http://node.test", &http.Client{Transport: fuzzedNode(says)})
		require.NoError(t, err)
		for _, ask := range []func() (partner.Head, error){
			func() (partner.Head, error) { return c.Head(t.Context()) },
			func() (partner.Head, error) { return c.Block(t.Context(), 7) },
		} {
			if head, err := ask(); err == nil {
				require.NotEmpty(t, head.Hash)
				_, err = json.Marshal(head.At)
				require.NoError(t, err)
			}
		}
		found, err := c.Transfers(t.Context(), 5, 7, addresses)
		if err != nil {
			return
		}
		for _, o := range found {
			_, err := json.Marshal(o)
			require.NoError(t, err)
			amount, ok := new(big.Int).SetString(o.Amount, 10)
			require.True(t, ok && amount.Sign() > 0 && len(o.Amount) < 100, "%+v", o)
			require.True(t, o.Block >= 5 && o.Block <= 7 && o.Index >= 0, "%+v", o)
			require.True(t, o.TxHash != "" && o.BlockHash != "" && slices.Contains(addresses, o.Address), "%+v", o)
		}
	})
}

func FuzzEVM(f *testing.F) {
	const receipt = `"eth_getTransactionReceipt":{"status":"0x1","blockHash":"0xb7"}`
	const block = `{"number":"0x7","hash":"0xb7","parentHash":"0xb6","timestamp":"0x65","transactions":[
		{"hash":"0xa1","from":"0x2","to":"0x0000000000000000000000000000000000ABC001","value":"0xde0b6b3a7640000"},
		{"hash":"0xa2","from":"0x2","to":null,"value":"0x0"}]}`
	const logs = `[{"address":"0xaf88d065e77c8cC2239327C5EDb3A432268e5831","topics":[
		"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
		"0x000000000000000000000000000000000000000000000000000000000000000c",
		"0x0000000000000000000000000000000000000000000000000000000000abc001"],"data":"0x17d7840","blockNumber":"0x7",
		"blockHash":"0xb7","transactionHash":"0xa3","logIndex":"0x3","removed":false}]`
	const all = `{"eth_getBlockByNumber":` + block + `,"eth_getBlockByHash":` + block + `,` + receipt +
		`,"eth_getLogs":`
	fuzzChain(f, "arbitrum", []string{evmAddress(1)}, all+logs+`}`, all+`[]}`, all+`null}`,
		strings.Replace(all, `"0x65"`, `"0xffffffffffffffff"`, 1)+logs+`}`, strings.Replace(all+logs+`}`, `"0xa1"`,
			`""`, 1))
}

func FuzzBitcoin(f *testing.F) {
	const header = `{"getbestblockhash":"b7","getblockhash":"b7","getblockheader":{"hash":"b7","height":7,"time":1700000000},"getblock":`
	fuzzChain(f, "bitcoin", []string{"bc1q1"}, header+`{"hash":"b7","height":7,"time":1700000000,"previousblockhash":"b7","tx":[{"txid":"a1","vout":[
		{"n":0,"value":0.00250000,"scriptPubKey":{"address":"bc1q1"}},{"n":1,"value":1e-8,"scriptPubKey":{}}]}]}}`, header+`null}`,
		header+`{"hash":"b7","height":7,"time":253402300800,"previousblockhash":"b7","tx":[{"txid":"","vout":[{"n":-1,"value":1e900000,"scriptPubKey":{"address":"bc1q1"}}]}]}}`)
}

func FuzzSolana(f *testing.F) {
	const mint = `"mint":"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"`
	const slots = `{"getSlot":7,"getBlocks":[5,7],"getBlock":`
	fuzzChain(f, "solana", []string{"So1"}, slots+`{"blockhash":"b7","previousBlockhash":"b6","blockTime":1700000000,"transactions":[
		{"transaction":{"signatures":["a1"]},"meta":{"err":null,"preTokenBalances":[
			{"accountIndex":1,`+mint+`,"owner":"So9","uiTokenAmount":{"amount":"9"}}],"postTokenBalances":[
			{"accountIndex":1,`+mint+`,"owner":"So9","uiTokenAmount":{"amount":"4"}},
			{"accountIndex":2,`+mint+`,"owner":"So1","uiTokenAmount":{"amount":"5"}}]}}]}}`, slots+`null}`, slots+`{"blockhash":"b7"}}`,
		slots+`{"blockhash":"b7","blockTime":253402300800,"transactions":[{"transaction":{"signatures":[""]},"meta":{"postTokenBalances":[
			{"accountIndex":-2,`+mint+`,"owner":"So1","uiTokenAmount":{"amount":"1e900000"}}]}}]}}`)
}
