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
	// codeNoHeight is bitcoind's RPC_INVALID_PARAMETER: the height is beyond its head.
	codeNoHeight = -8
)

// bitcoin is a bitcoind node. It needs no wallet and no transaction index. It is not safe for
// concurrent use.
type bitcoin struct {
	Network
	rpc    *rpcClient
	blocks *blockCache
}

// Name is the network's name.
func (b *bitcoin) Name() string { return b.Network.Name }

// Threshold is the network's threshold.
func (b *bitcoin) Threshold() int { return b.Network.Threshold }

// Span is the network's span.
func (b *bitcoin) Span() int { return b.Network.Span }

// Head is the newest block.
func (b *bitcoin) Head(ctx context.Context) (partner.Head, error) {
	var hash string
	if err := b.rpc.callMethod(ctx, &hash, "getbestblockhash"); err != nil {
		return partner.Head{}, err
	}
	return b.readHeader(ctx, hash)
}

// Block implements partner.Chain. The number is the height. When the chain changes during the call,
// the error is errChainChanged.
func (b *bitcoin) Block(ctx context.Context, n uint64) (partner.Head, error) {
	var hash string
	err := b.rpc.callMethod(ctx, &hash, "getblockhash", n)
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.Code == codeNoHeight {
		return partner.Head{}, partner.ErrNoBlock
	}
	if err != nil {
		return partner.Head{}, err
	}
	h, err := b.readHeader(ctx, hash)
	if err == nil && h.Number != n {
		err = errChainChanged
	}
	return h, err
}

func (b *bitcoin) readHeader(ctx context.Context, hash string) (partner.Head, error) {
	var h struct {
		Hash   string
		Height uint64
		Time   int64
	}
	if err := b.rpc.callMethod(ctx, &h, "getblockheader", hash, true); err != nil {
		return partner.Head{}, err
	}
	if h.Hash == "" || h.Hash != hash {
		return partner.Head{}, errors.New("getblockheader: the header of another block")
	}
	at, err := parseBlockTime(h.Time)
	return partner.Head{Number: h.Height, Hash: h.Hash, At: at}, err
}

// Transfers are the outputs that pay to an address. Blocks are read whole, once each, from the
// newest back.
func (b *bitcoin) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation,
	err error) {
	to := addressSet(addresses)
	newest, err := b.Block(ctx, through)
	if err != nil {
		return nil, err
	}
	for n, hash := through, newest.Hash; n >= from && n > 0; n-- {
		one, err := b.readBlock(ctx, n, hash)
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

func (b *bitcoin) readBlock(ctx context.Context, n uint64, hash string) (cachedBlock, error) {
	if one, known := b.blocks.byKey[hash]; known {
		return one, nil
	}
	var read bitcoinBlock
	if err := b.rpc.callMethod(ctx, &read, "getblock", hash, 2); err != nil {
		return cachedBlock{}, err
	}
	if read.Hash != hash || read.Height != n {
		return cachedBlock{}, errChainChanged
	}
	at, err := parseBlockTime(read.Time)
	if err != nil {
		return cachedBlock{}, fmt.Errorf("getblock: %w", err)
	}
	one := cachedBlock{parent: read.Previous}
	for _, tx := range read.Tx {
		for _, out := range tx.Vout {
			satoshi, err := parseSmallestUnits(out.Value.String(), bitcoinDecimals)
			if err != nil {
				return cachedBlock{}, fmt.Errorf("getblock: %w", err)
			}
			if out.Script.Address == "" || satoshi.Sign() == 0 {
				continue
			}
			o := partner.Observation{Chain: b.Network.Name, Asset: "BTC", Address: out.Script.Address,
				TxHash: tx.TxID, Index: out.N,
				Amount: satoshi.String(), Block: n, BlockHash: hash, At: at}
			if err := checkPosition(&o); err != nil {
				return cachedBlock{}, fmt.Errorf("getblock: %w", err)
			}
			one.transfers = append(one.transfers, o)
		}
	}
	b.blocks.addBlock(hash, one)
	return one, nil
}

// parseSmallestUnits converts a decimal number of whole coins to smallest units, exactly.
func parseSmallestUnits(text string, decimals int) (*big.Int, error) {
	// A short text can have a million digits: 1e1000000. bitcoind writes small amounts as 1e-8.
	if _, exponent, scaled := strings.Cut(strings.ToLower(text), "e"); len(text) > 32 || strings.ContainsAny(text,
		"/_xXpP+") ||
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
