package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/persistence"
	"purser/persistence/ident"
)

// An order of which the bank has reported nothing for balance.LapseAfter is asked about by our
// reference, and again every balance.LapseAskEvery until it ends. Only an order that the bank
// neither acknowledged nor has is released. An order that the bank has waits for its report. From
// the expected day and the bank days of its rail on it is overdue: a metric and a log line name it,
// and a person decides by `purser payouts resolve`.
//
// No ramp order is released by time either. One that the ramp's partner has not acknowledged is
// given again until the partner takes or refuses it. One that the partner took waits for its report
// and is overdue like a payout.

const (
	maxLapseCalls  = 16 // inquiries under way
	lapsesOfTenant = 2  // of one workspace
	lapseWithin    = 10 * time.Second
	overdueRead    = 500 // records of one read of OverdueOrders
	// MaxOverdueListed is how many orders OverdueOrders lists.
	MaxOverdueListed = 10_000
)

// lapseBankDays is how many bank days after the expected day an order of a rail is overdue.
var lapseBankDays = map[string]int{balance.RailACH: 2, balance.RailWire: 1, balance.RailRealtime: 1,
	balance.RailIntlWire: 5}

// dealBankDays and rampBankDays are the same for a conversion and for a ramp order, from the day on
// which they were ordered.
const (
	dealBankDays = 2
	rampBankDays = 2
)

// lapse is an order that has no report, about which the bank is to be asked. Kind is that of its
// record.
type lapse struct{ workspace, kind, id string }

// openOrder is what all kinds of order have in their records.
type openOrder struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	Rail       string    `json:"rail"`
	ExpectedOn string    `json:"expectedOn"`
	CreatedAt  time.Time `json:"createdAt"`
}

// sent reports whether the bank or the ramp's partner may have the order.
func (o *openOrder) sent() bool {
	switch o.Status {
	case balance.PayoutSubmitting, balance.PayoutSubmitted, balance.PayoutUnknown, balance.ConversionSubmitted,
		balance.RampCreated, balance.RampProcessing:
		return true
	}
	return false
}

// overdueAt is when a person has to decide about an order that the bank has and does not report.
// known is false for a payout without an expected day, as an earlier version made them; the person
// may then decide from the first inquiry on.
func (s *System) overdueAt(kind string, o *openOrder) (at time.Time, known bool) {
	switch kind {
	case balance.RecordConversion:
		return s.calendar.After(o.CreatedAt, dealBankDays), true
	case balance.RecordRampOrder:
		return s.calendar.After(o.CreatedAt, rampBankDays), true
	}
	day, err := time.Parse(time.DateOnly, o.ExpectedOn)
	if err != nil {
		return o.CreatedAt.Add(balance.LapseAfter), false
	}
	const noon = 17 * time.Hour // noon in New York, which is the same day in UTC
	return s.calendar.After(day.Add(noon), lapseBankDays[o.Rail]), true
}

// offerLapse takes what an actor answered to a timer.
func (s *System) offerLapse(workspace string, reply any) {
	if due, is := reply.(balance.LapseDue); is && (s.bank != nil || due.Kind == balance.RecordRampOrder) {
		s.lapses.offer(lapse{workspace, due.Kind, due.ID})
	}
}

// askLapse asks the bank about one order, and looks whether the order is overdue. A bank that does
// not answer is asked again by the order's timer. The ramp's partner reports
// by itself, and is not asked.
func (s *System) askLapse(ctx context.Context, l lapse) {
	if l.kind != balance.RecordRampOrder {
		s.askBank(ctx, l)
	}
	within, cancel := context.WithTimeout(s.ctx, lapseWithin)
	defer cancel()
	if err := s.noteOverdue(within, l); err != nil && s.ctx.Err() == nil {
		s.Complain("overdue orders", err, "order", l.id)
	}
}

func (s *System) askBank(ctx context.Context, l lapse) {
	ctx, cancel := context.WithTimeout(ctx, lapseWithin)
	defer cancel()
	standing, err := s.bank.Standing(ctx, l.id)
	switch {
	case errors.Is(err, partner.ErrUnknown):
		err = s.release(ctx, l)
	case err == nil && standing == partner.Pending:
	case err == nil && l.kind == balance.RecordPayout:
		err = s.reportStanding(ctx, l.workspace, l.id, standing)
	case err == nil:
		err = s.reportDeal(ctx, l.workspace, l.id, standing)
	}
	if err != nil && ctx.Err() == nil {
		s.Complain("the bank is asked about an order that it has not reported", err, "order", l.id)
	}
}

// release reports to the balance that the bank does not have an order.
func (s *System) release(ctx context.Context, l lapse) error {
	var command any = balance.LapsePayout{ID: l.id}
	if l.kind == balance.RecordConversion {
		command = balance.LapseConversion{ID: l.id}
	}
	_, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: l.workspace, Workspace: l.workspace, Command: command})
	return err
}

// overdue has the orders that were found overdue, and when each was last found so.
type overdue struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// noteOverdue looks whether an order is open and overdue, after the bank has been asked about it.
func (s *System) noteOverdue(ctx context.Context, l lapse) error {
	o, err := readDocument[openOrder](ctx, s, l.kind, l.workspace, l.id)
	if err != nil {
		return err
	}
	at, _ := s.overdueAt(l.kind, &o)
	s.overdue.mu.Lock()
	defer s.overdue.mu.Unlock()
	if !o.sent() || s.clock().Before(at) {
		delete(s.overdue.seen, l.id)
		return nil
	}
	if s.overdue.seen == nil {
		s.overdue.seen = make(map[string]time.Time)
	}
	s.overdue.seen[l.id] = s.clock()
	s.log.Error("an order is overdue: the partner does not report it, and a person has to decide; `purser payouts overdue` "+
		"lists such orders", "order", l.id, "workspace", l.workspace, "status", o.Status)
	return nil
}

// overdueCount is how many orders were found overdue in the last two rounds of inquiries.
func (s *System) overdueCount() int64 {
	s.overdue.mu.Lock()
	defer s.overdue.mu.Unlock()
	for id, at := range s.overdue.seen {
		if s.clock().Sub(at) > 2*balance.LapseAskEvery {
			delete(s.overdue.seen, id)
		}
	}
	return int64(len(s.overdue.seen))
}

// OverdueOrder is an order that a person has to decide about.
type OverdueOrder struct {
	Kind      string    `json:"kind"` // payout, conversion or ramp_order
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Status    string    `json:"status"`
	Since     time.Time `json:"since,omitzero"` // zero: not known
}

// OverdueOrders reads the records of all orders and lists those that are overdue, at most
// MaxOverdueListed.
func (s *System) OverdueOrders(ctx context.Context) ([]OverdueOrder, error) {
	all := []OverdueOrder{}
	for _, sh := range s.shards {
		for _, kind := range []string{balance.RecordPayout, balance.RecordConversion, balance.RecordRampOrder} {
			err := s.eachOrder(ctx, sh.id, kind, func(workspace string, o *openOrder) {
				at, known := s.overdueAt(kind, o)
				if !o.sent() || s.clock().Before(at) || len(all) == MaxOverdueListed {
					return
				}
				if !known {
					at = time.Time{}
				}
				all = append(all, OverdueOrder{Kind: kind, ID: o.ID, Workspace: workspace, Status: o.Status, Since: at})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *System) eachOrder(ctx context.Context, shard ident.Shard, kind string,
	visit func(workspace string, o *openOrder)) error {
	for after := ""; ; {
		records, err := s.journal.Records(ctx, shard, kind, after, overdueRead)
		if err != nil || len(records) == 0 {
			return err
		}
		for i := range records {
			var o openOrder
			if err := json.Unmarshal(records[i].Document, &o); err != nil {
				return fmt.Errorf("record %s: %w", kind, err)
			}
			visit(records[i].Workspace, &o)
		}
		after = records[len(records)-1].ID
	}
}

// ResolveOrder notes what a person has found out about an order that the bank does not report:
// whether it was settled. It is taken as the bank's report. An order that is open and not overdue
// yet is refused.
func (s *System) ResolveOrder(ctx context.Context, id string, settled bool) error {
	kind := orderKind(id)
	slot, err := ident.SlotOf(id)
	if err != nil {
		return fault.New(fault.NotFound, "")
	}
	record, err := s.Find(ctx, slot, kind, id)
	if err != nil {
		return err
	}
	command, err := s.resolution(record, settled)
	if err != nil {
		return err
	}
	_, err = s.Ask(ctx, Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: command})
	if err == nil {
		err = s.noteOverdue(ctx, lapse{record.Workspace, kind, id})
	}
	return err
}

// orderKind is the record's kind of an order's id.
func orderKind(id string) string {
	for prefix, kind := range map[string]string{ident.Conversion: balance.RecordConversion,
		ident.RampOrder: balance.RecordRampOrder, ident.Withdrawal: balance.RecordRampOrder} {
		if _, err := ident.Parse(prefix, id); err == nil {
			return kind
		}
	}
	return balance.RecordPayout
}

// resolution is the command of ResolveOrder.
func (s *System) resolution(record persistence.Record, settled bool) (any, error) {
	var o openOrder
	if err := json.Unmarshal(record.Document, &o); err != nil {
		return nil, fmt.Errorf("record %s: %w", record.Kind, err)
	}
	if at, _ := s.overdueAt(record.Kind, &o); o.sent() && s.clock().Before(at) {
		return nil, fault.New(fault.Unavailable, "The order is not overdue before "+at.Format(time.DateOnly)+
			"; nothing changed.")
	}
	outcome := func(good, bad string) string {
		if settled {
			return good
		}
		return bad
	}
	event := "resolved/" + o.ID
	switch record.Kind {
	case balance.RecordConversion:
		return balance.ReportConversion{EventID: event, ID: o.ID,
			Outcome: outcome(balance.ConversionCompleted, balance.ConversionFailed)}, nil
	case balance.RecordRampOrder:
		return balance.ReportRamp{EventID: event, ID: o.ID,
			Outcome: outcome(balance.RampCompleted, balance.RampFailed)}, nil
	}
	return balance.ReportPayout{EventID: event, ID: o.ID,
		Outcome: outcome(balance.PayoutSettled, balance.PayoutFailed)}, nil
}

// abandonedWithin bounds how long a start looks for orders that an earlier process was sending.
const abandonedWithin = 2 * time.Second

// abandonedOrders returns the timers of the orders that an earlier process was sending: their calls
// ended with it, so that no answer comes. It is called before this process sends any. The orders of
// a shard that is not read in time wait for their timers.
func (s *System) abandonedOrders(ctx context.Context) (abandoned []persistence.Timer) {
	if s.config.Still {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, abandonedWithin)
	defer cancel()
	for _, sh := range s.shards {
		timers, err := s.answersAwaited(ctx, sh.id)
		if err != nil {
			s.Complain("timers", err, "shard", sh.id)
		}
		abandoned = append(abandoned, timers...)
	}
	return abandoned
}

// silenceOrders makes the outcome of the orders unknown that abandonedOrders has found.
func (s *System) silenceOrders(ctx context.Context, timers []persistence.Timer) {
	for i := 0; i < len(timers) && ctx.Err() == nil; i++ {
		s.FireTimer(ctx, timers[i])
	}
}

// answersAwaited returns the timers of a shard that wait for the bank's answer to an order.
func (s *System) answersAwaited(ctx context.Context, shard ident.Shard) (awaited []persistence.Timer, err error) {
	before := s.clock().Add(balance.AnswerWithin)
	for after := (persistence.Timer{}); ; {
		timers, err := s.journal.Timers(ctx, shard, before, after, persistence.MaxPage)
		if err != nil {
			return awaited, err
		}
		for _, t := range timers {
			if t.Kind == "balance" && balance.AwaitsAnswer(t.Key) {
				awaited = append(awaited, t)
			}
		}
		if len(timers) < persistence.MaxPage {
			return awaited, nil
		}
		after = timers[len(timers)-1]
	}
}
