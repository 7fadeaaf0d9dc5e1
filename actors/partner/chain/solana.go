package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"purser/actors/partner"
)

// finalized is the only commitment used: a finalized block is not taken back.
const finalized = "finalized"

// Codes of a slot without a block: it was skipped, it was cleaned up, or it is not available yet.
const (
	codeSlotSkipped  = -32007
	codeSlotMissing  = -32009
	codeNotAvailable = -32004
)

// solana is a Solana node. A block's number is its slot; an empty slot has no block. It is not safe
// for concurrent use.
type solana struct {
	Network
	rpc    *rpcClient
	blocks *blockCache // by slot: finalized blocks stay
}

// Name is the network's name.
func (s *solana) Name() string { return s.Network.Name }

// Threshold is the network's threshold.
func (s *solana) Threshold() int { return s.Network.Threshold }

// Span is the network's span.
func (s *solana) Span() int { return s.Network.Span }

type solanaBlock struct {
	Blockhash         string
	PreviousBlockhash string
	BlockTime         *int64
	Transactions      []struct {
		Transaction struct{ Signatures []string }
		Meta        *struct {
			Err               any
			PreTokenBalances  []tokenBalance
			PostTokenBalances []tokenBalance
		}
	}
}

type tokenBalance struct {
	AccountIndex int
	Mint, Owner  string
	Amount       struct{ Amount string } `json:"uiTokenAmount"`
}

// blockTime is the time of the block; zero when the node gives none.
func (b *solanaBlock) blockTime() (time.Time, error) {
	if b.BlockTime == nil {
		return time.Time{}, nil
	}
	return parseBlockTime(*b.BlockTime)
}

// Head is the newest finalized block.
func (s *solana) Head(ctx context.Context) (partner.Head, error) {
	var slot uint64
	if err := s.rpc.callMethod(ctx, &slot, "getSlot", map[string]any{"commitment": finalized}); err != nil {
		return partner.Head{}, err
	}
	return s.Block(ctx, slot)
}

// Block implements partner.Chain. The number is the slot. The hash of an empty slot is made from
// its number, because a finalized slot stays empty.
func (s *solana) Block(ctx context.Context, slot uint64) (partner.Head, error) {
	b, err := s.fetchBlock(ctx, slot, "none")
	if err != nil {
		return partner.Head{}, err
	}
	h := partner.Head{Number: slot, Hash: b.Blockhash}
	if b.Blockhash == "" {
		h.Hash = fmt.Sprintf("empty slot %d", slot)
	}
	h.At, err = b.blockTime()
	return h, err
}

func (s *solana) fetchBlock(ctx context.Context, slot uint64, details string) (b solanaBlock, err error) {
	err = s.rpc.callMethod(ctx, &b, "getBlock", slot, map[string]any{"commitment": finalized, "encoding": "json",
		"transactionDetails": details, "maxSupportedTransactionVersion": 0, "rewards": false})
	if refused, ok := errors.AsType[*rpcError](err); ok {
		switch refused.Code {
		case codeSlotSkipped, codeSlotMissing:
			return solanaBlock{}, nil
		case codeNotAvailable:
			return solanaBlock{}, partner.ErrNoBlock
		}
	}
	if err == nil && b.Blockhash == "" {
		err = partner.ErrNoBlock
	}
	return b, err
}

// Transfers are the increases of token balances by transactions, in token accounts that the
// addresses own.
func (s *solana) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation,
	err error) {
	var slots []uint64
	if err := s.rpc.callMethod(ctx, &slots, "getBlocks", from, through,
		map[string]any{"commitment": finalized}); err != nil {
		return nil, err
	}
	to := addressSet(addresses)
	for i, slot := range slots {
		if slot < from || slot > through || i > 0 && slot <= slots[i-1] {
			return nil, errors.New("getBlocks: slots outside the query")
		}
		one, err := s.readBlock(ctx, slot)
		if err != nil {
			return nil, fmt.Errorf("getBlock %d: %w", slot, err)
		}
		for _, o := range one.transfers {
			if to[o.Address] {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

func (s *solana) readBlock(ctx context.Context, slot uint64) (one cachedBlock, err error) {
	key := fmt.Sprint(slot)
	if one, known := s.blocks.byKey[key]; known {
		return one, nil
	}
	b, err := s.fetchBlock(ctx, slot, "full")
	if err != nil {
		return one, err
	}
	if one.transfers, err = s.parseTransfers(slot, b); err == nil {
		s.blocks.addBlock(key, one)
	}
	return one, err
}

func (s *solana) parseTransfers(slot uint64, b solanaBlock) (found []partner.Observation, err error) {
	at, err := b.blockTime()
	if err != nil {
		return nil, err
	}
	for _, t := range b.Transactions {
		if t.Meta == nil || t.Meta.Err != nil || len(t.Transaction.Signatures) == 0 {
			continue
		}
		for _, after := range t.Meta.PostTokenBalances {
			asset := s.assetOf(after.Mint)
			if asset == "" {
				continue
			}
			amount, err := balanceIncrease(t.Meta.PreTokenBalances, after)
			if err != nil {
				return nil, err
			}
			if amount.Sign() <= 0 {
				continue
			}
			o := partner.Observation{Chain: s.Network.Name, Asset: asset, Address: after.Owner,
				TxHash: t.Transaction.Signatures[0], Index: after.AccountIndex, Amount: amount.String(), Block: slot,
				BlockHash: b.Blockhash, At: at,
				From: payerOf(t.Meta.PreTokenBalances, t.Meta.PostTokenBalances, after.Mint)}
			if err := checkPosition(&o); err != nil {
				return nil, err
			}
			found = append(found, o)
		}
	}
	return found, nil
}

// assetOf is the name of a mint; "" for an unknown one.
func (s *solana) assetOf(mint string) string {
	for name, known := range s.Tokens {
		if known == mint {
			return name
		}
	}
	return ""
}

func balanceIncrease(before []tokenBalance, after tokenBalance) (*big.Int, error) {
	amount, err := parseSmallestUnits(after.Amount.Amount, 0)
	if err != nil {
		return nil, err
	}
	for _, b := range before {
		if b.AccountIndex == after.AccountIndex && b.Mint == after.Mint {
			had, err := parseSmallestUnits(b.Amount.Amount, 0)
			if err != nil {
				return nil, err
			}
			amount.Sub(amount, had)
		}
	}
	return amount, nil
}

// payerOf is the owner of the first account whose balance of a mint decreased; "" when there is
// none.
func payerOf(before, after []tokenBalance, mint string) string {
	for _, b := range before {
		if b.Mint != mint {
			continue
		}
		left := tokenBalance{AccountIndex: b.AccountIndex, Mint: mint}
		left.Amount.Amount = "0"
		for _, a := range after {
			if a.AccountIndex == b.AccountIndex {
				left = a
			}
		}
		if less, err := balanceIncrease(before, left); err == nil && less.Sign() < 0 {
			return b.Owner
		}
	}
	return ""
}
