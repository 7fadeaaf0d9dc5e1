package hold

import (
	"purser/persistence/ident"
	"purser/persistence/money"
)

// maxBalance bounds a sum: beyond it a clearing or refund is unmatched and not posted. With amounts
// of at most money.MaxAmount every hold can still be released, so no sum in this package overflows.
const maxBalance money.Cents = 1 << 61

// Decide makes the entry of a new message. It fills all of e except Seq, WsSeq and Shard, which the
// log assigns. It never fails and never allocates; the strings of e alias those of m and v. A
// refusal is an entry with a reason, not an error. The authorizer calls it for each message that is
// not a repeat, with the card's shard locked.
func Decide(v *View, m *Message, e *Entry) {
	beginEntry(v, m, e)
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

// Expire makes the entry that releases v.Hold, which expired at v.Now. v.Spend is the counter of
// its card. It never fails; a hold of 0 stays as it is.
func Expire(v *View, e *Entry) {
	*e = Entry{At: v.Now, Kind: Expiry, Decision: Applied, Amount: v.Hold.Held, Currency: usd}
	resumeHold(v, e)
	if e.After.Held > 0 {
		e.releaseAmount(e.After.Held)
		e.After.closeEmpty(StatusExpired)
	}
}

// TakeBack makes the entry of kind TimeoutReturn. It undoes an approval that was answered "timeout"
// because its sync was late. v.Hold is the current authorization; cents that were cleared or
// released since then stay.
func TakeBack(v *View, approval, e *Entry) {
	*e = Entry{
		At: v.Now, Kind: TimeoutReturn, Decision: Applied, Reason: ReasonTimeout, NetworkID: approval.NetworkID,
		OriginalID: approval.OriginalID, Fingerprint: approval.Fingerprint, Amount: approval.Approved, Currency: usd,
		Merchant: approval.Merchant,
	}
	resumeHold(v, e)
	h := &e.After
	if h.Held > 0 {
		e.releaseAmount(min(approval.Approved, h.Held))
		h.closeEmpty(StatusReversed)
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

// usd is the only supported currency.
var usd = [3]byte{'U', 'S', 'D'}

// beginEntry writes the fields that do not depend on the decision: the message, its card and
// workspace, and the month's counter before it.
//
// Assignments field by field avoid a copy: the compiler builds a literal of the entry, half a
// kilobyte, elsewhere and copies it.
func beginEntry(v *View, m *Message, e *Entry) {
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
	e.Spend = v.currentSpend()
}

// resumeHold starts from the current authorization, its card and its workspace, and moves it to the
// current month. Amounts that an earlier month counted are not returned to the spend.
func resumeHold(v *View, e *Entry) {
	e.Workspace, e.Card, e.After = v.Hold.Workspace, v.Hold.Card, *v.Hold
	e.Spend = v.currentSpend()
	if e.After.Month != e.Spend.Month {
		e.After.Month, e.After.MonthCents = e.Spend.Month, 0
	}
}

// currentSpend returns the card's counter in the month of v.Now. A month never goes back, whatever
// the clock does. A counter keeps its month while the clock is suspect, because a new month would
// reset the monthly limit.
func (v *View) currentSpend() Spend {
	if v.MonthStays && v.Spend.Month != 0 {
		return v.Spend
	}
	if month := money.MonthOf(v.Now); month > v.Spend.Month {
		return Spend{Month: month}
	}
	return v.Spend
}

// holdAmount moves a from the card's funds into the hold and counts it in the current month.
func (e *Entry) holdAmount(a money.Cents) {
	e.CardDelta -= a
	e.HoldDelta += a
	e.After.Held += a
	e.After.MonthCents += a
	e.countSpend(a)
}

// releaseAmount moves r from the hold to the card's funds. It returns to the month's spend the part
// that the hold had counted there.
func (e *Entry) releaseAmount(r money.Cents) {
	counted := min(r, e.After.MonthCents, e.Spend.Cents)
	e.CardDelta += r
	e.HoldDelta -= r
	e.After.Held -= r
	e.After.MonthCents -= min(r, e.After.MonthCents)
	e.countSpend(-counted)
}

// clearAmount posts c, first out of the hold and the rest out of the card's funds and into the
// current month's spend. The older part of the hold is cleared before the part that this month
// counted.
func (e *Entry) clearAmount(c money.Cents) {
	u := min(c, e.After.Held)
	e.HoldDelta -= u
	e.After.Held -= u
	e.After.MonthCents = min(e.After.MonthCents, e.After.Held)
	e.CardDelta -= c - u
	e.After.Cleared += c
	e.Posted = c
	e.countSpend(c - u)
}

func (e *Entry) countSpend(a money.Cents) {
	e.SpendDelta += a
	e.Spend.Cents += a
}

// closeEmpty ends an authorization that holds no amount: as cleared if any amount was cleared, or
// else with the given status. It leaves one that still holds an amount unchanged: an authorization
// is held or partially cleared exactly while it holds an amount.
func (h *Hold) closeEmpty(way Status) {
	if h.Held > 0 {
		return
	}
	h.ExpiresAt = 0
	h.Status = way
	if h.Cleared > 0 {
		h.Status = StatusCleared
	}
}

// authorize decides an authorization and opens its hold. A decline of a known card is recorded too;
// an unknown card gets no authorization.
func authorize(v *View, m *Message, e *Entry) {
	e.judge(v, m, nil)
	if v.Rule == nil {
		return
	}
	h := openHold(v, m, e)
	h.Asked, h.Approved, h.Decision, h.Reason = m.Amount, e.Approved, e.Decision, e.Reason
	h.HasChecked, h.Checked = e.HasChecked, e.Checked
	if e.Decision == Declined {
		h.Status = StatusDeclined
		return
	}
	e.holdAmount(e.Approved)
	h.Status, h.ExpiresAt = StatusHeld, expiryOf(v.Now, m.HoldExpiresAt)
	h.closeEmpty(StatusCleared) // an account check holds nothing
}

// openHold makes e.After, which is zero, a new undecided authorization of the presented card.
func openHold(v *View, m *Message, e *Entry) *Hold {
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

// expiryOf returns when a hold expires, in Unix milliseconds: DefaultHoldLife from now, or the time
// asked for, at most MaxHoldLife from now.
func expiryOf(now, asked int64) int64 {
	if asked == 0 {
		return now + DefaultHoldLife.Milliseconds()
	}
	return min(asked, now+MaxHoldLife.Milliseconds())
}

// increment adds to an authorization or leaves it unchanged; it never creates one. A decline
// changes nothing of it.
func increment(v *View, m *Message, e *Entry) {
	h := presentedHold(v)
	e.judge(v, m, h)
	switch {
	case h == nil:
		return
	case e.Decision == Declined:
		e.After = *h
		return
	}
	resumeHold(v, e)
	e.holdAmount(e.Approved)
	e.After.Asked += e.Approved
	e.After.Approved += e.Approved
	if m.HoldExpiresAt != 0 {
		e.After.ExpiresAt = expiryOf(v.Now, m.HoldExpiresAt)
	}
}

// presentedHold returns the message's authorization if it belongs to the presented card. Another
// card's reads as unknown.
func presentedHold(v *View) *Hold {
	if v.Rule == nil || v.Hold == nil || v.Hold.Card != v.Rule.Card {
		return nil
	}
	return v.Hold
}

// reverse undoes the named message: it releases the amount that the message still holds, or
// m.Amount at most. An increment holds its rest, an authorization the whole hold. It is always
// applied. A reversal of a message that has not arrived leaves a tombstone, which declines the
// message when it comes.
func reverse(v *View, m *Message, e *Entry) {
	e.Decision = Applied
	if v.Hold == nil {
		e.Tombstone = m.OriginalID != ""
		return
	}
	resumeHold(v, e)
	h := &e.After
	named := h.Held
	if v.OfIncrement {
		named = min(named, v.Left)
	}
	if m.WholeHold {
		e.Amount = named
	}
	if named == 0 {
		return
	}
	e.releaseAmount(min(max(e.Amount, 0), named))
	h.closeEmpty(StatusReversed)
}

// clearing posts an amount to the card, first out of the hold. Without a known authorization the
// posting is forced and opens one. A final clearing releases the rest of the hold. It declines
// nothing; an amount that cannot be posted to the card is Unmatched.
func clearing(v *View, m *Message, e *Entry) {
	h := presentedHold(v)
	if unmatched(v, m, h, e) {
		return
	}
	e.Decision = Posted
	if h == nil {
		e.Reason = ReasonForcedPost
		h = openHold(v, m, e)
		h.Asked, h.Approved, h.Decision, h.Reason = m.Amount, m.Amount, Approved, ReasonForcedPost
	} else {
		resumeHold(v, e)
	}
	e.clearAmount(m.Amount)
	if m.Final && e.After.Held > 0 {
		e.releaseAmount(e.After.Held)
	}
	e.After.Status = StatusPartiallyCleared
	e.After.closeEmpty(StatusCleared)
}

// refund returns an amount to the card's funds. It needs no authorization, and the month's spend
// stays. A refund that cannot be posted to the card is Unmatched.
func refund(v *View, m *Message, e *Entry) {
	h := presentedHold(v)
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

// unmatched records a clearing or refund that no card's balance takes and reports true. One of an
// unknown card is posted to suspense; one in another currency or out of bounds is recorded and not
// posted.
func unmatched(v *View, m *Message, h *Hold, e *Entry) bool {
	postable := m.Currency == usd && m.Amount > 0 && m.Amount <= money.MaxAmount
	if postable && v.Rule != nil && withinBounds(v, h) {
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

// withinBounds reports whether the sums that a posting changes are small enough to add to without
// an overflow.
func withinBounds(v *View, h *Hold) bool {
	if h != nil && max(h.Cleared, h.Refunded) > maxBalance {
		return false
	}
	return v.Spendable >= -maxBalance && v.Spendable <= maxBalance && v.Spend.Cents <= maxBalance
}
