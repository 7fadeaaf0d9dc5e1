package hold

import "purser/persistence/money"

// Apply folds an entry into the balances it moves: the counter of its card, the authorization, and the workspace's cardCents. It
// decides nothing and cannot refuse: the entry says everything. An entry that concerns no card leaves spend as it is, one that
// concerns no authorization leaves h.
func Apply(e *Entry, spend *Spend, h *Hold, cardCents *money.Cents) {
	*cardCents += e.CardDelta
	if !e.Card.IsZero() {
		*spend = e.Spend
	}
	if !e.After.ID.IsZero() {
		*h = e.After
	}
}
