package checkout

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Keys of the timers.
const (
	timerEnd   = "end"   // the link's end, then the end of the last look
	timerWatch = "watch" // the end of the grace, then the last time for unconfirmed payments
)

// Decide returns the decision for a command, with the change of the workspace's count of open
// links. Its errors are the faults of the command's decision; a link that does not exist is
// not_found. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	d, err := s.decideCommand(m, command)
	if err != nil {
		return d, err
	}
	d.Tallies = s.tallyChanges(d.Events)
	return d, nil
}

// decideCommand calls the decision function of the command's type and returns its result and its
// fault. Every command but Create is not_found for a link that does not exist. An unknown command
// panics.
func (s *State) decideCommand(m decision.Meta, command any) (decision.Decision, error) {
	if create, ok := command.(Create); ok {
		return s.createLink(m, create)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Select:
		return s.selectPair(m, c)
	case Cancel:
		return s.cancelLink(m)
	case Simulate:
		return s.simulatePayment(m)
	case Observed:
		return s.recordObservation(m, c)
	case Credit:
		return s.recordCredit(m), nil
	case decision.Fire:
		return s.fireTimer(m, c), nil
	case decision.Read:
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	panic(fmt.Sprintf("BUG: checkout command %T", command))
}

// createLink creates the link and sets the timer of its end. It fails with Check's invalid_body. It
// panics for a second Create, and for a pair without an address or a price.
func (s *State) createLink(m decision.Meta, c Create) (decision.Decision, error) {
	if s.ID != "" || c.ID == "" || c.Workspace == "" {
		panic("BUG: session without an id, or created twice")
	}
	if err := c.Check(); err != nil {
		return decision.Decision{}, err
	}
	if !c.Tolerance.IsValid() {
		panic("BUG: a tolerance out of bounds")
	}
	for _, p := range c.Accepted.Pairs {
		if p.Address == "" || Priced(p.Asset) && c.Prices[p.Asset] == "" {
			panic("BUG: a pair without an address or a price")
		}
	}
	created := Created{ID: c.ID, Workspace: c.Workspace, AmountUsdCents: c.AmountUsdCents, Assets: c.Accepted.Assets,
		Chains: c.Accepted.Chains, Pairs: c.Accepted.Pairs, Indexes: c.Indexes, Prices: c.Prices,
		SettlementOption: c.SettlementOption, Sandbox: c.Sandbox,
		ToleranceCents: c.Tolerance.ShortfallFor(c.AmountUsdCents),
		ExpiresAt:      decision.StampOf(m.At.Add(c.Expires)), At: decision.StampOf(m.At)}
	after := State{}
	after.Apply(created)
	return decision.Decision{
		Events:  []decision.Event{created},
		Reply:   after.View(m.At),
		Records: []decision.Record{{Kind: RecordText, ID: c.ID, Document: c.Text, Personal: true}},
		Timers:  []decision.Timer{{Key: timerEnd, Due: created.ExpiresAt.Time}},
	}, nil
}

// selectPair records the pair that the payer chose and begins the watch for payments. Beyond
// MaxSelections it records no other choice. It fails with pair_not_supported, with link_ended, and
// with payment_seen for a link that is being paid.
func (s *State) selectPair(m decision.Meta, c Select) (decision.Decision, error) {
	pair, accepted := s.pairOf(c.Asset, c.Chain)
	if !accepted {
		return decision.Decision{}, fault.New(fault.PairNotSupported,
			"the link cannot be paid with that asset on that chain")
	}
	if _, err := nextStatus(s.StatusAt(m.At), onSelect); err != nil {
		return decision.Decision{}, err
	}
	work := s.clone()
	var d decision.Decision
	if s.Chosen == nil || *s.Chosen != pair && s.Selections < MaxSelections {
		d.Events = []decision.Event{Selected{ID: s.ID, Workspace: s.Workspace, Chosen: pair, Pairs: s.Pairs,
			At: decision.StampOf(m.At)}}
		work.Apply(d.Events[0])
	}
	if !s.Watching {
		d.Records = []decision.Record{{Kind: RecordWatch, ID: s.ID,
			Document: Watch{Session: s.ID, Workspace: s.Workspace, Pairs: s.Pairs}}}
		d.Timers = []decision.Timer{{Key: timerWatch, Due: s.End().Add(Grace)}}
	}
	units := s.UnitsOf(pair.Asset, s.AmountUsdCents)
	d.Reply = Selection{Pair: pair, Units: units.String(), Coins: CoinsOf(pair.Asset, units), View: work.View(m.At)}
	return d, nil
}

// cancelLink ends the link now. A selected pair gets a last look, as at an end by time. It fails
// with payment_seen for a link that is paid or being paid, and with link_expired for one that
// expired; a repeat changes nothing.
func (s *State) cancelLink(m decision.Meta) (decision.Decision, error) {
	if s.CancelledAt != nil && s.StatusAt(m.At) == Expired {
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	to, err := nextStatus(s.StatusAt(m.At), onCancel)
	if err != nil {
		return decision.Decision{}, err
	}
	work := s.clone()
	at := decision.StampOf(m.At)
	d := decision.Decision{Events: []decision.Event{Cancelled{ID: s.ID, Workspace: s.Workspace, At: at}}}
	if to == Expired {
		d.Events = append(d.Events, s.statusEvent(m, to))
		d.Timers = []decision.Timer{{Key: timerEnd}}
	} else {
		d.Timers = []decision.Timer{{Key: timerEnd, Due: at.Add(LastLook)}, {Key: timerWatch, Due: at.Add(Grace)}}
	}
	for _, e := range d.Events {
		work.Apply(e)
	}
	d.Reply = work.View(m.At)
	return d, nil
}

// simulatePayment completes a sandbox link without a payment. It fails with
// asset_chain_not_selected before a selection and with link_expired for an ended link; a completed
// link is replied again.
func (s *State) simulatePayment(m decision.Meta) (decision.Decision, error) {
	if _, err := nextStatus(s.StatusAt(m.At), onSimulate); err != nil {
		return decision.Decision{}, err
	}
	if s.Status == Completed {
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	work := s.clone()
	completed := s.completionBy(m, Payment{TxHash: "simulated_" + s.ID, From: "simulated"})
	completed.Simulated = true
	work.Apply(completed)
	d := decision.Decision{Events: []decision.Event{completed}, Timers: []decision.Timer{{Key: timerEnd}}}
	if !m.At.Before(work.watchUntil()) {
		d = work.endWatch(m, d)
	}
	d.Reply = work.View(m.At)
	return d, nil
}

func (s *State) statusEvent(m decision.Meta, to string) Moved {
	return Moved{ID: s.ID, Workspace: s.Workspace, From: s.Status, To: to, At: decision.StampOf(m.At)}
}

// completionByPayments returns the completion by confirmed payments.
func (s *State) completionByPayments(m decision.Meta, st paymentTotals) SessionCompleted {
	mustMove(s.Status, onComplete)
	completed := s.completionBy(m, s.Payments.completing())
	completed.ShortfallCents = max(0, s.AmountUsdCents-st.confirmedCents)
	return completed
}

func (s *State) completionBy(m decision.Meta, by Payment) SessionCompleted {
	return SessionCompleted{ID: s.ID, Workspace: s.Workspace, From: s.Status, AmountUsdCents: s.AmountUsdCents,
		TxHash:       by.TxHash,
		PayerAddress: by.From, At: decision.StampOf(m.At)}
}

// recordCredit records once that the balance was credited. It panics for a link that is not
// completed.
func (s *State) recordCredit(m decision.Meta) decision.Decision {
	if s.Status != Completed {
		panic("BUG: a credit of a link in status " + s.Status)
	}
	if s.CreditedAt != nil {
		return decision.Decision{}
	}
	return decision.Decision{Events: []decision.Event{SessionCredited{ID: s.ID, Workspace: s.Workspace,
		AmountUsdCents: s.AmountUsdCents, ShortfallCents: s.ShortfallCents, TxHash: s.TxHash,
		PayerAddress: s.PayerAddress, At: decision.StampOf(m.At)}}}
}

// fireTimer decides a fired timer of the link, the end or the watch. A key of another timer panics.
func (s *State) fireTimer(m decision.Meta, f decision.Fire) decision.Decision {
	switch f.Key {
	case timerEnd:
		return s.fireEnd(m)
	case timerWatch:
		return s.fireWatch(m)
	}
	panic("BUG: checkout timer " + f.Key)
}

// fireEnd expires an unpaid link: at its end when no pair was selected, else after the last look. A
// timer that fires early is set again, and a link in another status stays.
func (s *State) fireEnd(m decision.Meta) decision.Decision {
	due := s.End()
	if s.Status == Awaiting {
		due = due.Add(LastLook)
	}
	switch {
	case s.Status != Pending && s.Status != Awaiting:
		return decision.Decision{}
	case m.At.Before(due):
		return decision.Decision{Timers: []decision.Timer{{Key: timerEnd, Due: due}}}
	}
	return decision.Decision{Events: []decision.Event{s.statusEvent(m, mustMove(s.Status, onExpire))}}
}

// fireWatch ends the watch after the grace. A link with unconfirmed or withdrawn payments is
// watched until StaleAfter past its time to live. A link whose confirmed payments are within its
// tolerance then completes, because the unconfirmed payment will not be the rest.
func (s *State) fireWatch(m decision.Meta) decision.Decision {
	if !s.Watching {
		return decision.Decision{}
	}
	due := s.watchUntil()
	if m.At.Before(due) {
		return decision.Decision{Timers: []decision.Timer{{Key: timerWatch, Due: due}}}
	}
	var d decision.Decision
	switch st := s.totalPayments(); {
	case s.Status == Confirming && s.isTolerable(st):
		d.Events = append(d.Events, s.completionByPayments(m, st))
	case s.Status == Confirming && st.live > 0:
		d.Events = append(d.Events, s.statusEvent(m, mustMove(Confirming, onGiveUp)))
	case s.Status == Confirming:
		d.Events = append(d.Events, s.statusEvent(m, mustMove(Confirming, onFail)))
	}
	return s.endWatch(m, d)
}

// watchUntil returns the time after which no payment can change the present status. A withdrawn
// payment may return in a later block.
func (s *State) watchUntil() time.Time {
	if s.Status == Confirming || s.Status == Underpaid && s.Payments.hasWithdrawn() {
		return s.ExpiresAt.Add(StaleAfter)
	}
	return s.End().Add(Grace)
}

// endWatch adds the end of the watch to a decision: its event, the deletion of its record and of
// its timer. Without a watch it adds nothing. fireWatch, simulatePayment and recordObservation call
// it.
func (s *State) endWatch(m decision.Meta, d decision.Decision) decision.Decision {
	if !s.Watching {
		return d
	}
	d.Events = append(d.Events, WatchEnded{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)})
	d.Records = append(d.Records, decision.Record{Kind: RecordWatch, ID: s.ID, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: timerWatch})
	return d
}
