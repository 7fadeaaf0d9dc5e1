package hold

import "purser/persistence/money"

// Apply folds an entry into the balances that it changes: the counter of its card, the
// authorization, and the workspace's cardCents. It decides nothing and cannot fail. An entry
// without a card leaves spend unchanged, one without an authorization leaves h unchanged.
func Apply(e *Entry, spend *Spend, h *Hold, cardCents *money.Cents) {
	*cardCents += e.CardDelta
	if !e.Card.IsZero() {
		*spend = e.Spend
	}
	if !e.After.ID.IsZero() {
		*h = e.After
	}
}
