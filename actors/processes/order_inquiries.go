package processes

import (
	"context"
	"errors"
	"time"

	"purser/actors/balance"
	"purser/actors/fairshare"
	"purser/actors/partner"
)

// Limits of the inquiries about orders without a report.
const (
	maxInquiries          = 16 // in flight
	maxWorkspaceInquiries = 2  // of one workspace
	inquiryWithin         = 10 * time.Second
)

// orderRef names an order by its record.
type orderRef struct{ workspace, kind, id string }

// orderInquiries asks the bank about orders that it has not reported.
//
// The bank is asked by our reference balance.LapseAfter after the order, and again every
// balance.LapseAskEvery until the order ends. An order is released only when the bank neither
// acknowledged nor has it. An order that the bank has waits for its report, and becomes overdue;
// see OverdueOrders.
//
// No ramp order is released by time either, and the ramp's partner is not asked: an order that the
// partner has not acknowledged is given again until the partner takes or refuses it, and one that
// it took waits for its report.
type orderInquiries struct {
	runtime     Runtime
	bank        partner.Bank // nil while the runtime is Still
	payouts     *payouts
	conversions *conversions
	overdue     *OverdueOrders
	calls       *dispatcher[orderRef]
}

func newOrderInquiries(runtime Runtime, bank partner.Bank, p *payouts, v *conversions,
	o *OverdueOrders) *orderInquiries {
	q := &orderInquiries{runtime: runtime, bank: bank, payouts: p, conversions: v, overdue: o}
	q.calls = newDispatcher(runtime, fairshare.New(maxInquiries, maxWorkspaceInquiries), q.inquire,
		func(o orderRef) (line, workspace string) { return o.id, o.workspace })
	return q
}

// handleTimer starts the inquiry that a balance's answer to its timer asks for, if it asks for one.
// It never blocks.
func (q *orderInquiries) handleTimer(workspace string, reply any) {
	if due, is := reply.(balance.LapseDue); is && (q.bank != nil || due.Kind == balance.RecordRampOrder) {
		q.calls.offer(orderRef{workspace, due.Kind, due.ID})
	}
}

// inquire asks the bank about an order that it has not reported, and then notes whether the order
// is overdue. A failure is logged; the order's timer asks again.
func (q *orderInquiries) inquire(ctx context.Context, o orderRef) {
	if o.kind != balance.RecordRampOrder {
		q.askBank(ctx, o)
	}
	within, cancel := q.runtime.Within(ctx, inquiryWithin)
	defer cancel()
	if err := q.overdue.note(within, o); err != nil && ctx.Err() == nil {
		q.runtime.Complain("overdue orders", err, "order", o.id)
	}
}

// askBank asks the bank for an order and gives the balance its answer: a final standing as a
// report, or the release of an order that the bank does not have. A pending order changes nothing.
// A failure is logged; the order's timer asks again.
func (q *orderInquiries) askBank(ctx context.Context, o orderRef) {
	ctx, cancel := q.runtime.Within(ctx, inquiryWithin)
	defer cancel()
	standing, err := q.bank.Standing(ctx, o.id)
	switch {
	case errors.Is(err, partner.ErrUnknown):
		err = q.release(ctx, o)
	case err == nil && standing == partner.Pending:
	case err == nil && o.kind == balance.RecordPayout:
		err = q.payouts.reportStanding(ctx, o.workspace, o.id, standing)
	case err == nil:
		err = q.conversions.reportStanding(ctx, o.workspace, o.id, standing)
	}
	if err != nil && ctx.Err() == nil {
		q.runtime.Complain("the bank is asked about an order that it has not reported", err, "order", o.id)
	}
}

// release reports to the balance that the bank does not have an order, so that its money is free.
// It fails with the balance's error.
func (q *orderInquiries) release(ctx context.Context, o orderRef) error {
	var command any = balance.LapsePayout{ID: o.id}
	if o.kind == balance.RecordConversion {
		command = balance.LapseConversion{ID: o.id}
	}
	_, err := q.runtime.Ask(ctx, toBalance(o.workspace, command))
	return err
}
