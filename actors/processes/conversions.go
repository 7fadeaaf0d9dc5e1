package processes

import (
	"context"
	"log/slog"

	"purser/actors/balance"
	"purser/actors/partner"
	"purser/persistence"
)

// conversions sends conversions to the bank's desk, each once, and asks about those without an
// answer. Its rules are those of payouts.
type conversions struct {
	runtime Runtime
	orders  *bankOrders
	log     *slog.Logger
}

// handleConversion sends a new conversion and asks about one whose outcome is unknown. It is the
// reaction "conversions" to such events. It fails, and is repeated, for a damaged event, without a
// place among the calls, and when the balance does not grant it for want of an answer.
func (v *conversions) handleConversion(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case balance.ConversionCreated:
		return v.sendConversion(ctx, e.Workspace, event.Conversion.ID)
	case balance.ConversionMoved:
		if event.To == balance.ConversionUnknown {
			return v.orders.callInBackground(ctx, e.Workspace,
				func(ctx context.Context) { v.inquire(ctx, e.Workspace, event.Conversion) })
		}
	}
	return nil
}

// sendConversion waits for a place among the calls, has the balance grant the conversion, and then
// sends it in a goroutine. A conversion that the balance has granted before is not sent. It fails
// when the context ends before there is a place, and with the balance's error.
func (v *conversions) sendConversion(ctx context.Context, workspace, id string) error {
	free, err := v.orders.acquirePlace(ctx, workspace)
	if err != nil {
		return err
	}
	reply, err := v.runtime.Ask(ctx, toBalance(workspace, balance.SubmitConversion{ID: id}))
	submission, ok := reply.(balance.ConversionSubmission)
	if err != nil || !ok || !submission.Send {
		free()
		return err
	}
	v.runtime.Go(func(ctx context.Context) {
		defer free()
		answer := v.orders.pay(ctx, dealOf(submission.Conversion))
		if answer == "" {
			return
		}
		v.orders.recordAnswer(ctx, workspace, id, balance.AnswerConversion{ID: id, Answer: answer})
	})
	return nil
}

// deskAccount is the account of a conversion's payment: a deal has none, and "" means that the bank
// refused the account.
const deskAccount = "desk"

func dealOf(v balance.Conversion) partner.Payment {
	return partner.Payment{Reference: v.ID, Account: deskAccount, Rail: partner.RailFX, AmountMinor: v.Sell.AmountMinor,
		SellCurrency: string(v.Sell.Currency), BuyCurrency: string(v.Buy.Currency), BuyMinor: v.Buy.AmountMinor}
}

// inquire asks the desk about a conversion whose outcome is unknown, and reports a final standing
// to the balance. A failure is logged; the order's inquiries ask again.
func (v *conversions) inquire(ctx context.Context, workspace, id string) {
	ctx, cancel := v.runtime.Within(ctx, askWithin)
	defer cancel()
	standing, err := v.orders.standing(ctx, id)
	if err == nil {
		err = v.reportStanding(ctx, workspace, id, standing)
	}
	if err != nil {
		v.log.Warn("the desk was asked about a conversion", "conversion", id, "err", err)
	}
}

// reportStanding gives a final standing to the balance as the desk's report; any other standing
// does nothing. It fails with the balance's error.
func (v *conversions) reportStanding(ctx context.Context, workspace, id string, standing partner.Standing) error {
	outcome, final := map[partner.Standing]string{partner.Settled: balance.ConversionCompleted,
		partner.Failed: balance.ConversionFailed}[standing]
	if !final {
		return nil
	}
	reply, err := v.runtime.Ask(ctx, toBalance(workspace,
		balance.ReportConversion{EventID: askedReportID + id + "/" + outcome, ID: id, Outcome: outcome}))
	if reported, ok := reply.(balance.ReportedConversion); ok && reported.Late {
		v.log.Error("a conversion completed after it was abandoned", "conversion", id)
	}
	return err
}
