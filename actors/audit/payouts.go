package audit

import (
	"encoding/json"
	"fmt"

	"purser/persistence"
	"purser/persistence/money"
)

// payout is the state of a payout by its events; its record must equal it.
type payout struct {
	ID          string      `json:"id"`
	Status      string      `json:"status"`
	AmountCents money.Cents `json:"amountCents"`
}

// payoutOpen reports whether dollars are reserved for a payout of a status. payoutCreated and
// payoutMoved call it.
func payoutOpen(status string) bool {
	switch status {
	case "held", "reserved", "submitting", "submitted", "outcome_unknown":
		return true
	}
	return false
}

// payoutMoveAllowed is the audit's own transition table of a payout. payoutMoved reports a move
// outside it as a finding.
func payoutMoveAllowed(from, to string) bool {
	switch from + " " + to {
	case "held reserved", "held cancelled", "reserved submitting",
		"submitting submitted", "submitting outcome_unknown", "submitted outcome_unknown", "outcome_unknown released",
		"released settled", "settled returned":
		return true
	}
	return (to == "settled" || to == "failed") && (from == "submitting" || from == "submitted" ||
		from == "outcome_unknown")
}

// payoutCreated folds a new payout: its dollars are reserved. It fails when the payload does not
// decode. foldEvent calls it.
func (b *shardTotals) payoutCreated(e *persistence.Event) error {
	var p struct{ Payout payout }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	if _, known := b.payouts[p.Payout.ID]; known || !payoutOpen(p.Payout.Status) || p.Payout.AmountCents <= 0 {
		b.expectEqual("payout", p.Payout.ID, "created", "new, open and of more than nothing", fmt.Sprintf("%+v",
			p.Payout))
	}
	b.payouts[p.Payout.ID] = p.Payout
	b.addReserved(e, p.Payout.AmountCents)
	b.addLedgerCents(e, -p.Payout.AmountCents)
	return nil
}

// payoutMoved folds a move: a reservation is paid out or freed; a paid amount comes back; a
// released payout is paid after all. It fails when the payload does not decode. foldEvent calls it.
func (b *shardTotals) payoutMoved(e *persistence.Event) error {
	var p struct {
		Payout, From, To string
		AmountCents      money.Cents
		Postings         []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectEqual("payout", p.Payout, "moved from", payout{p.Payout, p.From, p.AmountCents}, b.payouts[p.Payout])
	b.expectEqual("payout", p.Payout, "may go from "+p.From+" to "+p.To, true, payoutMoveAllowed(p.From, p.To))
	b.payouts[p.Payout] = payout{p.Payout, p.To, p.AmountCents}
	ends := payoutOpen(p.From) && !payoutOpen(p.To)
	if ends {
		b.addReserved(e, -p.AmountCents)
	}
	paid := money.Cents(0)
	switch {
	case p.To == "settled":
		paid = p.AmountCents
	case p.To == "returned":
		paid = -p.AmountCents
	}
	want := map[string]money.Cents{}
	if paid != 0 {
		want["usd"], want["bank"] = -paid, paid
	}
	b.expectPostings(e, b.addPostings(e, p.Postings), want)
	switch {
	case ends && p.To != "settled":
		b.addLedgerCents(e, p.AmountCents)
	case !ends:
		b.addLedgerCents(e, -paid)
	}
	return nil
}

// addReserved adds to the reservations of open payouts. An overflow is a finding. payoutCreated and
// payoutMoved call it.
func (b *shardTotals) addReserved(e *persistence.Event, cents money.Cents) {
	a := b.accountOf(e.Workspace)
	addChecked(b, "workspace", e.Workspace, "reserved", &a.reserved, cents)
	if cents > 0 {
		a.openPayouts++
	} else {
		a.openPayouts--
	}
}

// addLedgerCents adds dollars of a journal event, also to the authorizer's expected sum if it has
// applied the event. An overflow is a finding. The folds of events that move dollars call it.
func (b *shardTotals) addLedgerCents(e *persistence.Event, cents money.Cents) {
	a := b.accountOf(e.Workspace)
	addChecked(b, "workspace", e.Workspace, "ledger cents", &a.ledger, cents)
	if e.Position <= b.followed {
		addChecked(b, "workspace", e.Workspace, "followed ledger cents", &a.followed, cents)
	}
}
