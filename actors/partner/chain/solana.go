package chain

import (
	"bytes"
	"context"
	"encoding/json"
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
	Blockhash string
	BlockTime *int64
}

type solanaTransaction struct {
	Transaction struct{ Signatures [1]string } // the first is the transaction's name
	Meta        *struct {
		Err               present
		PreTokenBalances  balanceList
		PostTokenBalances balanceList
	}
}

// balanceList is the token balances of one transaction, at most maxBalances.
type balanceList []tokenBalance

// UnmarshalJSON fails with errTooLong beyond maxBalances, for a balance without its mint, and for
// another value than a list.
func (l *balanceList) UnmarshalJSON(text []byte) error {
	*l = nil
	return decodeWhole(bytes.NewReader(text), listOf(maxBalances, func(one *tokenBalance) error {
		if one.Mint == "" {
			return errors.New("a token balance without its mint")
		}
		*l = append(*l, *one)
		return nil
	}))
}

type tokenBalance struct {
	AccountIndex int
	Mint, Owner  string
	Amount       struct{ Amount string } `json:"uiTokenAmount"`
}

// blockTime returns the time of the block; zero when the node gives none. It fails for a time that
// no block can have.
func (b *solanaBlock) blockTime() (time.Time, error) {
	if b.BlockTime == nil {
		return time.Time{}, nil
	}
	return parseBlockTime(*b.BlockTime)
}

// Head implements partner.Chain: the newest finalized block. It fails with the node's error.
func (s *solana) Head(ctx context.Context) (partner.Head, error) {
	var slot uint64
	if err := s.rpc.callMethod(ctx, &slot, "getSlot", map[string]any{"commitment": finalized}); err != nil {
		return partner.Head{}, err
	}
	return s.Block(ctx, slot)
}

// Block implements partner.Chain. The number is the slot. The hash of an empty slot is made from
// its number, because a finalized slot stays empty. It fails with ErrNoBlock for a slot that the
// node does not have, and with the node's error.
func (s *solana) Block(ctx context.Context, slot uint64) (partner.Head, error) {
	b, err := s.fetchBlock(ctx, slot, "none", nil)
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

// fetchBlock reads the block of a slot; details is "none", or "full" with a reader of its
// transactions. An empty slot gives an empty block. It fails with ErrNoBlock for a slot that the
// node does not have, with the node's error and with that of the reader.
func (s *solana) fetchBlock(ctx context.Context, slot uint64, details string, transactions member) (b solanaBlock,
	err error) {
	readers := members{"blockhash": decodeInto(&b.Blockhash), "blockTime": decodeInto(&b.BlockTime)}
	if transactions != nil {
		readers["transactions"] = transactions
	}
	err = s.rpc.streamMethod(ctx, func(d *json.Decoder) error {
		_, err := readObject(d, readers)
		return err
	}, "getBlock", slot, map[string]any{"commitment": finalized, "encoding": "json",
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

// Transfers implements partner.Chain: it returns the increases of token balances by transactions,
// in token accounts that the addresses own. It fails with the node's error, for slots outside the
// query, and with the errors of readBlock.
func (s *solana) Transfers(ctx context.Context, from, through uint64,
	addresses []string) (found []partner.Observation,
	err error) {
	var slots []uint64
	if err := s.rpc.streamMethod(ctx, listOf(int(through-from)+1, func(slot *uint64) error {
		if *slot < from || *slot > through || len(slots) > 0 && *slot <= slots[len(slots)-1] {
			return errors.New("slots outside the query")
		}
		slots = append(slots, *slot)
		return nil
	}), "getBlocks", from, through, map[string]any{"commitment": finalized}); err != nil {
		return nil, err
	}
	to := addressSet(addresses)
	for _, slot := range slots {
		one, err := s.readBlock(ctx, slot)
		if err != nil {
			return nil, fmt.Errorf("getBlock %d: %w", slot, err)
		}
		for _, o := range one.transfers {
			if to[o.Address] {
				if found, err = appendFound(found, o); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// readBlock returns the token transfers of a slot, from the cache or the node. It fails with the
// errors of fetchBlock, appendTransfers and checkPosition.
func (s *solana) readBlock(ctx context.Context, slot uint64) (one cachedBlock, err error) {
	key := fmt.Sprint(slot)
	if one, known := s.blocks.byKey[key]; known {
		return one, nil
	}
	b, err := s.fetchBlock(ctx, slot, "full", listOf(maxTransactions, func(t *solanaTransaction) (err error) {
		one.transfers, err = s.appendTransfers(one.transfers, slot, t)
		return err
	}))
	if err != nil {
		return cachedBlock{}, err
	}
	at, err := b.blockTime()
	if err != nil {
		return cachedBlock{}, err
	}
	for i := range one.transfers {
		o := &one.transfers[i]
		o.BlockHash, o.At = b.Blockhash, at
		if err := checkPosition(o); err != nil {
			return cachedBlock{}, err
		}
	}
	s.blocks.addBlock(key, one)
	return one, nil
}

// appendTransfers adds the increases of the known tokens' balances in a transaction, without the
// block's hash and time. It skips failed transactions. It fails for a transaction without its
// signature, for an amount that cannot be read, and with errTooLong for a block of more than
// maxCached transfers.
func (s *solana) appendTransfers(all []partner.Observation, slot uint64,
	t *solanaTransaction) ([]partner.Observation, error) {
	signature := t.Transaction.Signatures[0]
	switch {
	case signature == "":
		return nil, errors.New("a transaction without its signature")
	case t.Meta == nil || bool(t.Meta.Err):
		return all, nil
	case len(all)+len(t.Meta.PostTokenBalances) > maxCached:
		return nil, fmt.Errorf("%w: over %d transfers in a block", errTooLong, maxCached)
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
		all = append(all, partner.Observation{Chain: s.Network.Name, Asset: asset, Address: after.Owner,
			TxHash: signature, Index: after.AccountIndex, Amount: amount.String(), Block: slot,
			From: payerOf(t.Meta.PreTokenBalances, t.Meta.PostTokenBalances, after.Mint)})
	}
	return all, nil
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

// balanceIncrease returns by how much a transaction increased a token account's balance, in
// smallest units; negative for a decrease. before has the balances before the transaction. It fails
// for an amount that is not a whole number.
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
