package authorizer

import (
	"encoding/binary"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// readInputs fetches the inputs of a ticket's decision from the store. They are valid as long as
// the shard has not changed since the read began; fill checks that under the lock.
func (s *store) readInputs(t *ticket) (err error) {
	l := &t.load
	*l = loaded{at: t.shard.changes.Load()}
	var card, workspace = ident.UUID{}, ident.System
	if !t.holdID.IsZero() {
		if l.holdFound, err = s.readHold(&t.scratch, &t.holdID, &l.hold); err != nil {
			return err
		}
		if l.holdFound {
			card, workspace = l.hold.Card, l.hold.Workspace
		}
	}
	if t.byToken {
		if l.rule, err = s.readRule(&t.scratch, &t.token); err != nil {
			return err
		}
		if l.rule != nil {
			card, workspace = l.rule.Card, l.rule.Workspace
		}
	}
	if l.spend, err = s.readSpend(&t.scratch, &card); err != nil {
		return err
	}
	if l.funds, err = s.readFunds(&t.scratch, &workspace); err != nil {
		return err
	}
	l.done = true
	return nil
}

// readHold reads an authorization into h. It returns false for an unknown one, and fails with the
// store's error.
func (s *store) readHold(b *scratch, id *ident.UUID, h *hold.Hold) (bool, error) {
	b.key = appendIDKey(b.key[:0], prefixHold, id)
	return s.get(b.key, func(v []byte) error { return hold.DecodeHold(v, h) })
}

// readRule returns nil for an unknown card.
func (s *store) readRule(b *scratch, token *ident.Token) (*hold.Rule, error) {
	r := &hold.Rule{}
	b.key = appendRuleKey(b.key[:0], token)
	found, err := s.get(b.key, func(v []byte) error { return hold.DecodeRule(v, r) })
	if !found || err != nil {
		return nil, err
	}
	return r, nil
}

// readSpend returns a spend of nothing for a card that has none.
func (s *store) readSpend(b *scratch, card *ident.UUID) (spend hold.Spend, err error) {
	if card.IsZero() {
		return spend, nil
	}
	b.key = appendIDKey(b.key[:0], prefixSpend, card)
	_, err = s.get(b.key, func(v []byte) error { return hold.DecodeSpend(v, &spend) })
	return spend, err
}

// readFunds returns zero funds for a workspace that was never seen.
func (s *store) readFunds(b *scratch, workspace *ident.UUID) (*fundsItem, error) {
	it := &fundsItem{workspace: *workspace}
	for term := byte(termLedger); term <= termReserved; term++ {
		b.key = appendFundsKey(b.key[:0], workspace, term)
		_, err := s.get(b.key, func(v []byte) error { return it.decode(term, v) })
		if err != nil {
			return nil, err
		}
	}
	return it, nil
}

// decode reads one term of a workspace's funds.
func (it *fundsItem) decode(term byte, v []byte) error {
	if want := 8 + 8*int(term&termCard); len(v) != want {
		return fmt.Errorf("%w: a term of %d bytes", ErrCorrupt, len(v))
	}
	cents := money.Cents(binary.BigEndian.Uint64(v))
	switch term {
	case termLedger:
		it.funds.LedgerCents = cents
	case termCard:
		it.funds.CardCents, it.wsSeq = cents, binary.BigEndian.Uint64(v[8:])
	case termReserved:
		it.funds.ReservedCents = cents
	default:
		return fmt.Errorf("%w: unknown term of funds", ErrCorrupt)
	}
	return nil
}
