package actors

import (
	"context"

	"purser/actors/balance"
	"purser/actors/partner"
	"purser/persistence"
)

// tellDesk gives conversions to the bank's desk, once each, as payouts are given to the bank, and asks about those that it left
// without an answer. See sendPayouts.
func (s *System) tellDesk(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case balance.ConversionCreated:
		return s.sendConversion(ctx, e.Workspace, event.Conversion.ID)
	case balance.ConversionMoved:
		if event.To == balance.ConversionUnknown {
			return s.callBank(ctx, e.Workspace,
				func(ctx context.Context) { s.askDesk(ctx, e.Workspace, event.Conversion) })
		}
	}
	return nil
}

// sendConversion takes a place among the calls, and only then the conversion.
func (s *System) sendConversion(ctx context.Context, workspace, id string) error {
	free, err := s.bankPlace(ctx, workspace)
	if err != nil {
		return err
	}
	reply, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace,
		Command: balance.SubmitConversion{ID: id}})
	submission, ok := reply.(balance.ConversionSubmission)
	if err != nil || !ok || !submission.Send {
		free()
		return err
	}
	s.Go(func(ctx context.Context) {
		defer free()
		answer := s.pay(ctx, dealOf(submission.Conversion))
		s.note(ctx, workspace, id, balance.AnswerConversion{ID: id, Answer: answer})
	})
	return nil
}

// deskAccount stands where a payment names its account: a deal has none, and "" is one that the bank would not take.
const deskAccount = "desk"

func dealOf(v balance.Conversion) partner.Payment {
	return partner.Payment{Reference: v.ID, Account: deskAccount, Rail: partner.RailFX, AmountCents: v.Sell.AmountMinor,
		SellCurrency: string(v.Sell.Currency), BuyCurrency: string(v.Buy.Currency), BuyMinor: v.Buy.AmountMinor}
}

// askDesk asks what has become of a conversion. What is final is taken for the desk's report.
func (s *System) askDesk(ctx context.Context, workspace, id string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	standing, err := s.bank.Standing(ctx, id)
	if err == nil {
		err = s.reportDeal(ctx, workspace, id, standing)
	}
	if err != nil {
		s.log.Warn("the desk was asked about a conversion", "conversion", id, "err", err)
	}
}

// reportDeal takes a final standing for the desk's report.
func (s *System) reportDeal(ctx context.Context, workspace, id string, standing partner.Standing) error {
	outcome, final := map[partner.Standing]string{partner.Settled: balance.ConversionCompleted,
		partner.Failed: balance.ConversionFailed}[standing]
	if !final {
		return nil
	}
	return s.reportAsked(ctx, workspace, id, outcome)
}

func (s *System) reportAsked(ctx context.Context, workspace, id, outcome string) error {
	reply, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace, Command: balance.ReportConversion{
		EventID: askedReportID + id + "/" + outcome, ID: id, Outcome: outcome}})
	if reported, ok := reply.(balance.ReportedConversion); ok && reported.Late {
		s.log.Error("a conversion completed after it was abandoned", "conversion", id)
	}
	return err
}
