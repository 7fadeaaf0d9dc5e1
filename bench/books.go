package bench

import "fmt"

// What a soak and REST clients expect. Books are the harness's own account of one workspace, kept from the interface's rules
// alone; they decide what every swipe must be answered with. Of a card that REST clients update they keep its limit.

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

// bookedLimit is the monthly limit that a card may show. Update n sets plentyCents less n cents, so that no two are the same;
// update 0 is the mint. An update has one sender at a time.
type bookedLimit struct {
	sent, acked int64 // the last updates that were sent and acknowledged
	doubtful    int64 // the first that may stand though it was not acknowledged; 0: none
	late        bool  // one of those had no answer and may come after others that were acknowledged
	compared    int64 // sent, when the card was compared last
}

// next is what the next update sets.
func (l *bookedLimit) next() int64 {
	l.sent++
	return plentyCents - l.sent
}

// acknowledged books that the last update stands, in place of those before it.
func (l *bookedLimit) acknowledged() {
	l.acked = l.sent
	if !l.late {
		l.doubtful = 0
	}
}

// refused books that the last update was not acknowledged: it may stand or not, until one after it is acknowledged.
func (l *bookedLimit) refused() {
	if l.doubtful == 0 {
		l.doubtful = l.sent
	}
}

// lost books that nobody knows what becomes of the last update, or when.
func (l *bookedLimit) lost() {
	l.refused()
	l.late = true
}

func (l *bookedLimit) mayShow(cents int64) bool {
	n := plentyCents - cents
	return n == l.acked || l.doubtful > 0 && n >= l.doubtful && n <= l.sent
}

func (l *bookedLimit) toCompare() bool { return l.sent > l.compared }

// want says in words what the card may show.
func (l *bookedLimit) want() string {
	text := fmt.Sprintf("a monthly limit of %d cents", plentyCents-l.acked)
	if l.doubtful > 0 {
		text += fmt.Sprintf(" or, without an acknowledgement, %d to %d", plentyCents-l.sent, plentyCents-l.doubtful)
	}
	return text
}

// open begins the account of what reads of the treasury may show: what is there now, less what is swiped from now on.
func (p *portfolio) open() {
	for _, t := range p.tenants {
		t.before = t.depositedCents + t.moved.Load()
		t.asked.Store(0)
	}
}

// least is what the tenant has at least: as if everything that it was asked for had been approved.
func (t *tenant) least() int64 { return t.before - t.asked.Load() }

// mayHave tells whether so much may be available. Where nothing is swiped it is one amount.
func (t *tenant) mayHave(cents int64) bool { return cents <= t.before && cents >= t.least() }
