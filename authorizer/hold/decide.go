package hold

import (
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxBalance is the size of a sum beyond which a clearing or refund is kept unmatched and not posted. With amounts of at most
// money.MaxAmount it leaves room for every hold to come back, so that no sum in this package can overflow.
const maxBalance money.Cents = 1 << 61

// Decide makes the entry that follows from a message. It fills e completely but for Seq, WsSeq and Shard, which the log gives.
// It never fails and never allocates; strings of e alias those of m and v.
//
// v.Spend is the counter of the card that moves: the presented one's, or for a reversal, which presents none, that of v.Hold.
// Repeats are not its business: a message is new when it comes here.
func Decide(v *View, m *Message, e *Entry) {
	begin(v, m, e)
	switch m.Kind {
	case Authorization:
		authorize(v, m, e)
	case Incremental:
		increment(v, m, e)
	case Reversal:
		reverse(v, m, e)
	case Clearing:
		clearing(v, m, e)
	case Refund:
		refund(v, m, e)
	default:
		panic("BUG: message of kind " + m.Kind.String())
	}
}

// Expire makes the entry that lets go of v.Hold, whose time has come at v.Now. v.Spend is the counter of its card.
func Expire(v *View, e *Entry) {
	*e = Entry{At: v.Now, Kind: Expiry, Decision: Applied, Amount: v.Hold.Held, Currency: usd}
	resume(v, e)
	if e.After.Held > 0 {
		e.release(e.After.Held)
		e.After.close(StatusExpired)
	}
}

// TakeBack makes the entry of kind TimeoutReturn: it takes back an approval (the entry given) that was answered "timeout" for
// want of a sync. v.Hold is the authorization as it stands now; what was cleared or given back since cannot be taken back again.
func TakeBack(v *View, approval, e *Entry) {
	*e = Entry{
		At: v.Now, Kind: TimeoutReturn, Decision: Applied, Reason: ReasonTimeout, NetworkID: approval.NetworkID,
		OriginalID: approval.OriginalID, Fingerprint: approval.Fingerprint, Amount: approval.Approved, Currency: usd,
		Merchant: approval.Merchant,
	}
	resume(v, e)
	h := &e.After
	if h.Held > 0 {
		e.release(min(approval.Approved, h.Held))
		h.close(StatusReversed)
	}
	if approval.Kind == Incremental {
		h.Asked -= approval.Approved
		h.Approved -= approval.Approved
		return
	}
	h.Decision, h.Reason = Declined, ReasonTimeout
	if h.Held == 0 && h.Cleared == 0 {
		h.Status = StatusDeclined
	}
}

// usd is the one currency that is supported.
var usd = [3]byte{'U', 'S', 'D'}

// begin writes what every entry says whatever is decided: the message, whose it is, and the month's counter before it.
//
// A literal of the entry would be made elsewhere and copied, half a kilobyte of it, and so would what one statement gives to
// several fields.
func begin(v *View, m *Message, e *Entry) {
	*e = Entry{}
	e.At = v.Now
	e.Kind = m.Kind
	e.NetworkID = m.ID
	e.OriginalID = m.OriginalID
	e.Fingerprint = m.Fingerprint
	e.Amount = m.Amount
	e.Currency = m.Currency
	e.Merchant = m.Merchant
	e.Final = m.Final
	if v.Rule == nil || m.Kind == Reversal {
		e.Workspace = ident.System
		return
	}
	e.Workspace = v.Rule.Workspace
	e.Card = v.Rule.Card
	e.Spend = v.spend()
}

// resume starts from the authorization as it stands, which brings its card and workspace, with the current month as its month:
// what an earlier month counted is no longer given back.
func resume(v *View, e *Entry) {
	e.Workspace, e.Card, e.After = v.Hold.Workspace, v.Hold.Card, *v.Hold
	e.Spend = v.spend()
	if e.After.Month != e.Spend.Month {
		e.After.Month, e.After.MonthCents = e.Spend.Month, 0
	}
}

// spend is the card's counter in the month of v.Now. A month never goes back, whatever the clock
// does, and a counter that has a month keeps it while the clock is suspect: a new month would open
// the monthly limit again.
func (v *View) spend() Spend {
	if v.MonthStays && v.Spend.Month != 0 {
		return v.Spend
	}
	if month := money.MonthOf(v.Now); month > v.Spend.Month {
		return Spend{Month: month}
	}
	return v.Spend
}

// take moves a from the card's funds into the hold and counts it in the current month.
func (e *Entry) take(a money.Cents) {
	e.CardDelta -= a
	e.HoldDelta += a
	e.After.Held += a
	e.After.MonthCents += a
	e.count(a)
}

// release moves r from the hold back to the card's funds; of the month's spend it gives back what the hold had counted there.
func (e *Entry) release(r money.Cents) {
	counted := min(r, e.After.MonthCents, e.Spend.Cents)
	e.CardDelta += r
	e.HoldDelta -= r
	e.After.Held -= r
	e.After.MonthCents -= min(r, e.After.MonthCents)
	e.count(-counted)
}

// clear posts c: u of it out of the hold, the rest out of the card's funds and into the current month's spend. What remains of
// the hold is what this month counted, as far as it reaches: the older part is cleared first.
func (e *Entry) clear(c money.Cents) {
	u := min(c, e.After.Held)
	e.HoldDelta -= u
	e.After.Held -= u
	e.After.MonthCents = min(e.After.MonthCents, e.After.Held)
	e.CardDelta -= c - u
	e.After.Cleared += c
	e.Posted = c
	e.count(c - u)
}

func (e *Entry) count(a money.Cents) {
	e.SpendDelta += a
	e.Spend.Cents += a
}

// close ends an authorization that holds nothing more: as cleared when anything was, else the way it came to zero. An
// authorization is held or partially cleared exactly as long as it holds something.
func (h *Hold) close(way Status) {
	if h.Held > 0 {
		return
	}
	h.ExpiresAt = 0
	h.Status = way
	if h.Cleared > 0 {
		h.Status = StatusCleared
	}
}

func authorize(v *View, m *Message, e *Entry) {
	e.judge(v, m, nil)
	if v.Rule == nil {
		return
	}
	h := open(v, m, e)
	h.Asked, h.Approved, h.Decision, h.Reason = m.Amount, e.Approved, e.Decision, e.Reason
	h.HasChecked, h.Checked = e.HasChecked, e.Checked
	if e.Decision == Declined {
		h.Status = StatusDeclined
		return
	}
	e.take(e.Approved)
	h.Status, h.ExpiresAt = StatusHeld, expiry(v.Now, m.HoldExpiresAt)
	h.close(StatusCleared) // an account check holds nothing
}

// open makes e.After, which is zero, a new authorization of the presented card, with nothing decided.
func open(v *View, m *Message, e *Entry) *Hold {
	h := &e.After
	h.ID = v.NewID
	h.Card = v.Rule.Card
	h.Workspace = v.Rule.Workspace
	h.NetworkID = m.ID
	h.At = v.Now
	h.Month = e.Spend.Month
	h.Merchant = m.Merchant
	return h
}

func expiry(now, asked int64) int64 {
	if asked == 0 {
		return now + DefaultHoldLife.Milliseconds()
	}
	return min(asked, now+MaxHoldLife.Milliseconds())
}

// increment adds to an authorization or changes nothing of it; it makes no authorization of its own.
func increment(v *View, m *Message, e *Entry) {
	h := presented(v)
	e.judge(v, m, h)
	switch {
	case h == nil:
		return
	case e.Decision == Declined:
		e.After = *h
		return
	}
	resume(v, e)
	e.take(e.Approved)
	e.After.Asked += e.Approved
	e.After.Approved += e.Approved
	if m.HoldExpiresAt != 0 {
		e.After.ExpiresAt = expiry(v.Now, m.HoldExpiresAt)
	}
}

// presented is the authorization that a message names if it is the presented card's. Another card's is as unknown.
func presented(v *View) *Hold {
	if v.Rule == nil || v.Hold == nil || v.Hold.Card != v.Rule.Card {
		return nil
	}
	return v.Hold
}

func reverse(v *View, m *Message, e *Entry) {
	e.Decision = Applied
	if v.Hold == nil {
		e.Tombstone = m.OriginalID != ""
		return
	}
	resume(v, e)
	h := &e.After
	if m.WholeHold {
		e.Amount = h.Held
	}
	if h.Held == 0 {
		return
	}
	e.release(min(max(e.Amount, 0), h.Held))
	h.close(StatusReversed)
}

func clearing(v *View, m *Message, e *Entry) {
	h := presented(v)
	if unmatched(v, m, h, e) {
		return
	}
	e.Decision = Posted
	if h == nil {
		e.Reason = ReasonForcedPost
		h = open(v, m, e)
		h.Asked, h.Approved, h.Decision, h.Reason = m.Amount, m.Amount, Approved, ReasonForcedPost
	} else {
		resume(v, e)
	}
	e.clear(m.Amount)
	if m.Final && e.After.Held > 0 {
		e.release(e.After.Held)
	}
	e.After.Status = StatusPartiallyCleared
	e.After.close(StatusCleared)
}

func refund(v *View, m *Message, e *Entry) {
	h := presented(v)
	if unmatched(v, m, h, e) {
		return
	}
	e.Decision = Posted
	if h != nil {
		e.After = *h
		e.After.Refunded += m.Amount
	}
	e.CardDelta = m.Amount
	e.Posted = -m.Amount
}

// unmatched keeps a clearing or refund that no card's balance takes: of an unknown card (posted to suspense), in another
// currency or beyond every bound (kept, not posted).
func unmatched(v *View, m *Message, h *Hold, e *Entry) bool {
	postable := m.Currency == usd && m.Amount > 0 && m.Amount <= money.MaxAmount
	if postable && v.Rule != nil && bounded(v, h) {
		return false
	}
	e.Decision = Unmatched
	if postable && v.Rule == nil {
		e.Posted = m.Amount
		if m.Kind == Refund {
			e.Posted = -m.Amount
		}
	}
	return true
}

func bounded(v *View, h *Hold) bool {
	if h != nil && max(h.Cleared, h.Refunded) > maxBalance {
		return false
	}
	return v.Spendable >= -maxBalance && v.Spendable <= maxBalance && v.Spend.Cents <= maxBalance
}
