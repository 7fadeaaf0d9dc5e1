package bench

import "fmt"

// books are the harness's own ledger of one workspace, in cents. They follow the rules of the
// interface and decide the expected answer of every swipe.
type books struct {
	available int64
	cards     []*bookedCard
	holds     []*bookedHold // later messages may name them
	held      int64         // of all holds, those no longer named included
}

// bookedCard is the expected state of a card.
type bookedCard struct {
	*card
	frozen               bool
	perTxn, month, spent int64 // spent: in the current month
}

// bookedHold is the expected state of an authorization.
type bookedHold struct {
	card            *bookedCard
	networkID       string
	authorizationID string
	held, cleared   int64
	counted         int64 // the part of held in the current month's spend
}

const maxBookedHolds = 32

// verdict is the expected answer of an authorization.
type verdict struct {
	reason   string
	approved int64
}

// bookAuthorization returns the decision that the server must make: on an authorization (h is nil)
// or an increment of h. It changes nothing; bookHold books an approval.
func (b *books) bookAuthorization(c *bookedCard, h *bookedHold, asked int64, partial bool) verdict {
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

// bookHold books the approval of an authorization or of an increment.
func (b *books) bookHold(h *bookedHold, cents int64) {
	b.available -= cents
	b.held += cents
	h.held += cents
	h.counted += cents
	h.card.spent += cents
}

// keepHold adds an authorization to those that later messages may name, and drops the oldest.
func (b *books) keepHold(h *bookedHold) {
	b.holds = append(b.holds, h)
	b.holds = b.holds[max(0, len(b.holds)-maxBookedHolds):]
}

// bookReversal books a reversal, at most of the held amount.
func (b *books) bookReversal(h *bookedHold, cents int64) {
	cents = min(cents, h.held)
	counted := min(cents, h.counted)
	b.available += cents
	b.held -= cents
	h.held -= cents
	h.counted -= counted
	h.card.spent -= min(counted, h.card.spent)
}

// bookClearing books a clearing: first out of the hold, then out of the available balance. A final
// clearing releases the rest of the hold. It never fails.
func (b *books) bookClearing(h *bookedHold, cents int64, final bool) {
	fromHold := min(cents, h.held)
	h.held -= fromHold
	b.held -= fromHold
	h.counted = min(h.counted, h.held)
	h.cleared += cents
	b.available -= cents - fromHold
	h.card.spent += cents - fromHold
	if final {
		b.bookReversal(h, h.held)
	}
}

// beginMonth begins a month with a spend of zero.
func (b *books) beginMonth() {
	for _, c := range b.cards {
		c.spent = 0
	}
	for _, h := range b.holds {
		h.counted = 0
	}
}

// bookedLimit are the monthly limits that a card may show. Update n sets plentyCents less n cents,
// so that all differ; update 0 is the issue of the card. One goroutine at a time updates a card.
type bookedLimit struct {
	sent, acked int64 // the last updates that were sent and acknowledged
	doubtful    int64 // the first that may stand though it was not acknowledged; 0: none
	late        bool  // one of those had no answer and may come after others that were acknowledged
	compared    int64 // sent, when the card was compared last
}

// nextLimit returns the limit that the next update sets.
func (l *bookedLimit) nextLimit() int64 {
	l.sent++
	return plentyCents - l.sent
}

// noteAcknowledged books that the last update is in effect and replaces those before it.
func (l *bookedLimit) noteAcknowledged() {
	l.acked = l.sent
	if !l.late {
		l.doubtful = 0
	}
}

// noteRefused books that the last update was not acknowledged. Until the next acknowledgement it
// may be in effect or not.
func (l *bookedLimit) noteRefused() {
	if l.doubtful == 0 {
		l.doubtful = l.sent
	}
}

// noteLost books that the last update had no answer: it may take effect at any later time.
func (l *bookedLimit) noteLost() {
	l.noteRefused()
	l.late = true
}

func (l *bookedLimit) mayShow(cents int64) bool {
	n := plentyCents - cents
	return n == l.acked || l.doubtful > 0 && n >= l.doubtful && n <= l.sent
}

func (l *bookedLimit) toCompare() bool { return l.sent > l.compared }

// describeWanted describes the limits that the card may show.
func (l *bookedLimit) describeWanted() string {
	text := fmt.Sprintf("a monthly limit of %d cents", plentyCents-l.acked)
	if l.doubtful > 0 {
		text += fmt.Sprintf(" or, without an acknowledgement, %d to %d", plentyCents-l.sent, plentyCents-l.doubtful)
	}
	return text
}

// openBounds starts the bounds for reads of the treasury: the current balance, less swipes from now
// on.
func (p *portfolio) openBounds() {
	for _, t := range p.tenants {
		t.before = t.depositedCents + t.moved.Load()
		t.asked.Store(0)
	}
}

// leastBalance returns the lower bound of the balance, as if every sent swipe was approved.
func (t *tenant) leastBalance() int64 { return t.before - t.asked.Load() }

// mayShow reports whether a read may show an available amount.
func (t *tenant) mayShow(cents int64) bool { return cents <= t.before && cents >= t.leastBalance() }
