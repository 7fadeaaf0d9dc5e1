package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"purser/actors/partner"
)

const (
	bitcoinDecimals = 8
	// codeNoHeight is bitcoind's RPC_INVALID_PARAMETER: the height is past its head.
	codeNoHeight = -8
)

// bitcoin is bitcoind. It needs no wallet and no transaction index. It is not safe for concurrent use.
type bitcoin struct {
	Network
	rpc    *rpcClient
	blocks *blocks
}

// Name is the network's.
func (b *bitcoin) Name() string { return b.Network.Name }

// Threshold is the network's.
func (b *bitcoin) Threshold() int { return b.Network.Threshold }

// Span is the network's.
func (b *bitcoin) Span() int { return b.Network.Span }

// Head is the newest block.
func (b *bitcoin) Head(ctx context.Context) (partner.Head, error) {
	var hash string
	if err := b.rpc.call(ctx, &hash, "getbestblockhash"); err != nil {
		return partner.Head{}, err
	}
	return b.header(ctx, hash)
}

// Block is a block by its height.
func (b *bitcoin) Block(ctx context.Context, n uint64) (partner.Head, error) {
	var hash string
	err := b.rpc.call(ctx, &hash, "getblockhash", n)
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.Code == codeNoHeight {
		return partner.Head{}, partner.ErrNoBlock
	}
	if err != nil {
		return partner.Head{}, err
	}
	h, err := b.header(ctx, hash)
	if err == nil && h.Number != n {
		err = errMoved
	}
	return h, err
}

func (b *bitcoin) header(ctx context.Context, hash string) (partner.Head, error) {
	var h struct {
		Hash   string
		Height uint64
		Time   int64
	}
	if err := b.rpc.call(ctx, &h, "getblockheader", hash, true); err != nil {
		return partner.Head{}, err
	}
	if h.Hash == "" || h.Hash != hash {
		return partner.Head{}, errors.New("getblockheader: it is another block's")
	}
	at, err := madeAt(h.Time)
	return partner.Head{Number: h.Height, Hash: h.Hash, At: at}, err
}

// Transfers are the outputs that pay to an address. Blocks are read whole, once each, back from the newest.
func (b *bitcoin) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation,
	err error) {
	to := set(addresses)
	newest, err := b.Block(ctx, through)
	if err != nil {
		return nil, err
	}
	for n, hash := through, newest.Hash; n >= from && n > 0; n-- {
		one, err := b.whole(ctx, n, hash)
		if err != nil {
			return nil, err
		}
		for _, o := range slices.Backward(one.transfers) {
			if to[o.Address] {
				found = append(found, o)
			}
		}
		hash = one.parent
	}
	slices.Reverse(found)
	return found, nil
}

type bitcoinBlock struct {
	Hash     string
	Previous string `json:"previousblockhash"`
	Height   uint64
	Time     int64
	Tx       []struct {
		TxID string
		Vout []struct {
			Value  json.Number
			N      int
			Script struct{ Address string } `json:"scriptPubKey"`
		}
	}
}

func (b *bitcoin) whole(ctx context.Context, n uint64, hash string) (block, error) {
	if one, known := b.blocks.byKey[hash]; known {
		return one, nil
	}
	var read bitcoinBlock
	if err := b.rpc.call(ctx, &read, "getblock", hash, 2); err != nil {
		return block{}, err
	}
	if read.Hash != hash || read.Height != n {
		return block{}, errMoved
	}
	at, err := madeAt(read.Time)
	if err != nil {
		return block{}, fmt.Errorf("getblock: %w", err)
	}
	one := block{parent: read.Previous}
	for _, tx := range read.Tx {
		for _, out := range tx.Vout {
			satoshi, err := smallest(out.Value.String(), bitcoinDecimals)
			if err != nil {
				return block{}, fmt.Errorf("getblock: %w", err)
			}
			if out.Script.Address == "" || satoshi.Sign() == 0 {
				continue
			}
			o := partner.Observation{Chain: b.Network.Name, Asset: "BTC", Address: out.Script.Address, TxHash: tx.TxID, Index: out.N,
				Amount: satoshi.String(), Block: n, BlockHash: hash, At: at}
			if err := placed(&o); err != nil {
				return block{}, fmt.Errorf("getblock: %w", err)
			}
			one.transfers = append(one.transfers, o)
		}
	}
	b.blocks.keep(hash, one)
	return one, nil
}

// smallest reads a decimal number of whole coins as one of smallest units, exactly.
func smallest(text string, decimals int) (*big.Int, error) {
	// A number of a few characters can have a million digits: 1e1000000. bitcoind writes the smallest ones as 1e-8.
	if _, exponent, scaled := strings.Cut(strings.ToLower(text), "e"); len(text) > 32 || strings.ContainsAny(text, "/_xXpP+") ||
		scaled && len(strings.TrimLeft(exponent, "-0")) > 1 {
		return nil, fmt.Errorf("%.20q is not an amount", text)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%.20q is not an amount", text)
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)))
	if !r.IsInt() || r.Sign() < 0 {
		return nil, fmt.Errorf("%.20q is not an amount of %d decimals", text, decimals)
	}
	return r.Num(), nil
}
