package bench

// What a soak expects. Books are the harness's own account of one workspace, kept from the interface's rules alone; they decide
// what every swipe must be answered with.

// books of one workspace. All amounts are cents.
type books struct {
	available int64
	cards     []*bookedCard
	holds     []*bookedHold // that may still be named
	held      int64         // of all holds, those no longer named included
}

// bookedCard is a card as it must be.
type bookedCard struct {
	*card
	frozen               bool
	perTxn, month, spent int64 // spent: in the current month
}

// bookedHold is an authorization as it must be.
type bookedHold struct {
	card            *bookedCard
	networkID       string
	authorizationID string
	held, cleared   int64
	counted         int64 // of held, what the current month's spend has
}

const maxBookedHolds = 32

// verdict is what an authorization must be answered with.
type verdict struct {
	reason   string
	approved int64
}

// authorize decides an authorization (h is nil) or an increment.
func (b *books) authorize(c *bookedCard, h *bookedHold, asked int64, partial bool) verdict {
	before := int64(0)
	if h != nil {
		before = h.held + h.cleared
	}
	room := min(c.month-c.spent, asked)
	least := asked
	if partial {
		least = 1
	}
	switch {
	case c.frozen:
		return verdict{reason: "card_frozen"}
	case h != nil && h.held == 0:
		return verdict{reason: "authorization_not_found"}
	case asked > c.perTxn-before:
		return verdict{reason: "per_transaction_limit_exceeded"}
	case room < least:
		return verdict{reason: "monthly_limit_exceeded"}
	case min(room, b.available) < least:
		return verdict{reason: "insufficient_funds"}
	}
	return verdict{"approved", min(room, b.available)}
}

// hold books an approval: of a new authorization, or of more for one.
func (b *books) hold(h *bookedHold, cents int64) {
	b.available -= cents
	b.held += cents
	h.held += cents
	h.counted += cents
	h.card.spent += cents
}

// keep lets a new authorization be named by later messages; the oldest makes room.
func (b *books) keep(h *bookedHold) {
	b.holds = append(b.holds, h)
	b.holds = b.holds[max(0, len(b.holds)-maxBookedHolds):]
}

// release books a reversal, capped at what is held.
func (b *books) release(h *bookedHold, cents int64) {
	cents = min(cents, h.held)
	counted := min(cents, h.counted)
	b.available += cents
	b.held -= cents
	h.held -= cents
	h.counted -= counted
	h.card.spent -= min(counted, h.card.spent)
}

// clear books a clearing: out of the hold first, the rest out of what is available. A final one lets go of what is left.
func (b *books) clear(h *bookedHold, cents int64, final bool) {
	fromHold := min(cents, h.held)
	h.held -= fromHold
	b.held -= fromHold
	h.counted = min(h.counted, h.held)
	h.cleared += cents
	b.available -= cents - fromHold
	h.card.spent += cents - fromHold
	if final {
		b.release(h, h.held)
	}
}

// turnMonth begins a month: nothing is spent in it yet.
func (b *books) turnMonth() {
	for _, c := range b.cards {
		c.spent = 0
	}
	for _, h := range b.holds {
		h.counted = 0
	}
}
