package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"purser/actors/partner"
)

// finalized is the only commitment that is asked about: what has it is not taken back.
const finalized = "finalized"

// Codes with which a node says that a slot has no block: it was left empty, is cleaned up, or is not there yet.
const (
	codeSlotSkipped  = -32007
	codeSlotMissing  = -32009
	codeNotAvailable = -32004
)

// solana is a Solana node. A block's number is its slot; a slot without a block stands for the one before it.
type solana struct {
	Network
	rpc    *rpcClient
	blocks *blocks // by slot: what is finalized stays
}

// Name is the network's.
func (s *solana) Name() string { return s.Network.Name }

// Threshold is the network's.
func (s *solana) Threshold() int { return s.Network.Threshold }

// Span is the network's.
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

// madeAt is when the block was made; zero where the node does not say.
func (b *solanaBlock) madeAt() (time.Time, error) {
	if b.BlockTime == nil {
		return time.Time{}, nil
	}
	return madeAt(*b.BlockTime)
}

// Head is the newest finalized block.
func (s *solana) Head(ctx context.Context) (partner.Head, error) {
	var slot uint64
	if err := s.rpc.call(ctx, &slot, "getSlot", map[string]any{"commitment": finalized}); err != nil {
		return partner.Head{}, err
	}
	return s.Block(ctx, slot)
}

// Block is what is at a slot. An empty one is named for itself: nothing can be in it, and nothing will.
func (s *solana) Block(ctx context.Context, slot uint64) (partner.Head, error) {
	b, err := s.read(ctx, slot, "none")
	if err != nil {
		return partner.Head{}, err
	}
	h := partner.Head{Number: slot, Hash: b.Blockhash}
	if b.Blockhash == "" {
		h.Hash = fmt.Sprintf("empty slot %d", slot)
	}
	h.At, err = b.madeAt()
	return h, err
}

func (s *solana) read(ctx context.Context, slot uint64, details string) (b solanaBlock, err error) {
	err = s.rpc.call(ctx, &b, "getBlock", slot, map[string]any{"commitment": finalized, "encoding": "json",
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

// Transfers are what the addresses have more of a token after a transaction than before it, by the token accounts they own.
func (s *solana) Transfers(ctx context.Context, from, through uint64, addresses []string) (found []partner.Observation,
	err error) {
	var slots []uint64
	if err := s.rpc.call(ctx, &slots, "getBlocks", from, through, map[string]any{"commitment": finalized}); err != nil {
		return nil, err
	}
	to := set(addresses)
	for i, slot := range slots {
		if slot < from || slot > through || i > 0 && slot <= slots[i-1] {
			return nil, errors.New("getBlocks: slots that were not asked for")
		}
		one, err := s.whole(ctx, slot)
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

func (s *solana) whole(ctx context.Context, slot uint64) (one block, err error) {
	key := fmt.Sprint(slot)
	if one, known := s.blocks.byKey[key]; known {
		return one, nil
	}
	b, err := s.read(ctx, slot, "full")
	if err != nil {
		return one, err
	}
	if one.transfers, err = s.received(slot, b); err == nil {
		s.blocks.keep(key, one)
	}
	return one, err
}

func (s *solana) received(slot uint64, b solanaBlock) (found []partner.Observation, err error) {
	at, err := b.madeAt()
	if err != nil {
		return nil, err
	}
	for _, t := range b.Transactions {
		if t.Meta == nil || t.Meta.Err != nil || len(t.Transaction.Signatures) == 0 {
			continue
		}
		for _, after := range t.Meta.PostTokenBalances {
			asset := s.asset(after.Mint)
			if asset == "" {
				continue
			}
			amount, err := gained(t.Meta.PreTokenBalances, after)
			if err != nil {
				return nil, err
			}
			if amount.Sign() <= 0 {
				continue
			}
			o := partner.Observation{Chain: s.Network.Name, Asset: asset, Address: after.Owner,
				TxHash: t.Transaction.Signatures[0], Index: after.AccountIndex, Amount: amount.String(), Block: slot,
				BlockHash: b.Blockhash, At: at,
				From: payer(t.Meta.PreTokenBalances, t.Meta.PostTokenBalances, after.Mint)}
			if err := placed(&o); err != nil {
				return nil, err
			}
			found = append(found, o)
		}
	}
	return found, nil
}

// asset is the name of a mint, "" of one nobody asks for.
func (s *solana) asset(mint string) string {
	for name, known := range s.Tokens {
		if known == mint {
			return name
		}
	}
	return ""
}

func gained(before []tokenBalance, after tokenBalance) (*big.Int, error) {
	amount, err := smallest(after.Amount.Amount, 0)
	if err != nil {
		return nil, err
	}
	for _, b := range before {
		if b.AccountIndex == after.AccountIndex && b.Mint == after.Mint {
			had, err := smallest(b.Amount.Amount, 0)
			if err != nil {
				return nil, err
			}
			amount.Sub(amount, had)
		}
	}
	return amount, nil
}

// payer is the owner of the first account that has less of a mint than before; "" when there is none.
func payer(before, after []tokenBalance, mint string) string {
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
		if less, err := gained(before, left); err == nil && less.Sign() < 0 {
			return b.Owner
		}
	}
	return ""
}
