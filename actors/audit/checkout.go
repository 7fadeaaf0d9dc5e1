package audit

import (
	"encoding/json"

	"purser/persistence"
)

// session is what the events say of a checkout session, in cents: what it was completed with, what the balance was credited, and
// whether the session was told. A credit may be still to come: it follows the completion.
type session struct {
	completed, credited int64
	told                bool
}

func (b *books) sessionCompleted(e *persistence.Event) error {
	var p struct{ AmountUsdCents, ShortfallCents int64 }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.differs("checkout", e.Stream, "completed before", session{}, b.sessions[e.Stream])
	b.sessions[e.Stream] = session{completed: p.AmountUsdCents - p.ShortfallCents}
	return nil
}

func (b *books) checkoutCredited(e *persistence.Event) error {
	var p struct {
		Session        string
		AmountUsdCents int64
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	s := b.sessions[p.Session]
	b.differs("checkout", p.Session, "before its credit", session{completed: p.AmountUsdCents}, s)
	s.credited += p.AmountUsdCents
	b.sessions[p.Session] = s
	b.moved(e, b.post(e, p.Postings), map[string]int64{"stablecoin": p.AmountUsdCents, "chain": -p.AmountUsdCents})
	return nil
}

func (b *books) sessionCredited(e *persistence.Event) error {
	var p struct{ AmountUsdCents, ShortfallCents int64 }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	s, credited := b.sessions[e.Stream], p.AmountUsdCents-p.ShortfallCents
	b.differs("checkout", e.Stream, "told of its credit", session{completed: credited, credited: credited}, s)
	s.told = true
	b.sessions[e.Stream] = s
	return nil
}

func (b *books) stablecoinReceived(e *persistence.Event) error {
	var p struct {
		AmountUsdCents int64
		Postings       []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.moved(e, b.post(e, p.Postings), map[string]int64{"stablecoin": p.AmountUsdCents, "chain": -p.AmountUsdCents})
	return nil
}

// checkoutRecord compares what a session says of its end with the events.
func (b *books) checkoutRecord(r *persistence.Record) error {
	var d struct {
		Status     string
		CreditedAt *string
	}
	if err := json.Unmarshal(r.Document, &d); err != nil {
		return err
	}
	s := b.sessions[r.ID]
	b.differs("checkout", r.ID, "completed", s.completed != 0, d.Status == "completed")
	b.differs("checkout", r.ID, "credited", s.told, d.CreditedAt != nil)
	return nil
}
