package checkout

import (
	"fmt"
	"math/big"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// recordObservation records the change that an observation makes, and its consequences for the
// link. It fails with invalid_body for an observation that no chain makes. Other observations get a
// Noted reply, also without a change.
func (s *State) recordObservation(m decision.Meta, o Observed) (decision.Decision, error) {
	units, err := o.validUnits()
	if err != nil {
		return decision.Decision{}, err
	}
	if !s.Watching || !slices.ContainsFunc(s.Pairs, func(p Pair) bool { return p.Address == o.Address }) {
		return decision.Decision{Reply: NotedNotWatched}, nil
	}
	fact, noted := s.observationEvent(m, o, units)
	if fact == nil {
		return decision.Decision{Reply: noted}, nil
	}
	work := s.clone()
	work.Apply(fact)
	d := decision.Decision{Events: append([]decision.Event{fact}, work.applyConsequences(m)...), Reply: noted}
	if work.Status != Confirming && !m.At.Before(work.watchUntil()) {
		d = work.endWatch(m, d)
	}
	return d, nil
}

// validUnits returns the observation's amount in smallest units. It fails with invalid_body for an
// observation that no chain makes, such as one without a hash.
func (o *Observed) validUnits() (*big.Int, error) {
	units, ok := new(big.Int).SetString(o.Amount, 10)
	switch {
	case !ok || units.Sign() < 0 || len(o.Amount) > maxObservedBytes:
		return nil, badObservation("amount")
	case o.Chain == "" || len(o.Chain) > maxObservedBytes, o.Asset == "" || len(o.Asset) > maxObservedBytes:
		return nil, badObservation("chain or asset")
	case o.TxHash == "" || len(o.TxHash) > maxObservedBytes, o.BlockHash == "" || len(o.BlockHash) > maxObservedBytes:
		return nil, badObservation("hash")
	case len(o.From) > maxObservedBytes, o.Index < 0, o.Confirmations < 0, o.Threshold < 1:
		return nil, badObservation("payer, index or confirmations")
	}
	return units, nil
}

func badObservation(field string) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf("an observation with a bad %s", field))
}

// shownConfirmations scales the confirmations to ShownConfirmations.
func (o *Observed) shownConfirmations() int {
	if o.Confirmations >= o.Threshold {
		return ShownConfirmations
	}
	return o.Confirmations * ShownConfirmations / o.Threshold
}

// observationEvent returns the event of a change, or nil without one, and the reply. Fewer
// confirmations than before are no change: the node is behind.
func (s *State) observationEvent(m decision.Meta, o Observed, units *big.Int) (decision.Event, Noted) {
	at := decision.StampOf(m.At)
	observed := Payment{Chain: o.Chain, Asset: o.Asset, Address: o.Address, TxHash: o.TxHash, Index: o.Index,
		Units: units.String(),
		From:  o.From, SentAt: decision.StampOf(o.At), SeenAt: at,
		Sightings: []Sighting{{BlockHash: o.BlockHash, Block: o.Block, Shown: o.shownConfirmations()}}}
	i := s.Payments.matching(&observed, o.BlockHash)
	switch {
	case i < 0 && o.Removed:
		return nil, NotedKnown
	case i < 0:
		observed.Reason = s.rejectionReason(o, units, m.At)
		return s.newPaymentEvent(observed, at)
	}
	p := &s.Payments[i]
	j := p.sightingIndex(o.BlockHash)
	switch {
	case j < 0 && o.Removed:
		return nil, NotedKnown
	case j < 0:
		again := *p
		again.Sightings = observed.Sightings
		return PaymentSeen{ID: s.ID, Workspace: s.Workspace, Payment: again, At: at}, NotedNew
	case o.Removed && !p.Sightings[j].Withdrawn:
		return PaymentWithdrawn{ID: s.ID, Workspace: s.Workspace, Chain: o.Chain, TxHash: o.TxHash, Index: o.Index,
			BlockHash: o.BlockHash, At: at}, NotedNew
	case !o.Removed && (p.Sightings[j].Withdrawn || o.shownConfirmations() > p.Sightings[j].Shown):
		return PaymentConfirmed{ID: s.ID, Workspace: s.Workspace, Chain: o.Chain, TxHash: o.TxHash, Index: o.Index,
			BlockHash: o.BlockHash, Shown: o.shownConfirmations(), At: at}, NotedNew
	}
	return nil, NotedKnown
}

// newPaymentEvent returns the event of a new payment, or NotedFull when no more are stored. Small
// payments leave places free, so that a stranger cannot keep the true payment out with dust: to
// fill the other places takes the link's amount.
func (s *State) newPaymentEvent(p Payment, at decision.Stamp) (decision.Event, Noted) {
	strays, small := 0, 0
	for i := range s.Payments {
		switch {
		case s.Payments[i].isStray():
			strays++
		case s.isSmall(&s.Payments[i]):
			small++
		}
	}
	switch counted := len(s.Payments) - strays; {
	case p.isStray() && strays >= MaxStrays, !p.isStray() && counted >= MaxPayments,
		!p.isStray() && s.isSmall(&p) && small >= MaxSmallPayments:
		return nil, NotedFull
	}
	return PaymentSeen{ID: s.ID, Workspace: s.Workspace, Payment: p, At: at}, NotedNew
}

// isSmall reports whether a payment is worth less than a smallShare-th of the link's amount.
func (s *State) isSmall(p *Payment) bool {
	return s.centsOf(p.Asset, parseUnits(p.Units)) < (s.AmountUsdCents+smallShare-1)/smallShare
}

// applyConsequences applies the consequences of the payments to the state, a copy, and returns
// their events. A link that one observation pays in full is confirming and then completed.
func (s *State) applyConsequences(m decision.Meta) []decision.Event {
	var events []decision.Event
	for {
		e := s.nextConsequence(m)
		if e == nil {
			return events
		}
		s.Apply(e)
		events = append(events, e)
	}
}

// nextConsequence returns the next consequence of the payments, or nil without one.
func (s *State) nextConsequence(m decision.Meta) decision.Event {
	st := s.totalPayments()
	filled := s.isFilled(st)
	short := !filled && st.unconfirmed == 0 && st.live > 0
	switch s.Status {
	case Awaiting, Expired:
		if st.live > 0 {
			return s.statusEvent(m, mustMove(s.Status, onPayment))
		}
	case Underpaid:
		if !short {
			return s.statusEvent(m, mustMove(Underpaid, onPayment))
		}
	case Confirming:
		switch {
		case filled:
			return s.completionByPayments(m, st)
		case short:
			return s.statusEvent(m, mustMove(Confirming, onUnderpay))
		}
	}
	return nil
}

// completing returns the payment that completes the link: the counted, confirmed payment that was
// observed last. It panics without one.
func (l paymentList) completing() Payment {
	for i := len(l) - 1; i >= 0; i-- {
		if p := &l[i]; p.isCounted() && p.Confirmed() {
			return *p
		}
	}
	panic("BUG: link completed without a confirmed payment")
}
