package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/ident"
	"purser/persistence"
)

// A partner's report states a fact, so it is never refused for what it says: one that matches nothing (an unknown deposit, a
// type that is not served) is kept as unmatched and taken. Only what a later delivery can mend is an error: a store that
// does not answer. That a repeat of a report's id does nothing is the balance's promise, kept by its once-keys; that the id means
// one workspace only, whatever the report says, is the system's (see claim).

// report is what a partner sends. Data is for its type to read.
type report struct {
	ID   string         `json:"id"`
	Type string         `json:"type"`
	Data jsontext.Value `json:"data"`
}

// Types of partners' reports that are acted on. Any other is kept.
const (
	depositSettled   = "deposit.settled"
	depositReceived  = "deposit.received"
	payoutSettled    = "payout.settled"
	payoutFailed     = "payout.failed"
	payoutReturned   = "payout.returned"
	conversionDone   = "conversion.completed"
	conversionFailed = "conversion.failed"
	currencyChanged  = "currency.changed"
	stablecoinDone   = "deposit.completed"
	onrampDone       = "onramp.completed"
	onrampFailed     = "onramp.failed"
	offrampDone      = "offramp.completed"
	offrampFailed    = "offramp.failed"
	withdrawalDone   = "withdrawal.completed"
	withdrawalFailed = "withdrawal.failed"
)

func (s *Server) webhookRoutes() []route {
	return []route{
		{method: "POST", path: "/api/webhooks/bank-transfer", auth: authPartner, handle: s.bankTransfer},
		{method: "POST", path: "/api/webhooks/partner-stablecoin-deposit", auth: authPartner, handle: s.stablecoinDeposit},
		{method: "POST", path: "/api/webhooks/partner-onramp", auth: authPartner, handle: s.partnerOnramp},
		{method: "POST", path: "/api/webhooks/partner-offramp", auth: authPartner, handle: s.partnerOfframp},
	}
}

// bankTransfer takes a signed report of the bank. 200 means it is durable, applied or kept, and need not be sent again.
func (s *Server) bankTransfer(c *call) (answer, error) {
	return s.takeReport(c, partnerBank, s.applyBank)
}

// takeReport applies a partner's report, or keeps it.
func (s *Server) takeReport(c *call, partner string, apply func(context.Context, report) error) (answer, error) {
	if _, err := s.parse(c); err != nil {
		return answer{}, err
	}
	var r report
	if err := json.Unmarshal(c.body, &r); err != nil {
		return answer{}, fmt.Errorf("a report that its schema let through: %w", err)
	}
	err := apply(c.ctx, r)
	if matchesNothing(err) {
		err = s.keepUnmatched(c, partner, r)
	}
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]bool{"received": true})
}

// matchesNothing tells a report that will never be applied from one that only cannot be now.
func matchesNothing(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return false
	}
	switch f.Code {
	case fault.Unavailable, fault.OutcomeUnknown, fault.Internal:
		return false
	}
	return true
}

// Partners that report, as their claims are named.
const (
	partnerBank       = balance.ScopeBank
	partnerStablecoin = balance.ScopeStablecoin
	partnerRamp       = balance.ScopeRamp
)

// claim takes a report's id for the thing that the report is about, before it is applied there. After a crash in between the
// partner's repeat finds the claim and is applied under it; an id that was claimed for something else matches nothing.
func (s *Server) claim(ctx context.Context, partner string, r report, target string) error {
	system := ident.System.Format(ident.Workspace)
	reply, err := s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: system, Workspace: system,
		Command: balance.ClaimReport{EventID: r.ID, Partner: partner, Target: target}})
	if err != nil {
		return err
	}
	if first, repeated := reply.(actors.Replayed); repeated && string(first.Answer) != target {
		return fault.New(fault.DuplicateMismatch, "")
	}
	return nil
}

func (s *Server) keepUnmatched(c *call, partner string, r report) error {
	system := ident.System.Format(ident.Workspace)
	_, err := s.actors.Ask(c.ctx, actors.Envelope{Kind: "balance", Stream: system, Workspace: system,
		Command: balance.KeepUnmatched{EventID: r.ID, Partner: partner, Type: r.Type, Body: c.body}})
	if f, ok := errors.AsType[*fault.Error](err); ok && matchesNothing(err) {
		return fmt.Errorf("a report could not even be kept: %s", f.Code)
	}
	if err != nil {
		return err
	}
	s.metrics.unmatched.Inc()
	s.log.Warn("partner report matched nothing", "partner", partner)
	return nil
}

func (s *Server) applyBank(ctx context.Context, r report) error {
	switch r.Type {
	case depositSettled:
		return s.settleDeposit(ctx, r)
	case depositReceived:
		return s.receiveDeposit(ctx, r)
	case payoutSettled:
		return s.reportPayout(ctx, r, balance.PayoutSettled)
	case payoutFailed:
		return s.reportPayout(ctx, r, balance.PayoutFailed)
	case payoutReturned:
		return s.reportPayout(ctx, r, balance.PayoutReturned)
	case conversionDone:
		return s.reportConversion(ctx, r, balance.ConversionCompleted)
	case conversionFailed:
		return s.reportConversion(ctx, r, balance.ConversionFailed)
	case currencyChanged:
		return s.reportCurrency(ctx, r)
	}
	return fault.New(fault.NotFound, "")
}

func (s *Server) settleDeposit(ctx context.Context, r report) error {
	var data struct {
		DepositID string `json:"depositId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, balance.RecordDeposit, ident.Deposit, data.DepositID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, partnerBank, r, record.ID); err != nil {
		return err
	}
	_, err = s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.SettleDeposit{EventID: r.ID, DepositID: data.DepositID}})
	return err
}

func (s *Server) receiveDeposit(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID    string `json:"workspaceId"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		Rail           string `json:"rail"`
		Reference      string `json:"reference"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, partnerBank, r, record.ID); err != nil {
		return err
	}
	_, err = s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReceiveDeposit{Workspace: record.ID, EventID: r.ID, AmountUsdCents: data.AmountUsdCents, Rail: data.Rail,
			Reference: data.Reference}})
	return err
}

// stablecoinDeposit takes a signed report of the stablecoin partner, as bankTransfer does.
func (s *Server) stablecoinDeposit(c *call) (answer, error) {
	return s.takeReport(c, partnerStablecoin, s.applyStablecoin)
}

func (s *Server) applyStablecoin(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID    string `json:"workspaceId"`
		Asset          string `json:"asset"`
		Chain          string `json:"chain"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		TxHash         string `json:"txHash"`
	}
	if r.Type != stablecoinDone {
		return fault.New(fault.NotFound, "")
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, partnerStablecoin, r, record.ID); err != nil {
		return err
	}
	_, err = s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReceiveStablecoin{Workspace: record.ID, EventID: r.ID, Asset: data.Asset, Chain: data.Chain,
			TxHash: data.TxHash, AmountUsdCents: data.AmountUsdCents}})
	return err
}

// reportPayout brings a payout what became of it. One that settles after its reservation was released is an alarm: its dollars
// had been given back.
func (s *Server) reportPayout(ctx context.Context, r report, outcome string) error {
	var data struct {
		PayoutID string `json:"payoutId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, balance.RecordPayout, ident.Payout, data.PayoutID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, partnerBank, r, record.ID); err != nil {
		return err
	}
	reply, err := s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.ReportPayout{EventID: r.ID, ID: record.ID, Outcome: outcome}})
	if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
		s.metrics.late.Inc()
		s.log.Error("a payout settled after its reservation was released", "payout", record.ID)
	}
	return err
}

// findNamed reads a record that a partner names. A partner is no tenant: it may name any.
func (s *Server) findNamed(ctx context.Context, kind, prefix, id string) (persistence.Record, error) {
	u, err := ident.Parse(prefix, id)
	if err != nil {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return s.actors.Find(ctx, u.Slot(), kind, id)
}
