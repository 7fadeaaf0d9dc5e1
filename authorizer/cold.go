package authorizer

import (
	"encoding/binary"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// read fetches the inputs of a ticket's decision from the store. They are valid as long as the
// shard has not changed since the read began; fill checks that under the lock.
func (e *Engine) read(t *ticket) (err error) {
	l := &t.load
	*l = loaded{at: t.shard.changes.Load()}
	var card, workspace = ident.UUID{}, ident.System
	if !t.holdID.IsZero() {
		if l.holdFound, err = e.readHold(t, &t.holdID, &l.hold); err != nil {
			return err
		}
		if l.holdFound {
			card, workspace = l.hold.Card, l.hold.Workspace
		}
	}
	if t.byToken {
		if l.rule, err = e.readRule(t, &t.token); err != nil {
			return err
		}
		if l.rule != nil {
			card, workspace = l.rule.Card, l.rule.Workspace
		}
	}
	if l.spend, err = e.readSpend(t, &card); err != nil {
		return err
	}
	if l.funds, err = e.readFunds(t, &workspace); err != nil {
		return err
	}
	l.done = true
	return nil
}

func (e *Engine) readHold(t *ticket, id *ident.UUID, h *hold.Hold) (bool, error) {
	t.key = appendIDKey(t.key[:0], prefixHold, id)
	return e.store.get(e.store.db, t.key, func(v []byte) error { return hold.DecodeHold(v, h) })
}

// readRule returns nil for an unknown card.
func (e *Engine) readRule(t *ticket, token *ident.Token) (*hold.Rule, error) {
	r := &hold.Rule{}
	t.key = appendRuleKey(t.key[:0], token)
	found, err := e.store.get(e.store.db, t.key, func(v []byte) error { return hold.DecodeRule(v, r) })
	if !found || err != nil {
		return nil, err
	}
	return r, nil
}

// readSpend returns a spend of nothing for a card that has none.
func (e *Engine) readSpend(t *ticket, card *ident.UUID) (spend hold.Spend, err error) {
	if card.IsZero() {
		return spend, nil
	}
	t.key = appendIDKey(t.key[:0], prefixSpend, card)
	_, err = e.store.get(e.store.db, t.key, func(v []byte) error { return hold.DecodeSpend(v, &spend) })
	return spend, err
}

// readFunds returns zero funds for a workspace that was never seen.
func (e *Engine) readFunds(t *ticket, workspace *ident.UUID) (*fundsItem, error) {
	it := &fundsItem{workspace: *workspace}
	for term := byte(termLedger); term <= termReserved; term++ {
		t.key = appendFundsKey(t.key[:0], workspace, term)
		_, err := e.store.get(e.store.db, t.key, func(v []byte) error { return it.decode(term, v) })
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

func appendCents(dst []byte, c money.Cents) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(c))
}

func decodeUint64(n *uint64) func(v []byte) error {
	return func(v []byte) error {
		if len(v) != 8 {
			return ErrCorrupt
		}
		*n = binary.BigEndian.Uint64(v)
		return nil
	}
}

// hotFunds returns a workspace's funds under its shard's lock, from the cache or the store.
func (e *Engine) hotFunds(t *ticket, sh *shard, workspace *ident.UUID) (*fundsItem, error) {
	if it := sh.cache.fund(workspace); it != nil {
		return it, nil
	}
	it, err := e.readFunds(t, workspace)
	if err != nil {
		return nil, err
	}
	return sh.cache.putFunds(it), nil
}

// Funds returns the terms of a workspace, and false when it is unknown or cannot be read.
func (e *Engine) Funds(workspace ident.UUID) (Funds, bool) {
	t := e.newTicket(actWrite)
	defer e.release(t)
	sh := e.shards[workspace.Shard()]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if it := sh.cache.funds.get(workspace[:]); it != nil {
		return it.funds, it.seen()
	}
	it, err := e.readFunds(t, &workspace)
	if err != nil {
		return Funds{}, false
	}
	return it.funds, it.seen()
}

func (it *fundsItem) seen() bool { return it.wsSeq != 0 || it.funds != Funds{} }

// Spend returns the counter of a card, zero for a card without one. It fails only with an error of
// the store.
func (e *Engine) Spend(card ident.UUID) (hold.Spend, error) {
	t := e.newTicket(actWrite)
	defer e.release(t)
	return e.readSpend(t, &card)
}

// Rule returns the rule of a card, and false for an unknown one. It fails only with an error of the
// store.
func (e *Engine) Rule(token ident.Token) (hold.Rule, bool, error) {
	t := e.newTicket(actWrite)
	defer e.release(t)
	r, err := e.readRule(t, &token)
	if err != nil || r == nil {
		return hold.Rule{}, false, err
	}
	return *r, true, nil
}

// Hold returns the state of an authorization, and false for an unknown one. It fails only with an
// error of the store.
func (e *Engine) Hold(id ident.UUID) (h hold.Hold, found bool, err error) {
	t := e.newTicket(actWrite)
	defer e.release(t)
	found, err = e.readHold(t, &id, &h)
	return h, found, err
}
