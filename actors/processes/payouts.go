package processes

import (
	"context"
	"log/slog"

	"purser/actors/balance"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/persistence"
)

// payouts sends payouts to the bank, and asks about those without an answer.
//
// A payout is sent once. Its balance grants it to one sender, and commits the grant before the
// answer; the sender then calls the bank. When that process dies no process calls again: the
// payout's timer, which was committed with it, makes the outcome unknown. The bank is then asked by
// our reference, which changes nothing there. So a call without an answer takes one of maxBankCalls
// places and delays no other payout.
type payouts struct {
	runtime    Runtime
	orders     *bankOrders
	recipients *recipients
	log        *slog.Logger
}

// handlePayout sends a payout that is reserved and asks about one whose outcome is unknown. It is
// the reaction "payouts" to such events. It fails, and is repeated, for a damaged event, without a
// place among the calls, and when a record, the bank's token or the balance does not answer.
func (p *payouts) handlePayout(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case balance.PayoutCreated:
		if event.Payout.Status == balance.PayoutReserved {
			return p.sendPayout(ctx, e, event.Payout.ID)
		}
	case balance.PayoutMoved:
		switch event.To {
		case balance.PayoutReserved:
			return p.sendPayout(ctx, e, event.Payout)
		case balance.PayoutUnknown:
			return p.orders.callInBackground(ctx, e.Workspace,
				func(ctx context.Context) { p.inquire(ctx, e.Workspace, event.Payout) })
		}
	}
	return nil
}

// sendPayout waits for a place among the calls, has the balance grant the payout, and then sends it
// in a goroutine. A payout that is no longer reserved is not sent. One whose account the bank has
// not taken within accountWithin fails without being sent. It fails when a record, the token or the
// balance does not answer, or the context ends before there is a place.
func (p *payouts) sendPayout(ctx context.Context, e persistence.Event, id string) error {
	workspace := e.Workspace
	payout, err := query.Payouts.Read(ctx, p.runtime, workspace, id)
	if err != nil || payout.Status != balance.PayoutReserved {
		return err
	}
	text, err := query.PayoutTexts.Read(ctx, p.runtime, workspace, id)
	if err != nil {
		return err
	}
	token, err := p.recipients.bankToken(ctx, workspace, payout.CounterpartyID)
	if err != nil && !p.recipients.givesUp(e, err) {
		return err
	}
	free, err := p.orders.acquirePlace(ctx, workspace)
	if err != nil {
		return err
	}
	reply, err := p.runtime.Ask(ctx, toBalance(workspace, balance.SubmitPayout{ID: id}))
	if submission, ok := reply.(balance.Submission); err != nil || !ok || !submission.Send {
		free()
		return err
	}
	p.runtime.Go(func(ctx context.Context) {
		defer free()
		answer := p.orders.pay(ctx, paymentOf(payout, text.Description, token))
		if answer == "" {
			return
		}
		p.orders.recordAnswer(ctx, workspace, id, balance.AnswerPayout{ID: id, Answer: answer})
	})
	return nil
}

func paymentOf(p balance.Payout, description, token string) partner.Payment {
	payment := partner.Payment{Reference: p.Reference, Account: token, Rail: p.Rail, SameDay: p.SameDay,
		AmountMinor: p.AmountCents.Minor(), Description: description, UETR: p.UETR}
	if p.Buy != nil {
		payment.BuyCurrency, payment.BuyMinor = string(p.Buy.Currency), p.Buy.AmountMinor
	}
	return payment
}

// inquire asks the bank about a payout that it did not answer, and reports a final standing. With
// any other standing the payout waits for the bank's report or for the end of its reservation. A
// failure is logged.
func (p *payouts) inquire(ctx context.Context, workspace, id string) {
	ctx, cancel := p.runtime.Within(ctx, askWithin)
	defer cancel()
	standing, err := p.orders.standing(ctx, id)
	if err == nil {
		err = p.reportStanding(ctx, workspace, id, standing)
	}
	if err != nil {
		p.log.Warn("the bank was asked about a payout", "payout", id, "err", err)
	}
}

// reportStanding gives a final standing to the balance as the bank's report; any other standing
// does nothing. The bank's own report then changes nothing. It fails with the balance's error.
func (p *payouts) reportStanding(ctx context.Context, workspace, id string, standing partner.Standing) error {
	var outcomes []string
	switch standing {
	case partner.Settled:
		outcomes = []string{balance.PayoutSettled}
	case partner.Failed:
		outcomes = []string{balance.PayoutFailed}
	case partner.Returned:
		outcomes = []string{balance.PayoutSettled, balance.PayoutReturned}
	}
	for _, outcome := range outcomes {
		reply, err := p.runtime.Ask(ctx, toBalance(workspace,
			balance.ReportPayout{EventID: askedReportID + id + "/" + outcome, ID: id, Outcome: outcome}))
		if err != nil {
			return err
		}
		if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
			p.log.Error("a payout settled after its reservation was released", "payout", id)
		}
	}
	return nil
}
