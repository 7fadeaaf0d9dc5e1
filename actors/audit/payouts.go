package audit

import (
	"encoding/json"
	"fmt"

	"purser/persistence"
)

// payout is what the events say of a payout, and what its record must say.
type payout struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	AmountCents int64  `json:"amountCents"`
}

// reserves says whether dollars are set aside for a payout of a status.
func reserves(status string) bool {
	switch status {
	case "held", "reserved", "submitting", "submitted", "outcome_unknown":
		return true
	}
	return false
}

// mayMove is the auditor's own reading of a payout's life.
func mayMove(from, to string) bool {
	switch from + " " + to {
	case "held reserved", "held cancelled", "reserved submitting",
		"submitting submitted", "submitting outcome_unknown", "submitted outcome_unknown", "outcome_unknown released",
		"released settled", "settled returned":
		return true
	}
	return (to == "settled" || to == "failed") && (from == "submitting" || from == "submitted" || from == "outcome_unknown")
}

func (b *books) payoutCreated(e *persistence.Event) error {
	var p struct{ Payout payout }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	if _, known := b.payouts[p.Payout.ID]; known || !reserves(p.Payout.Status) || p.Payout.AmountCents <= 0 {
		b.differs("payout", p.Payout.ID, "created", "new, open and of more than nothing", fmt.Sprintf("%+v", p.Payout))
	}
	b.payouts[p.Payout.ID] = p.Payout
	b.setAside(e, p.Payout.AmountCents)
	b.originated(e, -p.Payout.AmountCents)
	return nil
}

// payoutMoved adds up what a move does: what was set aside is gone or free again; what was gone comes back, or goes after all.
func (b *books) payoutMoved(e *persistence.Event) error {
	var p struct {
		Payout, From, To string
		AmountCents      int64
		Postings         []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.differs("payout", p.Payout, "moved from", payout{p.Payout, p.From, p.AmountCents}, b.payouts[p.Payout])
	b.differs("payout", p.Payout, "may go from "+p.From+" to "+p.To, true, mayMove(p.From, p.To))
	b.payouts[p.Payout] = payout{p.Payout, p.To, p.AmountCents}
	ends := reserves(p.From) && !reserves(p.To)
	if ends {
		b.setAside(e, -p.AmountCents)
	}
	paid := int64(0)
	switch {
	case p.To == "settled":
		paid = p.AmountCents
	case p.To == "returned":
		paid = -p.AmountCents
	}
	want := map[string]int64{}
	if paid != 0 {
		want["usd"], want["bank"] = -paid, paid
	}
	b.moved(e, b.post(e, p.Postings), want)
	switch {
	case ends && p.To != "settled":
		b.originated(e, p.AmountCents)
	case !ends:
		b.originated(e, -paid)
	}
	return nil
}

// setAside adds to what open payouts have reserved.
func (b *books) setAside(e *persistence.Event, cents int64) {
	a := b.account(e.Workspace)
	b.sum("workspace", e.Workspace, "reserved", &a.reserved, cents)
	if cents > 0 {
		a.openPayouts++
	} else {
		a.openPayouts--
	}
}

// originated adds dollars that the journal originated, and whether the authorizer must have followed them.
func (b *books) originated(e *persistence.Event, cents int64) {
	a := b.account(e.Workspace)
	b.sum("workspace", e.Workspace, "ledger cents", &a.ledger, cents)
	if e.Position <= b.followed {
		b.sum("workspace", e.Workspace, "followed ledger cents", &a.followed, cents)
	}
}
