package audit

import (
	"encoding/json"

	"purser/persistence"
	"purser/persistence/money"
)

// checkoutSession is the state of a checkout session by the events, in cents: the amount it was
// completed with, the amount credited to the balance, and whether the session has recorded the
// credit. The credit follows the completion, so it may be missing.
type checkoutSession struct {
	completed, credited money.Cents
	sessionCredited     bool
}

// tallyOpenLinks is the kind of the records that count a workspace's open links.
const tallyOpenLinks = "tally_checkout_open"

// linkTallies recount the open links of the workspaces of a shard.
type linkTallies struct{ *shardTotals }

// sessionCreated counts a new link as open. A link of an earlier version is never counted. It fails
// when the payload does not decode. foldEvent calls it.
func (b linkTallies) sessionCreated(e *persistence.Event) error {
	var p struct{ Counted bool }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	if p.Counted {
		b.openLinks[e.Stream] = true
		b.incrementTally(tallyOpenLinks, e)
	}
	return nil
}

// sessionMoved counts a link that its new status opens or closes. It fails when the payload does
// not decode. foldEvent calls it.
func (b linkTallies) sessionMoved(e *persistence.Event) error {
	var p struct{ To string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.recountLink(e, p.To == "pending" || p.To == "awaiting_payment" || p.To == "confirming")
	return nil
}

// recountLink adds a link to the tally of open links when an event opens it again, and subtracts it
// when an event closes it. A link of an earlier version is not in the tally. It never fails.
// sessionMoved and sessionCompleted call it.
func (b linkTallies) recountLink(e *persistence.Event, opens bool) {
	wasOpen, counted := b.openLinks[e.Stream]
	switch {
	case !counted || wasOpen == opens:
		return
	case opens:
		b.incrementTally(tallyOpenLinks, e)
	default:
		b.decrementTally(tallyOpenLinks, e)
	}
	b.openLinks[e.Stream] = opens
}

// sessionCompleted folds the completion of a link, and compares it with an earlier one. It fails
// when the payload does not decode. foldEvent calls it.
func (b *shardTotals) sessionCompleted(e *persistence.Event) error {
	linkTallies{b}.recountLink(e, false)
	var p struct{ AmountUsdCents, ShortfallCents money.Cents }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectEqual("checkout", e.Stream, "completed before", checkoutSession{}, b.sessions[e.Stream])
	b.sessions[e.Stream] = checkoutSession{completed: p.AmountUsdCents - p.ShortfallCents}
	return nil
}

// checkoutCredited folds the credit of a paid link to the stablecoin balance. A wrong amount or
// posting is a finding. It fails when the payload does not decode. foldEvent calls it.
func (b *shardTotals) checkoutCredited(e *persistence.Event) error {
	var p struct {
		Session        string
		AmountUsdCents money.Cents
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	s := b.sessions[p.Session]
	b.expectEqual("checkout", p.Session, "before its credit", checkoutSession{completed: p.AmountUsdCents}, s)
	s.credited += p.AmountUsdCents
	b.sessions[p.Session] = s
	b.expectPostings(e, b.addPostings(e, p.Postings), map[string]money.Cents{"stablecoin": p.AmountUsdCents,
		"chain": -p.AmountUsdCents})
	return nil
}

// sessionCredited folds the link's own record of its credit, and compares it with the completion.
// It fails when the payload does not decode. foldEvent calls it.
func (b *shardTotals) sessionCredited(e *persistence.Event) error {
	var p struct{ AmountUsdCents, ShortfallCents money.Cents }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	s, credited := b.sessions[e.Stream], p.AmountUsdCents-p.ShortfallCents
	b.expectEqual("checkout", e.Stream, "recorded credit", checkoutSession{completed: credited,
		credited: credited}, s)
	s.sessionCredited = true
	b.sessions[e.Stream] = s
	return nil
}

// stablecoinReceived folds a deposit of stablecoins and checks its postings. It fails when the
// payload does not decode. foldEvent calls it.
func (b *shardTotals) stablecoinReceived(e *persistence.Event) error {
	var p struct {
		AmountUsdCents money.Cents
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectPostings(e, b.addPostings(e, p.Postings), map[string]money.Cents{"stablecoin": p.AmountUsdCents,
		"chain": -p.AmountUsdCents})
	return nil
}

// checkoutRecord compares the end of a session in its record with the events; a difference is a
// finding. It fails when the document does not decode. compareStates calls it for each session.
func (b *shardTotals) checkoutRecord(r *persistence.Record) error {
	var d struct {
		Status     string
		CreditedAt *string
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	s := b.sessions[r.ID]
	b.expectEqual("checkout", r.ID, "completed", s.completed != 0, d.Status == "completed")
	b.expectEqual("checkout", r.ID, "credited", s.sessionCredited, d.CreditedAt != nil)
	return nil
}
