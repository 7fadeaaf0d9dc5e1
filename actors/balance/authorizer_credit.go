package balance

import (
	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Credit returns the dollars that an event adds to the authorizer's ledgerCents, and the
// reservation that it settles ("" for none). Relayed entries add nothing: the authorizer decided
// them and counts them itself. The result ok is false for an event that concerns no dollars.
func Credit(e decision.Event) (workspace string, cents money.Cents, settles string, ok bool) {
	switch e := e.(type) {
	case DepositSettled:
		return e.Workspace, e.AmountUsdCents, "", true
	case DepositReceived:
		return e.Workspace, e.Deposit.AmountUsdCents, "", true
	case PayoutCreated:
		return e.Workspace, -e.Payout.AmountCents, ReservationOf(e.Payout.ID), true
	case PayoutMoved:
		cents := effectOfMove(e.From, e.To, e.AmountCents).ledger
		return e.Workspace, cents, "", cents != 0
	case RampOrdered:
		if e.Order.Direction == RampOn {
			return e.Workspace, -e.Order.AmountCents, reservationOf(ident.RampOrder, e.Order.ID), true
		}
	case RampMoved:
		cents := dollarsOf(e.Postings)
		return e.Workspace, cents, "", cents != 0
	case PhysicalCardOrdered:
		if e.Order.FeeCents > 0 {
			return e.Workspace, -e.Order.FeeCents, reservationOf(ident.PhysicalOrder, e.Order.ID), true
		}
	case PhysicalCardRefused:
		return e.Workspace, e.FeeCents, "", e.FeeCents != 0
	}
	return "", 0, "", false
}

// dollarsOf is the sum that postings add to AccountUSD.
func dollarsOf(postings []Posting) (cents money.Cents) {
	for _, p := range postings {
		if p.Account == AccountUSD {
			cents = money.MustAdd(cents, p.Amount.Cents())
		}
	}
	return cents
}
