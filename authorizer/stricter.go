package authorizer

import (
	"purser/actors/ident"
	"purser/authorizer/hold"
)

// KeepStricter compares the rules of an earlier store with the rules here, after this store has
// followed a journal that lost changes of cards. Where the earlier rule is the newer one, the
// stricter of both stays until the card's next change. It returns these cards, and how many cards
// of the earlier store this journal does not know. The engine must serve no one, and must be closed
// afterwards: memory does not learn of the changes.
func (e *Engine) KeepStricter(earlier *Engine) (kept []ident.UUID, unknown int, err error) {
	t := e.newTicket(actWrite)
	defer e.release(t)
	before := earlier.Snapshot()
	b := e.store.newBatch()
	err = before.WalkCards(func(old *hold.Rule) error {
		now, err := e.readRule(t, &old.Token)
		switch {
		case err != nil:
			return err
		case now == nil:
			unknown++
			return nil
		case old.Version <= now.Version:
			return nil
		}
		rule := hold.Stricter(now, old)
		kept = append(kept, old.Card)
		return b.Set(appendRuleKey(nil, &old.Token), hold.AppendRule(nil, &rule), nil)
	})
	if errClose := before.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		_ = b.Close()
		return nil, 0, err
	}
	if err := e.store.apply(b); err != nil {
		return nil, 0, err
	}
	return kept, unknown, e.store.await(b)
}
