package chain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"purser/actors/partner/chain"
	"purser/actors/watch/watchtest"
)

// nodeTransport is the HTTP transport of a node: it shows a watchtest.Node in the format of a real
// one.
type nodeTransport struct {
	node   *watchtest.Node
	answer func(n *watchtest.Node, method string, params []json.RawMessage) (any, *nodeError)
	calls  map[string]int
}

type nodeError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type request struct {
	ID     int
	Method string
	Params []json.RawMessage
}

// RoundTrip answers one call or one batch.
func (w *nodeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.node.Fault == watchtest.Unreachable {
		return nil, errors.New("connection refused")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var out any
	var many []request
	if json.Unmarshal(body, &many) == nil {
		all := []any{}
		for _, one := range many {
			all = append(all, w.answerCall(one))
		}
		out = all
	} else {
		var one request
		if err := json.Unmarshal(body, &one); err != nil {
			return nil, err
		}
		out = w.answerCall(one)
	}
	text, err := json.Marshal(out)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text))}, err
}

func (w *nodeTransport) answerCall(r request) any {
	w.calls[r.Method]++
	result, refused := w.answer(w.node, r.Method, r.Params)
	return map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result, "error": refused}
}

func parameter[T any](params []json.RawMessage, i int) (v T) {
	if i < len(params) {
		if err := json.Unmarshal(params[i], &v); err != nil {
			panic(err)
		}
	}
	return v
}

// contracts are the tokens of the simulated EVM network.
func contracts() map[string]string { return chain.Networks()["arbitrum"].Tokens }

func hash32(what string, n int) string { return fmt.Sprintf("0x%s%063x", what, n) }

func evmBlock(b watchtest.Block) map[string]any {
	return map[string]any{"number": fmt.Sprintf("0x%x", b.Number), "hash": hash32("b", b.Hash),
		"parentHash": hash32("b", b.Parent), "timestamp": fmt.Sprintf("0x%x", b.At.Unix()),
		"transactions": evmTransactions(b)}
}

func evmTransactions(b watchtest.Block) []any {
	all := []any{map[string]any{"hash": "0x1", "from": "0x2", "to": nil, "value": "0x0"}}
	for _, t := range b.Transfers {
		if t.Asset == "ETH" {
			all = append(all, map[string]any{"hash": hash32("a", t.Tx), "from": t.From, "to": t.Address,
				"value": fmt.Sprintf("0x%x", t.Amount)})
		}
	}
	return all
}

// evmAnswer is the answer of an EVM node.
func evmAnswer(n *watchtest.Node, method string, params []json.RawMessage) (any, *nodeError) {
	if method == "eth_chainId" {
		return fmt.Sprintf("0x%x", chain.Networks()["arbitrum"].ID), nil
	}
	view := n.Serve()
	switch method {
	case "eth_getBlockByNumber":
		tag := parameter[string](params, 0)
		at := uint64(len(view))
		if tag != "latest" {
			_, _ = fmt.Sscanf(tag, "0x%x", &at)
		}
		if at == 0 || at > uint64(len(view)) {
			return nil, nil
		}
		b := evmBlock(view[at-1])
		if tag == "latest" && n.Fault == watchtest.ClaimsUnknownHead {
			b["number"], b["hash"] = fmt.Sprintf("0x%x", at+1000), hash32("f", 1)
		}
		return b, nil
	case "eth_getBlockByHash":
		for _, b := range view {
			if hash32("b", b.Hash) == parameter[string](params, 0) {
				return evmBlock(b), nil
			}
		}
		return nil, nil
	case "eth_getLogs":
		return evmLogs(n, view, params)
	case "eth_getTransactionReceipt":
		for _, b := range view {
			for _, t := range b.Transfers {
				if hash32("a", t.Tx) == parameter[string](params, 0) {
					return map[string]any{"status": fmt.Sprintf("0x%d", 1-t.Index), "blockHash": hash32("b", b.Hash)},
						nil
				}
			}
		}
		return nil, nil
	}
	return nil, &nodeError{-32601, "the method does not exist"}
}

func evmLogs(n *watchtest.Node, view []watchtest.Block, params []json.RawMessage) (any, *nodeError) {
	type filter struct {
		FromBlock, ToBlock string
		Address            []string
		Topics             []json.RawMessage
	}
	f := parameter[filter](params, 0)
	to := parameter[[]string](f.Topics, 2)
	var from, through uint64
	_, _ = fmt.Sscanf(f.FromBlock, "0x%x", &from)
	_, _ = fmt.Sscanf(f.ToBlock, "0x%x", &through)
	logs := []any{}
	for _, b := range view {
		for _, t := range b.Transfers {
			topic := "0x000000000000000000000000" + strings.ToLower(strings.TrimPrefix(t.Address, "0x"))
			contract := strings.ToLower(contracts()[t.Asset])
			if b.Number < from || b.Number > through || !n.ServesTransfers(b) || !contains(to, topic) ||
				!contains(f.Address,
					contract) {
				continue
			}
			logs = append(logs, map[string]any{"address": contract,
				"topics": []string{string(parameter[string](f.Topics, 0)),
					"0x000000000000000000000000" + strings.TrimPrefix(t.From, "0x"), topic},
				"data":        fmt.Sprintf("0x%064x", t.Amount),
				"blockNumber": fmt.Sprintf("0x%x", b.Number), "blockHash": hash32("b", b.Hash),
				"transactionHash": hash32("a", t.Tx), "logIndex": fmt.Sprintf("0x%x", t.Index), "removed": false})
		}
	}
	return logs, nil
}

func contains(all []string, one string) bool {
	for _, a := range all {
		if a == one {
			return true
		}
	}
	return false
}

// First blocks of the real networks.
const (
	bitcoinGenesis = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
	solanaGenesis  = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
)

// bitcoinAnswer is the answer of bitcoind.
func bitcoinAnswer(n *watchtest.Node, method string, params []json.RawMessage) (any, *nodeError) {
	if method == "getblockhash" && parameter[int](params, 0) == 0 {
		return bitcoinGenesis, nil
	}
	view := n.Serve()
	find := func(hash string) *watchtest.Block {
		for _, b := range n.History.All {
			if hash32("b", b.Hash) == hash {
				return &b
			}
		}
		return nil
	}
	switch method {
	case "getbestblockhash":
		if n.Fault == watchtest.ClaimsUnknownHead {
			return hash32("f", 1), nil
		}
		return hash32("b", view[len(view)-1].Hash), nil
	case "getblockhash":
		height := parameter[int](params, 0)
		if height < 1 || height > len(view) {
			return nil, &nodeError{-8, "Block height out of range"}
		}
		return hash32("b", view[height-1].Hash), nil
	case "getblockheader", "getblock":
		b := find(parameter[string](params, 0))
		if b == nil || method == "getblock" && !n.ServesTransfers(*b) {
			return nil, &nodeError{-5, "Block not found"}
		}
		tx := []any{}
		for _, t := range b.Transfers {
			tx = append(tx, map[string]any{"txid": hash32("a", t.Tx), "vout": []any{
				map[string]any{"n": t.Index, "value": json.Number(fmt.Sprintf("%d.%08d", t.Amount/1e8, t.Amount%1e8)),
					"scriptPubKey": map[string]any{"address": t.Address}},
				map[string]any{"n": 7, "value": json.Number("0.00000000"), "scriptPubKey": map[string]any{}}}})
		}
		return map[string]any{"hash": hash32("b", b.Hash), "height": b.Number, "time": b.At.Unix(),
			"previousblockhash": hash32("b", b.Parent), "tx": tx}, nil
	}
	return nil, &nodeError{-32601, "Method not found"}
}

// solanaAnswer is the answer of a Solana node. Every seventh slot is empty unless it has payments.
func solanaAnswer(n *watchtest.Node, method string, params []json.RawMessage) (any, *nodeError) {
	if method == "getGenesisHash" {
		return solanaGenesis, nil
	}
	view := n.Serve()
	empty := func(b watchtest.Block) bool { return b.Number%7 == 0 && len(b.Transfers) == 0 }
	switch method {
	case "getSlot":
		if n.Fault == watchtest.ClaimsUnknownHead {
			return len(view) + 1000, nil
		}
		return len(view), nil
	case "getBlocks":
		slots := []uint64{}
		for _, b := range view {
			if b.Number >= parameter[uint64](params, 0) && b.Number <= parameter[uint64](params, 1) && !empty(b) &&
				n.ServesTransfers(b) {
				slots = append(slots, b.Number)
			}
		}
		return slots, nil
	case "getBlock":
		slot := parameter[int](params, 0)
		switch {
		case slot > len(view):
			return nil, &nodeError{-32004, "Block not available for slot"}
		case empty(view[slot-1]):
			return nil, &nodeError{-32007, "Slot was skipped"}
		}
		return solanaBlock(view[slot-1]), nil
	}
	return nil, &nodeError{-32601, "Method not found"}
}

func solanaBlock(b watchtest.Block) any {
	type balance map[string]any
	of := func(account int, owner, mint string, amount int64) balance {
		return balance{"accountIndex": account, "owner": owner, "mint": mint,
			"uiTokenAmount": balance{"amount": fmt.Sprint(amount)}}
	}
	txs := []any{balance{"transaction": balance{"signatures": []string{"vote"}}, "meta": balance{"err": nil}}}
	for _, t := range b.Transfers {
		mint := chain.Networks()["solana"].Tokens[t.Asset]
		txs = append(txs, balance{"transaction": balance{"signatures": []string{hash32("a", t.Tx)}},
			"meta": balance{"err": nil,
				"preTokenBalances": []balance{of(9, t.From, mint, 1e13), of(t.Index, t.Address, mint, 4)},
				"postTokenBalances": []balance{of(9, t.From, mint, 1e13-t.Amount), of(t.Index, t.Address, mint,
					4+t.Amount)}}})
		txs = append(txs, balance{"transaction": balance{"signatures": []string{"failed"}},
			"meta": balance{"err": "no funds",
				"preTokenBalances": []balance{}, "postTokenBalances": []balance{of(t.Index, t.Address, mint, 5)}}})
	}
	return balance{"blockhash": hash32("b", b.Hash), "previousBlockhash": hash32("b", b.Parent),
		"blockTime":    b.At.Unix(),
		"transactions": txs}
}
