package audit

import (
	"encoding/json"
	"fmt"

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

// checkoutEvent folds an event of a checkout session. It fails when the payload does not decode.
func (b *shardTotals) checkoutEvent(e *persistence.Event) error {
	switch e.Type {
	case "checkout.created.v1":
		return b.sessionCreated(e)
	case "checkout.selected.v1":
		b.moveLink(e, "awaiting_payment")
	case "checkout.cancelled.v1":
		return b.sessionCancelled(e)
	case "checkout.moved.v1":
		return b.sessionMoved(e)
	case "checkout.payment_seen.v1":
		return b.paymentSeen(e)
	case "checkout.payment_confirmed.v1":
		return b.sightingChanged(e, func(s *linkSighting, shown int) { s.Shown, s.Withdrawn = shown, false })
	case "checkout.payment_withdrawn.v1":
		return b.sightingChanged(e, func(s *linkSighting, _ int) { s.Withdrawn = true })
	case "checkout.completed.v1":
		return b.sessionCompleted(e)
	case "checkout.credited.v1":
		return b.sessionCredited(e)
	}
	return nil
}

// sessionCreated takes the terms of a new link, and counts it as open. It fails when the payload
// does not decode.
func (b *shardTotals) sessionCreated(e *persistence.Event) error {
	var p struct {
		linkTerms
		At string
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	p.linkTerms.CreatedAt = p.At
	b.links[e.Stream] = &checkoutLink{linkTerms: p.linkTerms}
	b.moveLink(e, "pending")
	return nil
}

// sessionCancelled folds the cancellation of a link. It fails when the payload does not decode.
func (b *shardTotals) sessionCancelled(e *persistence.Event) error {
	var p struct{ At string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.linkOf(e.Stream).CancelledAt = p.At
	return nil
}

// sessionMoved folds the new status of a link, and counts a link that it opens or closes. It fails
// when the payload does not decode.
func (b *shardTotals) sessionMoved(e *persistence.Event) error {
	var p struct{ To string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.moveLink(e, p.To)
	return nil
}

// moveLink gives a link a status, and counts it in or out of the tally of open links.
func (b *shardTotals) moveLink(e *persistence.Event, status string) {
	l := b.linkOf(e.Stream)
	was, is := isOpenLink(l.Status), isOpenLink(status)
	l.Status = status
	switch {
	case is && !was:
		b.incrementTally(tallyOpenLinks, e)
	case was && !is:
		b.decrementTally(tallyOpenLinks, e)
	}
}

func isOpenLink(status string) bool {
	return status == "pending" || status == "awaiting_payment" || status == "confirming"
}

// sessionCompleted folds the completion of a link, and compares it with an earlier one, with the
// link's terms and with its payments. It fails when the payload does not decode.
func (b *shardTotals) sessionCompleted(e *persistence.Event) error {
	b.moveLink(e, "completed")
	var p struct {
		AmountUsdCents money.Cents
		At             string
		linkCompletion
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectEqual("checkout", e.Stream, "completed before", checkoutSession{}, b.sessions[e.Stream])
	b.sessions[e.Stream] = checkoutSession{completed: p.AmountUsdCents - p.ShortfallCents}
	l := b.linkOf(e.Stream)
	b.expectEqual("checkout", e.Stream, "completed amount", l.AmountUsdCents, p.AmountUsdCents)
	l.CompletedAt, l.linkCompletion = p.At, p.linkCompletion
	b.checkCompletion(e.Stream, l)
	return nil
}

// checkCompletion checks that a completed link's shortfall is within its tolerance, and that its
// confirmed payments cover the rest of its amount. A simulated completion needs no payments.
// Differences are findings.
func (b *shardTotals) checkCompletion(session string, l *checkoutLink) {
	if l.ShortfallCents < 0 || l.ShortfallCents > l.ToleranceCents {
		b.expectEqual("checkout", session, "shortfall", fmt.Sprintf("0 to %d", l.ToleranceCents), l.ShortfallCents)
	}
	if l.Simulated {
		return
	}
	confirmed, err := l.confirmedCents()
	if err != nil {
		b.expectEqual("checkout", session, "confirmed payments", "readable", err)
		return
	}
	if least := l.AmountUsdCents - l.ShortfallCents; confirmed < least {
		b.expectEqual("checkout", session, "confirmed payments", fmt.Sprintf("at least %d", least), confirmed)
	}
}

// checkoutCredited folds the credit of a paid link to the stablecoin balance. A wrong amount or
// posting is a finding. It fails when the payload does not decode.
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
// It fails when the payload does not decode.
func (b *shardTotals) sessionCredited(e *persistence.Event) error {
	var p struct {
		AmountUsdCents, ShortfallCents money.Cents
		At                             string
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	s, credited := b.sessions[e.Stream], p.AmountUsdCents-p.ShortfallCents
	b.expectEqual("checkout", e.Stream, "recorded credit", checkoutSession{completed: credited,
		credited: credited}, s)
	s.sessionCredited = true
	b.sessions[e.Stream] = s
	b.linkOf(e.Stream).CreditedAt = p.At
	return nil
}

// stablecoinReceived folds a deposit of stablecoins and checks its postings. It fails when the
// payload does not decode.
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

// checkoutRecord compares the record of a session with its events; differences are findings. It
// fails when the document does not decode.
func (b *shardTotals) checkoutRecord(r *persistence.Record) error {
	var got checkoutLink
	if err := json.Unmarshal(r.Document, &got); err != nil {
		return err
	}
	s, want := b.sessions[r.ID], b.linkOf(r.ID)
	b.expectEqual("checkout", r.ID, "completed", s.completed != 0, got.Status == "completed")
	b.expectEqual("checkout", r.ID, "credited", s.sessionCredited, got.CreditedAt != "")
	for _, part := range []struct {
		what           string
		expected, have any
	}{
		{"amount", want.AmountUsdCents, got.AmountUsdCents},
		{"tolerance", want.ToleranceCents, got.ToleranceCents},
		{"prices", want.Prices, got.Prices},
		{"pairs", want.Pairs, got.Pairs},
		{"creation and expiry", [2]string{want.CreatedAt, want.ExpiresAt}, [2]string{got.CreatedAt, got.ExpiresAt}},
		{"status", want.Status, got.Status},
		{"payments", want.Payments, got.Payments},
		{"completion", want.linkCompletion, got.linkCompletion},
		{"times of its end", want.linkTimes, got.linkTimes},
	} {
		b.expectEqual("checkout", r.ID, part.what, part.expected, part.have)
	}
	return nil
}
