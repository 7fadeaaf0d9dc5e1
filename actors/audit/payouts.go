package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"purser/persistence"
	"purser/persistence/money"
)

// payout is the state of a payout by its events; its record must equal it.
type payout struct {
	ID          string      `json:"id"`
	Status      string      `json:"status"`
	AmountCents money.Cents `json:"amountCents"`
}

// payoutOrder is the UTC day on which a payout was ordered, and the API key that ordered it.
type payoutOrder struct{ day, key string }

// dayTotal is the sum of the payouts that were ordered on a UTC day, in total and by API key, in
// cents. Cancelled and failed payouts do not count.
type dayTotal struct {
	Day   string                 `json:"day"`
	Cents money.Cents            `json:"cents"`
	Keys  map[string]money.Cents `json:"keys"`
}

// fxQuote is a firm rate of a wire abroad by its events; its record must equal it.
type fxQuote struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	CounterpartyID string `json:"counterpartyId"`
	Sell           amount `json:"sell"`
	Buy            amount `json:"buy"`
	Rate           string `json:"rate"`
	LockExpiresAt  string `json:"lockExpiresAt"`
	CreatedAt      string `json:"createdAt"`
}

// fxQuoteLocked folds a new quote. It fails when the payload does not decode.
func (b *shardTotals) fxQuoteLocked(e *persistence.Event) error {
	var p struct{ Quote fxQuote }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectEqual("fx_quote", p.Quote.ID, "made before", fxQuote{}, b.fxQuotes[p.Quote.ID])
	b.expectEqual("fx_quote", p.Quote.ID, "made", "locked", p.Quote.Status)
	b.fxQuotes[p.Quote.ID] = p.Quote
	return nil
}

// useFXQuote marks the quote of a new payout as used. Another amount than the quote sells, or a
// quote that is not locked, is a finding.
func (b *shardTotals) useFXQuote(id string, p payout) {
	q := b.fxQuotes[id]
	b.expectEqual("payout", p.ID, "its quote", "locked", q.Status)
	b.expectEqual("payout", p.ID, "amount of its quote", q.Sell.AmountMinor, p.AmountCents)
	q.ID, q.Status = id, "used"
	b.fxQuotes[id] = q
}

// addPaidOut adds cents to the sum of a day's payouts; a later day begins a new sum. Negative cents
// of a day that is over change nothing.
func (b *shardTotals) addPaidOut(workspace string, o payoutOrder, cents money.Cents) {
	a := b.accountOf(workspace)
	switch {
	case cents < 0 && o.day != a.paidOut.Day:
		return
	case o.day > a.paidOut.Day:
		a.paidOut = dayTotal{Day: o.day}
	}
	if a.paidOut.Keys == nil {
		a.paidOut.Keys = map[string]money.Cents{}
	}
	addChecked(b, "workspace", workspace, "paid out", &a.paidOut.Cents, cents)
	a.paidOut.Keys[o.key] += cents
	maps.DeleteFunc(a.paidOut.Keys, func(_ string, sum money.Cents) bool { return sum == 0 })
}

// payoutOpen reports whether dollars are reserved for a payout of a status.
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
// decode.
func (b *shardTotals) payoutCreated(e *persistence.Event) error {
	var p struct {
		Payout struct {
			payout
			QuoteID   string
			Key       string
			CreatedAt string
		}
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	made := p.Payout.payout
	if _, known := b.payouts[made.ID]; known || !payoutOpen(made.Status) || made.AmountCents <= 0 {
		b.expectEqual("payout", made.ID, "created", "new, open and of more than nothing", fmt.Sprintf("%+v", made))
	}
	b.payouts[made.ID] = made
	if p.Payout.QuoteID != "" {
		b.useFXQuote(p.Payout.QuoteID, made)
	}
	day, _, _ := strings.Cut(p.Payout.CreatedAt, "T")
	b.ordered[made.ID] = payoutOrder{day, p.Payout.Key}
	b.addPaidOut(e.Workspace, b.ordered[made.ID], made.AmountCents)
	b.addReserved(e, made.AmountCents)
	b.addLedgerCents(e, -made.AmountCents)
	return nil
}

// payoutMoved folds a move: a reservation is paid out or freed; a paid amount comes back; a
// released payout is paid after all. It fails when the payload does not decode.
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
	if ends && (p.To == "cancelled" || p.To == "failed") {
		b.addPaidOut(e.Workspace, b.ordered[p.Payout], -p.AmountCents)
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

// addReserved adds to the reservations of open payouts. An overflow is a finding.
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
// applied the event. An overflow is a finding.
func (b *shardTotals) addLedgerCents(e *persistence.Event, cents money.Cents) {
	a := b.accountOf(e.Workspace)
	addChecked(b, "workspace", e.Workspace, "ledger cents", &a.ledger, cents)
	if e.Position <= b.followed {
		addChecked(b, "workspace", e.Workspace, "followed ledger cents", &a.followed, cents)
	}
}
