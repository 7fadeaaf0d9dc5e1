package checkout

import (
	"fmt"
	"math/big"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// observed finds out what is new in what a chain says, and what follows for the link.
func (s *State) observed(m decision.Meta, o Observed) (decision.Decision, error) {
	units, err := o.check()
	if err != nil {
		return decision.Decision{}, err
	}
	if !s.Watching || !slices.ContainsFunc(s.Pairs, func(p Pair) bool { return p.Address == o.Address }) {
		return decision.Decision{Reply: NotedNotWatched}, nil
	}
	fact, noted := s.factOf(m, o, units)
	if fact == nil {
		return decision.Decision{Reply: noted}, nil
	}
	work := s.clone()
	work.Apply(fact)
	d := decision.Decision{Events: append([]decision.Event{fact}, work.follow(m)...), Reply: noted}
	if work.Status != Confirming && !m.At.Before(work.watchUntil()) {
		d = work.endWatch(m, d)
	}
	return d, nil
}

// check refuses what no chain says.
func (o *Observed) check() (*big.Int, error) {
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

func badObservation(what string) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf("an observation with a bad %s", what))
}

// shown scales the confirmations.
func (o *Observed) shown() int {
	if o.Confirmations >= o.Threshold {
		return ShownConfirmations
	}
	return o.Confirmations * ShownConfirmations / o.Threshold
}

// factOf is the event that says what is new; nil when nothing is. Confirmations that become fewer are no news: the node is
// behind.
func (s *State) factOf(m decision.Meta, o Observed, units *big.Int) (decision.Event, Noted) {
	at := decision.StampOf(m.At)
	told := Payment{Chain: o.Chain, Asset: o.Asset, Address: o.Address, TxHash: o.TxHash, Index: o.Index, Units: units.String(),
		From: o.From, SentAt: decision.StampOf(o.At), SeenAt: at,
		Sightings: []Sighting{{BlockHash: o.BlockHash, Block: o.Block, Shown: o.shown()}}}
	i := s.paymentOf(&told, o.BlockHash)
	switch {
	case i < 0 && o.Removed:
		return nil, NotedKnown
	case i < 0:
		told.Reason = s.reasonOf(o, units, m.At)
		return s.firstSeen(told, at)
	}
	p := &s.Payments[i]
	j := p.sighting(o.BlockHash)
	switch {
	case j < 0 && o.Removed:
		return nil, NotedKnown
	case j < 0:
		again := *p
		again.Sightings = told.Sightings
		return PaymentSeen{ID: s.ID, Workspace: s.Workspace, Payment: again, At: at}, NotedNew
	case o.Removed && !p.Sightings[j].Withdrawn:
		return PaymentWithdrawn{ID: s.ID, Workspace: s.Workspace, Chain: o.Chain, TxHash: o.TxHash, Index: o.Index,
			BlockHash: o.BlockHash, At: at}, NotedNew
	case !o.Removed && (p.Sightings[j].Withdrawn || o.shown() > p.Sightings[j].Shown):
		return PaymentConfirmed{ID: s.ID, Workspace: s.Workspace, Chain: o.Chain, TxHash: o.TxHash, Index: o.Index,
			BlockHash: o.BlockHash, Shown: o.shown(), At: at}, NotedNew
	}
	return nil, NotedKnown
}

// firstSeen is a payment that was not known, when there is room for it.
func (s *State) firstSeen(p Payment, at decision.Stamp) (decision.Event, Noted) {
	strays := 0
	for i := range s.Payments {
		if s.Payments[i].stray() {
			strays++
		}
	}
	if p.stray() && strays >= MaxStrays || !p.stray() && len(s.Payments)-strays >= MaxPayments {
		return nil, NotedFull
	}
	return PaymentSeen{ID: s.ID, Workspace: s.Workspace, Payment: p, At: at}, NotedNew
}

// follow applies to a copy of the state what the payments now bring about, and returns it: a link that is seen paid in full in
// one word is confirming and completed at once.
func (s *State) follow(m decision.Meta) []decision.Event {
	var events []decision.Event
	for {
		e := s.next(m)
		if e == nil {
			return events
		}
		s.Apply(e)
		events = append(events, e)
	}
}

// next is the next thing that the payments bring about; nil when they bring about nothing.
func (s *State) next(m decision.Meta) decision.Event {
	st := s.standing()
	filled := s.isFilled(st)
	short := !filled && st.unconfirmed == 0 && st.live > 0
	switch s.Status {
	case Awaiting, Expired:
		if st.live > 0 {
			return s.moved(m, mustGo(s.Status, stepSee))
		}
	case Underpaid:
		if !short {
			return s.moved(m, mustGo(Underpaid, stepSee))
		}
	case Confirming:
		switch {
		case filled:
			return s.filled(m, st)
		case short:
			return s.moved(m, mustGo(Confirming, stepFall))
		}
	}
	return nil
}

// filledBy is the payment that completes the link: of those that count and are confirmed, the one that was seen last.
func (s *State) filledBy() Payment {
	for i := len(s.Payments) - 1; i >= 0; i-- {
		if p := &s.Payments[i]; p.counts() && p.Confirmed() {
			return *p
		}
	}
	panic("BUG: completed by no payment")
}
