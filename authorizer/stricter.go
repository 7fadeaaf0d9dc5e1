package authorizer

import (
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// stricterBatch bounds the rules of one commit of KeepStricter, beside maxRulesRecord.
const stricterBatch = 1024

// Stricter is the result of KeepStricter.
type Stricter struct {
	Cards   []ident.UUID // changed cards, at most the requested number
	Changed int          // cards that keep the stricter rule
	Unknown int          // cards of the earlier store that the journal does not have
}

// KeepStricter compares the rules of an earlier store with those of this store, after this one has
// followed a journal that lost changes of cards. Where the earlier rule is the newer one, the card
// keeps the stricter of both until its next change. The result names the first of these cards.
// After a crash a second call completes the rest. The engine must not serve, and must be closed
// afterwards, because its cache does not see the changes. It fails only with an error of either
// store.
func (r *Rebuilder) KeepStricter(earlier *Engine, named int) (Stricter, error) {
	k := stricterKeeper{store: r.store, named: named, batch: newBatch()}
	before := earlier.Snapshot()
	err := before.WalkCards(k.compareRule)
	if errClose := before.Close(); err == nil {
		err = errClose
	}
	if err == nil {
		err = k.commit()
	}
	return k.found, err
}

// stricterKeeper is one run of KeepStricter.
type stricterKeeper struct {
	store *store
	named int
	found Stricter
	batch *batch
	rules int // in the batch
	scratch
}

// compareRule compares a rule of the earlier store with the rule here.
func (k *stricterKeeper) compareRule(old *hold.Rule) error {
	now, err := k.store.readRule(&k.scratch, &old.Token)
	switch {
	case err != nil:
		return err
	case now == nil:
		k.found.Unknown++
		return nil
	case old.Version <= now.Version:
		return nil
	}
	if k.found.Changed++; len(k.found.Cards) < k.named {
		k.found.Cards = append(k.found.Cards, old.Card)
	}
	rule := hold.Stricter(now, old)
	k.key, k.val = appendRuleKey(k.key[:0], &rule.Token), hold.AppendRule(k.val[:0], &rule)
	k.batch.setKey(k.key, k.val)
	if k.rules++; k.rules < stricterBatch && len(k.batch.record) < maxRulesRecord {
		return nil
	}
	return k.commit()
}

// commit writes the collected rules and waits for their sync.
func (k *stricterKeeper) commit() error {
	if k.rules == 0 {
		return nil
	}
	full := k.batch
	k.batch, k.rules = newBatch(), 0
	return k.store.commitDurably(full)
}
