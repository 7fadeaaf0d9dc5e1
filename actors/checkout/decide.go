package checkout

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Keys of the timers.
const (
	timerEnd   = "end"   // the link's end, then the last look
	timerWatch = "watch" // the end of the grace, then the day for what has not confirmed
)

// Decide says what follows from a command. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if create, ok := command.(Create); ok {
		return s.create(m, create)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	switch c := command.(type) {
	case Select:
		return s.selectPair(m, c)
	case Cancel:
		return s.cancel(m)
	case Simulate:
		return s.simulate(m)
	case Observed:
		return s.observed(m, c)
	case Credit:
		return s.credit(m), nil
	case decision.Fire:
		return s.fire(m, c), nil
	case decision.Read:
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	panic(fmt.Sprintf("BUG: checkout command %T", command))
}

func (s *State) create(m decision.Meta, c Create) (decision.Decision, error) {
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
		SettlementOption: c.SettlementOption, Sandbox: c.Sandbox, ToleranceCents: c.Tolerance.Of(c.AmountUsdCents),
		ExpiresAt: decision.StampOf(m.At.Add(c.Expires)), At: decision.StampOf(m.At)}
	after := State{}
	after.Apply(created)
	return decision.Decision{
		Events:  []decision.Event{created},
		Reply:   after.View(m.At),
		Records: []decision.Record{{Kind: RecordText, ID: c.ID, Document: c.Text, Personal: true}},
		Timers:  []decision.Timer{{Key: timerEnd, Due: created.ExpiresAt.Time}},
	}, nil
}

// statusFor is the status in which a request of somebody finds the link. One that nobody has paid and that is past its end is
// expired, whatever is still looked for.
func (s *State) statusFor(m decision.Meta) string { return s.StatusAt(m.At) }

func (s *State) selectPair(m decision.Meta, c Select) (decision.Decision, error) {
	pair, accepted := s.pair(c.Asset, c.Chain)
	if !accepted {
		return decision.Decision{}, fault.New(fault.PairNotSupported, "the link cannot be paid with that asset on that chain")
	}
	if _, err := after(s.statusFor(m), stepSelect); err != nil {
		return decision.Decision{}, err
	}
	work := s.clone()
	var d decision.Decision
	if s.Chosen == nil || *s.Chosen != pair && s.Picks < MaxPicks {
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
	d.Reply = Picked{Pair: pair, Units: units.String(), Coins: CoinsOf(pair.Asset, units), View: work.View(m.At)}
	return d, nil
}

// cancel ends the link now. What was picked is looked at once more, like at an end by time.
func (s *State) cancel(m decision.Meta) (decision.Decision, error) {
	if s.CancelledAt != nil && s.StatusAt(m.At) == Expired {
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	to, err := after(s.statusFor(m), stepCancel)
	if err != nil {
		return decision.Decision{}, err
	}
	work := s.clone()
	at := decision.StampOf(m.At)
	d := decision.Decision{Events: []decision.Event{Cancelled{ID: s.ID, Workspace: s.Workspace, At: at}}}
	if to == Expired {
		d.Events = append(d.Events, s.moved(m, to))
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

func (s *State) simulate(m decision.Meta) (decision.Decision, error) {
	if _, err := after(s.statusFor(m), stepSimulate); err != nil {
		return decision.Decision{}, err
	}
	if s.Status == Completed {
		return decision.Decision{Reply: s.View(m.At)}, nil
	}
	work := s.clone()
	completed := s.completed(m, Payment{TxHash: "simulated_" + s.ID, From: "simulated"})
	completed.Simulated = true
	work.Apply(completed)
	d := decision.Decision{Events: []decision.Event{completed}, Timers: []decision.Timer{{Key: timerEnd}}}
	if !m.At.Before(work.watchUntil()) {
		d = work.endWatch(m, d)
	}
	d.Reply = work.View(m.At)
	return d, nil
}

func (s *State) moved(m decision.Meta, to string) Moved {
	return Moved{ID: s.ID, Workspace: s.Workspace, From: s.Status, To: to, At: decision.StampOf(m.At)}
}

// filled is the completion by the payments that are confirmed.
func (s *State) filled(m decision.Meta, st standing) SessionCompleted {
	mustGo(s.Status, stepFill)
	completed := s.completed(m, s.filledBy())
	completed.ShortfallCents = max(0, s.AmountUsdCents-st.confirmedCents)
	return completed
}

func (s *State) completed(m decision.Meta, by Payment) SessionCompleted {
	return SessionCompleted{ID: s.ID, Workspace: s.Workspace, From: s.Status, AmountUsdCents: s.AmountUsdCents, TxHash: by.TxHash,
		PayerAddress: by.From, At: decision.StampOf(m.At)}
}

// credit notes the credit once.
func (s *State) credit(m decision.Meta) decision.Decision {
	if s.Status != Completed {
		panic("BUG: a credit of a link that is " + s.Status)
	}
	if s.CreditedAt != nil {
		return decision.Decision{}
	}
	return decision.Decision{Events: []decision.Event{SessionCredited{ID: s.ID, Workspace: s.Workspace,
		AmountUsdCents: s.AmountUsdCents, ShortfallCents: s.ShortfallCents, TxHash: s.TxHash,
		PayerAddress: s.PayerAddress, At: decision.StampOf(m.At)}}}
}

func (s *State) fire(m decision.Meta, f decision.Fire) decision.Decision {
	switch f.Key {
	case timerEnd:
		return s.fireEnd(m)
	case timerWatch:
		return s.fireWatch(m)
	}
	panic("BUG: checkout timer " + f.Key)
}

// fireEnd expires a link that nobody has paid: at its end when nobody picked a way to pay either, else after the last look.
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
	return decision.Decision{Events: []decision.Event{s.moved(m, mustGo(s.Status, stepEnd))}}
}

// fireWatch ends the watch after the grace, but for a link that waits for confirmations, or for a
// payment to come back: that has until a day after its time to live. A link whose confirmed
// payments are within its tolerance is completed then, because the payment that is still
// unconfirmed will not be the rest.
func (s *State) fireWatch(m decision.Meta) decision.Decision {
	if !s.Watching {
		return decision.Decision{}
	}
	due := s.watchUntil()
	if m.At.Before(due) {
		return decision.Decision{Timers: []decision.Timer{{Key: timerWatch, Due: due}}}
	}
	var d decision.Decision
	switch st := s.standing(); {
	case s.Status == Confirming && s.isTolerable(st):
		d.Events = append(d.Events, s.filled(m, st))
	case s.Status == Confirming && st.live > 0:
		d.Events = append(d.Events, s.moved(m, mustGo(Confirming, stepStale)))
	case s.Status == Confirming:
		d.Events = append(d.Events, s.moved(m, mustGo(Confirming, stepLose)))
	}
	return s.endWatch(m, d)
}

// watchUntil is when nothing more can come of a payment, as things stand: one that was withdrawn may be in a later block.
func (s *State) watchUntil() time.Time {
	if s.Status == Confirming || s.Status == Underpaid && s.misses() {
		return s.ExpiresAt.Add(StaleAfter)
	}
	return s.End().Add(Grace)
}

// endWatch adds to a decision that nothing is watched any more.
func (s *State) endWatch(m decision.Meta, d decision.Decision) decision.Decision {
	if !s.Watching {
		return d
	}
	d.Events = append(d.Events, WatchEnded{ID: s.ID, Workspace: s.Workspace, At: decision.StampOf(m.At)})
	d.Records = append(d.Records, decision.Record{Kind: RecordWatch, ID: s.ID, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: timerWatch})
	return d
}
