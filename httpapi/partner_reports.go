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
	"purser/persistence"
	"purser/persistence/ident"
)

// A report of a partner states a fact, so its content is no reason to refuse it. A report that
// matches nothing (an unknown deposit, a type that is not served) is kept as unmatched and answered
// 200. One exception is a type that belongs to another path, see takeReport. Another is a store that
// does not answer: a later delivery can succeed. The balance applies an event id once, and claim
// binds it to one target.

// report is what a partner sends. Data is for its type to read.
type report struct {
	ID   string         `json:"id"`
	Type string         `json:"type"`
	Data jsontext.Value `json:"data"`
}

// Paths of the reports of partners.
const (
	PathBankReports       = "/api/webhooks/bank-transfer"
	PathStablecoinReports = "/api/webhooks/partner-stablecoin-deposit"
	PathOnrampReports     = "/api/webhooks/partner-onramp"
	PathOfframpReports    = "/api/webhooks/partner-offramp"
)

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

// reportPaths holds the only path on which a type of report is acted on.
var reportPaths = map[string]string{
	depositSettled: PathBankReports, depositReceived: PathBankReports, payoutSettled: PathBankReports,
	payoutFailed: PathBankReports, payoutReturned: PathBankReports, conversionDone: PathBankReports,
	conversionFailed: PathBankReports, currencyChanged: PathBankReports,
	stablecoinDone: PathStablecoinReports,
	onrampDone:     PathOnrampReports, onrampFailed: PathOnrampReports,
	offrampDone: PathOfframpReports, offrampFailed: PathOfframpReports, withdrawalDone: PathOfframpReports,
	withdrawalFailed: PathOfframpReports,
}

// reportHandlers take the signed reports of partners.
type reportHandlers struct{ *edge }

func (h *reportHandlers) webhookRoutes() []route {
	return []route{
		{method: "POST", path: PathBankReports, auth: authPartner, partner: PartnerBank, handle: h.bankTransfer},
		{method: "POST", path: PathStablecoinReports, auth: authPartner, partner: PartnerStablecoin,
			handle: h.stablecoinDeposit},
		{method: "POST", path: PathOnrampReports, auth: authPartner, partner: PartnerRamp, handle: h.partnerOnramp},
		{method: "POST", path: PathOfframpReports, auth: authPartner, partner: PartnerRamp, handle: h.partnerOfframp},
	}
}

// bankTransfer takes a signed report of the bank. 200 means it is durable, applied or kept, and need not be sent again.
func (h *reportHandlers) bankTransfer(c *call) (answer, error) {
	return h.takeReport(c, h.applyBank)
}

// takeReport applies a partner's report, or keeps it. A signature of version 1 is valid on every
// path of its partner, so a replay on another path would be kept there as unmatched, and the true
// report would then be a repeat of its id. Such a report is refused when its type belongs
// elsewhere.
func (h *reportHandlers) takeReport(c *call, apply func(context.Context, report) error) (answer, error) {
	if _, err := h.parse(c); err != nil {
		return answer{}, err
	}
	var r report
	if err := json.Unmarshal(c.body, &r); err != nil {
		return answer{}, fmt.Errorf("a report that its schema let through: %w", err)
	}
	var err error
	switch path, known := reportPaths[r.Type]; {
	case path == c.route.path:
		err = apply(c.ctx, r)
	case known && !c.pathSigned:
		return answer{}, h.refuseUnverified(c)
	default:
		err = fault.New(fault.NotFound, "")
	}
	if matchesNothing(err) {
		err = h.keepUnmatched(c, r)
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
	PartnerBank       = balance.ScopeBank
	PartnerStablecoin = balance.ScopeStablecoin
	PartnerRamp       = balance.ScopeRamp
)

// Partners lists them.
func Partners() []string { return []string{PartnerBank, PartnerRamp, PartnerStablecoin} }

// claim takes a report's id for the thing that the report is about, before it is applied there. After a crash in between the
// partner's repeat finds the claim and is applied under it; an id that was claimed for something else matches nothing.
func (h *reportHandlers) claim(ctx context.Context, partner string, r report, target string) error {
	system := ident.System.Format(ident.Workspace)
	reply, err := h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: system, Workspace: system,
		Command: balance.ClaimReport{EventID: r.ID, Partner: partner, Target: target}})
	if err != nil {
		return err
	}
	if first, repeated := reply.(actors.Replayed); repeated && string(first.Answer) != target {
		return fault.New(fault.DuplicateMismatch, "")
	}
	return nil
}

func (h *reportHandlers) keepUnmatched(c *call, r report) error {
	system := ident.System.Format(ident.Workspace)
	_, err := h.actors.Ask(c.ctx, actors.Envelope{Kind: "balance", Stream: system, Workspace: system,
		Command: balance.KeepUnmatched{EventID: r.ID, Partner: c.route.partner, Type: r.Type, Body: c.body}})
	if f, ok := errors.AsType[*fault.Error](err); ok && matchesNothing(err) {
		return fmt.Errorf("a report could not even be kept: %s", f.Code)
	}
	if err != nil {
		return err
	}
	h.metrics.unmatched.Inc()
	h.log.Warn("partner report matched nothing", "partner", c.route.partner)
	return nil
}

func (h *reportHandlers) applyBank(ctx context.Context, r report) error {
	switch r.Type {
	case depositSettled:
		return h.settleDeposit(ctx, r)
	case depositReceived:
		return h.receiveDeposit(ctx, r)
	case payoutSettled:
		return h.reportPayout(ctx, r, balance.PayoutSettled)
	case payoutFailed:
		return h.reportPayout(ctx, r, balance.PayoutFailed)
	case payoutReturned:
		return h.reportPayout(ctx, r, balance.PayoutReturned)
	case conversionDone:
		return h.reportConversion(ctx, r, balance.ConversionCompleted)
	case conversionFailed:
		return h.reportConversion(ctx, r, balance.ConversionFailed)
	case currencyChanged:
		return h.reportCurrency(ctx, r)
	}
	return fault.New(fault.NotFound, "")
}

func (h *reportHandlers) settleDeposit(ctx context.Context, r report) error {
	var data struct {
		DepositID string `json:"depositId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, balance.RecordDeposit, ident.Deposit, data.DepositID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerBank, r, record.ID); err != nil {
		return err
	}
	_, err = h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.SettleDeposit{EventID: r.ID, DepositID: data.DepositID}})
	return err
}

func (h *reportHandlers) receiveDeposit(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID    string `json:"workspaceId"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		Rail           string `json:"rail"`
		Reference      string `json:"reference"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerBank, r, record.ID); err != nil {
		return err
	}
	_, err = h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReceiveDeposit{Workspace: record.ID, EventID: r.ID, AmountUsdCents: data.AmountUsdCents, Rail: data.Rail,
			Reference: data.Reference}})
	return err
}

// stablecoinDeposit takes a signed report of the stablecoin partner, as bankTransfer does.
func (h *reportHandlers) stablecoinDeposit(c *call) (answer, error) {
	return h.takeReport(c, h.applyStablecoin)
}

func (h *reportHandlers) applyStablecoin(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID    string `json:"workspaceId"`
		Asset          string `json:"asset"`
		Chain          string `json:"chain"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		TxHash         string `json:"txHash"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerStablecoin, r, record.ID); err != nil {
		return err
	}
	_, err = h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReceiveStablecoin{Workspace: record.ID, EventID: r.ID, Asset: data.Asset, Chain: data.Chain,
			TxHash: data.TxHash, AmountUsdCents: data.AmountUsdCents}})
	return err
}

// reportPayout brings a payout what became of it. One that settles after its reservation was released is an alarm: its dollars
// had been given back.
func (h *reportHandlers) reportPayout(ctx context.Context, r report, outcome string) error {
	var data struct {
		PayoutID string `json:"payoutId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, balance.RecordPayout, ident.Payout, data.PayoutID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerBank, r, record.ID); err != nil {
		return err
	}
	reply, err := h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.ReportPayout{EventID: r.ID, ID: record.ID, Outcome: outcome}})
	if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
		h.metrics.late.Inc()
		h.log.Error("a payout settled after its reservation was released", "payout", record.ID)
	}
	return err
}

// findNamed reads a record that a partner names. A partner is no tenant: it may name any.
func (h *reportHandlers) findNamed(ctx context.Context, kind, prefix, id string) (persistence.Record, error) {
	u, err := ident.Parse(prefix, id)
	if err != nil {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return h.actors.Find(ctx, u.Slot(), kind, id)
}
