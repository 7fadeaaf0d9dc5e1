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
	"purser/actors/ident"
	"purser/actors/partner"
	"purser/persistence"
)

// An order of which the bank has reported nothing for balance.LapseAfter is asked about by our
// reference, and again every balance.LapseAskEvery until it ends. Only an order that the bank
// neither acknowledged nor has is released. An order that the bank has waits for its report. From
// the expected day and the bank days of its rail on it is overdue: a metric and a log line tell,
// and a person decides by `purser payouts resolve`.

const (
	maxLapseCalls  = 16 // inquiries under way
	lapsesOfTenant = 2  // of one workspace
	lapseWithin    = 10 * time.Second
	overdueRead    = 500 // records of one read of OverdueOrders
	// MaxOverdueListed is how many orders OverdueOrders lists.
	MaxOverdueListed = 10_000
)

// lapseBankDays is how many bank days after the expected day an order of a rail is overdue.
var lapseBankDays = map[string]int{balance.RailACH: 2, balance.RailWire: 1, balance.RailRealtime: 1, balance.RailIntlWire: 5}

// dealBankDays is the same for a conversion, from the day on which it was ordered.
const dealBankDays = 2

// lapse is an order that the bank is to be asked about. Kind is that of its record.
type lapse struct{ workspace, kind, id string }

// openOrder is what both kinds of order have in their records.
type openOrder struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	Rail       string    `json:"rail"`
	ExpectedOn string    `json:"expectedOn"`
	CreatedAt  time.Time `json:"createdAt"`
}

// sent reports whether the bank may have the order.
func (o *openOrder) sent() bool {
	switch o.Status {
	case balance.PayoutSubmitting, balance.PayoutSubmitted, balance.PayoutUnknown, balance.ConversionSubmitted:
		return true
	}
	return false
}

// overdueAt is when a person has to decide about an order that the bank has and does not report.
func (s *System) overdueAt(kind string, o *openOrder) (time.Time, error) {
	if kind == balance.RecordConversion {
		return s.calendar.After(o.CreatedAt, dealBankDays), nil
	}
	day, err := time.Parse(time.DateOnly, o.ExpectedOn)
	if err != nil {
		return day, fmt.Errorf("expected day of %s: %w", o.ID, err)
	}
	const noon = 17 * time.Hour // noon in New York, which is the same day in UTC
	return s.calendar.After(day.Add(noon), lapseBankDays[o.Rail]), nil
}

// offerLapse takes what an actor answered to a timer.
func (s *System) offerLapse(workspace string, reply any) {
	if due, is := reply.(balance.LapseDue); is && s.bank != nil {
		s.lapses.offer(lapse{workspace, due.Kind, due.ID})
	}
}

// askLapse asks the bank about one order. A bank that does not answer is asked again by the order's
// timer.
func (s *System) askLapse(ctx context.Context, l lapse) {
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
		s.complain("the bank is asked about an order that it has not reported", err, "order", l.id)
	}
	within, cancelNote := context.WithTimeout(s.ctx, lapseWithin)
	defer cancelNote()
	if err := s.noteOverdue(within, l); err != nil && s.ctx.Err() == nil {
		s.complain("overdue orders", err, "order", l.id)
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
	at, err := s.overdueAt(l.kind, &o)
	if err != nil {
		return err
	}
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
	s.log.Error("an order is overdue: the bank does not report it, and a person has to decide; `purser payouts overdue` "+
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
	Kind      string    `json:"kind"` // payout or conversion
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Status    string    `json:"status"`
	Since     time.Time `json:"since"`
}

// OverdueOrders reads the records of all orders and lists those that are overdue, at most
// MaxOverdueListed.
func (s *System) OverdueOrders(ctx context.Context) ([]OverdueOrder, error) {
	all := []OverdueOrder{}
	for _, sh := range s.shards {
		for _, kind := range []string{balance.RecordPayout, balance.RecordConversion} {
			err := s.eachOrder(ctx, sh.id, kind, func(workspace string, o *openOrder) error {
				at, err := s.overdueAt(kind, o)
				if err == nil && o.sent() && !s.clock().Before(at) && len(all) < MaxOverdueListed {
					all = append(all, OverdueOrder{Kind: kind, ID: o.ID, Workspace: workspace, Status: o.Status, Since: at})
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *System) eachOrder(ctx context.Context, shard ident.Shard, kind string,
	visit func(workspace string, o *openOrder) error) error {
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
			if err := visit(records[i].Workspace, &o); err != nil {
				return err
			}
		}
		after = records[len(records)-1].ID
	}
}

// ResolveOrder notes what a person has found out about an order that the bank does not report:
// whether it was settled. It is taken as the bank's report. An order that is open and not overdue
// yet is refused.
func (s *System) ResolveOrder(ctx context.Context, id string, settled bool) error {
	kind := balance.RecordPayout
	if _, err := ident.Parse(ident.Conversion, id); err == nil {
		kind = balance.RecordConversion
	}
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
	_, err = s.Ask(ctx, Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace, Command: command})
	if err == nil {
		err = s.noteOverdue(ctx, lapse{record.Workspace, kind, id})
	}
	return err
}

// resolution is the command of ResolveOrder.
func (s *System) resolution(record persistence.Record, settled bool) (any, error) {
	var o openOrder
	if err := json.Unmarshal(record.Document, &o); err != nil {
		return nil, fmt.Errorf("record %s: %w", record.Kind, err)
	}
	at, err := s.overdueAt(record.Kind, &o)
	switch {
	case err != nil:
		return nil, err
	case o.sent() && s.clock().Before(at):
		return nil, fault.New(fault.Unavailable, "The order is not overdue before "+at.Format(time.DateOnly)+"; nothing changed.")
	}
	event := "resolved/" + o.ID
	if record.Kind == balance.RecordConversion {
		outcome := balance.ConversionFailed
		if settled {
			outcome = balance.ConversionCompleted
		}
		return balance.ReportConversion{EventID: event, ID: o.ID, Outcome: outcome}, nil
	}
	outcome := balance.PayoutFailed
	if settled {
		outcome = balance.PayoutSettled
	}
	return balance.ReportPayout{EventID: event, ID: o.ID, Outcome: outcome}, nil
}

// abandonedWithin bounds how long a start looks for orders that an earlier process was sending.
const abandonedWithin = 2 * time.Second

// abandonedOrders returns the timers of the orders that an earlier process was sending: their calls
// ended with it, so that no answer comes. It is called before this process sends any. The orders of a
// shard that is not read in time wait for their timers.
func (s *System) abandonedOrders(ctx context.Context) (abandoned []persistence.Timer) {
	if s.config.Still {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, abandonedWithin)
	defer cancel()
	for _, sh := range s.shards {
		timers, err := s.answersAwaited(ctx, sh.id)
		if err != nil {
			s.complain("timers", err, "shard", sh.id)
		}
		abandoned = append(abandoned, timers...)
	}
	return abandoned
}

// silenceOrders makes the outcome of the orders unknown that abandonedOrders has found.
func (s *System) silenceOrders(ctx context.Context, timers []persistence.Timer) {
	for i := 0; i < len(timers) && ctx.Err() == nil; i++ {
		s.fire(ctx, timers[i])
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
