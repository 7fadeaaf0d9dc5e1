package httpapi

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// reportType is a type of partners' reports: the only path that accepts it, and the function that
// turns a report into a command.
type reportType struct {
	path string
	read func(ctx context.Context, h *reportHandlers, r report) (reportTarget, error)
}

// reportTarget is the balance that a report concerns, by its workspace, and the command for it. The
// report's id is bound to claimedFor. A prepare replaces command when the command depends on
// records that may change before the balance decides.
type reportTarget struct {
	workspace, claimedFor string
	command               any
	prepare               func(context.Context) (any, error)
}

// reportTypes holds the supported types. A report of any other type is stored as unmatched.
var reportTypes = map[string]reportType{
	"deposit.settled":      {PathBankReports, readDepositSettled},
	"deposit.received":     {PathBankReports, readDepositReceived},
	"payout.settled":       {PathBankReports, payoutReport(balance.PayoutSettled)},
	"payout.failed":        {PathBankReports, payoutReport(balance.PayoutFailed)},
	"payout.returned":      {PathBankReports, payoutReport(balance.PayoutReturned)},
	"conversion.completed": {PathBankReports, conversionReport(balance.ConversionCompleted)},
	"conversion.failed":    {PathBankReports, conversionReport(balance.ConversionFailed)},
	"currency.changed":     {PathBankReports, readCurrencyChanged},
	"deposit.completed":    {PathStablecoinReports, readStablecoinDeposit},
	"onramp.completed":     {PathOnrampReports, rampReport(balance.RampOn, balance.RampCompleted)},
	"onramp.failed":        {PathOnrampReports, rampReport(balance.RampOn, balance.RampFailed)},
	"offramp.completed":    {PathOfframpReports, rampReport(balance.RampOff, balance.RampCompleted)},
	"offramp.failed":       {PathOfframpReports, rampReport(balance.RampOff, balance.RampFailed)},
	"withdrawal.completed": {PathOfframpReports, rampReport(balance.RampWithdraw, balance.RampCompleted)},
	"withdrawal.failed":    {PathOfframpReports, rampReport(balance.RampWithdraw, balance.RampFailed)},
}

// readReportData reads the data of a report.
func readReportData(r report, into any) error {
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	return nil
}

func readDepositSettled(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
	var data struct {
		DepositID string `json:"depositId"`
	}
	if err := readReportData(r, &data); err != nil {
		return to, err
	}
	record, err := h.findNamed(ctx, balance.RecordDeposit, ident.Deposit, data.DepositID)
	return reportTarget{workspace: record.Workspace, claimedFor: record.ID,
		command: balance.SettleDeposit{EventID: r.ID, DepositID: data.DepositID}}, err
}

func readDepositReceived(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
	var data struct {
		WorkspaceID    string      `json:"workspaceId"`
		AmountUsdCents money.Cents `json:"amountUsdCents"`
		Rail           string      `json:"rail"`
		Reference      string      `json:"reference"`
	}
	if err := readReportData(r, &data); err != nil {
		return to, err
	}
	record, err := h.findNamed(ctx, actors.KindWorkspace, ident.Workspace, data.WorkspaceID)
	return reportTarget{workspace: record.ID, claimedFor: record.ID,
		command: balance.ReceiveDeposit{Workspace: record.ID, EventID: r.ID, AmountUsdCents: data.AmountUsdCents,
			Rail: data.Rail, Reference: data.Reference}}, err
}

func readStablecoinDeposit(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
	var data struct {
		WorkspaceID    string      `json:"workspaceId"`
		Asset          string      `json:"asset"`
		Chain          string      `json:"chain"`
		AmountUsdCents money.Cents `json:"amountUsdCents"`
		TxHash         string      `json:"txHash"`
	}
	if err := readReportData(r, &data); err != nil {
		return to, err
	}
	record, err := h.findNamed(ctx, actors.KindWorkspace, ident.Workspace, data.WorkspaceID)
	return reportTarget{workspace: record.ID, claimedFor: record.ID,
		command: balance.ReceiveStablecoin{Workspace: record.ID, EventID: r.ID, Asset: data.Asset, Chain: data.Chain,
			TxHash: data.TxHash, AmountUsdCents: data.AmountUsdCents}}, err
}

// payoutReport reads a report of a payout with this outcome.
func payoutReport(outcome string) func(context.Context, *reportHandlers, report) (reportTarget, error) {
	return func(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
		var data struct {
			PayoutID string `json:"payoutId"`
		}
		if err := readReportData(r, &data); err != nil {
			return to, err
		}
		record, err := h.findNamed(ctx, balance.RecordPayout, ident.Payout, data.PayoutID)
		return reportTarget{workspace: record.Workspace, claimedFor: record.ID,
			command: balance.ReportPayout{EventID: r.ID, ID: record.ID, Outcome: outcome}}, err
	}
}

// conversionReport reads a report of a conversion with this outcome.
func conversionReport(outcome string) func(context.Context, *reportHandlers, report) (reportTarget, error) {
	return func(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
		var data struct {
			ConversionID string `json:"conversionId"`
		}
		if err := readReportData(r, &data); err != nil {
			return to, err
		}
		record, err := h.findNamed(ctx, balance.RecordConversion, ident.Conversion, data.ConversionID)
		return reportTarget{workspace: record.Workspace, claimedFor: record.ID,
			command: balance.ReportConversion{EventID: r.ID, ID: record.ID, Outcome: outcome}}, err
	}
}

// readCurrencyChanged reads a report of a change of a workspace's currency account: its status and
// scope.
func readCurrencyChanged(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
	var data struct {
		WorkspaceID string         `json:"workspaceId"`
		Currency    money.Currency `json:"currency"`
		Status      string         `json:"status"`
		ScopeStatus string         `json:"scopeStatus"`
	}
	if err := readReportData(r, &data); err != nil {
		return to, err
	}
	record, err := h.findNamed(ctx, actors.KindWorkspace, ident.Workspace, data.WorkspaceID)
	return reportTarget{workspace: record.ID, claimedFor: record.ID + " " + string(data.Currency),
		command: balance.ReportCurrency{EventID: r.ID, Workspace: record.ID, Currency: data.Currency,
			Status: data.Status,
			Scope:  data.ScopeStatus}}, err
}

// rampReport reads a report with this outcome: of a ramp order, or of a session of the retired
// routes. A session has no fee and no transaction. A report with another direction than the order's
// matches nothing.
func rampReport(direction, outcome string) func(context.Context, *reportHandlers, report) (reportTarget, error) {
	return func(ctx context.Context, h *reportHandlers, r report) (to reportTarget, err error) {
		var data struct {
			OrderID  string       `json:"orderId"`
			FeeCents *money.Cents `json:"feeCents"`
			TxHash   string       `json:"txHash"`
		}
		if err := readReportData(r, &data); err != nil {
			return to, err
		}
		command := balance.ReportRamp{EventID: r.ID, ID: data.OrderID, Outcome: outcome, FeeCents: data.FeeCents,
			TxHash: data.TxHash}
		record, found, err := h.findRamp(ctx, &command)
		if err == nil && found != direction {
			err = fault.New(fault.NotFound, "")
		}
		prepare := func(ctx context.Context) (any, error) {
			_, _, err := h.findRamp(ctx, &command)
			return command, err
		}
		return reportTarget{workspace: record.Workspace, claimedFor: record.ID, prepare: prepare}, err
	}
}

// findRamp reads the order or the session of a ramp report, and returns its record and its
// direction. It sets Session of a session's report.
func (h *reportHandlers) findRamp(ctx context.Context, command *balance.ReportRamp) (persistence.Record, string,
	error) {
	if strings.HasPrefix(command.ID, ident.RampSession+"_") {
		command.Session = new(balance.RampSession)
		record, err := h.findNamed(ctx, balance.RecordRampSession, ident.RampSession, command.ID)
		if err == nil {
			err = decodeRecord(record, command.Session)
		}
		return record, command.Session.Direction, err
	}
	var order balance.RampOrder
	record, err := h.findNamed(ctx, balance.RecordRampOrder, rampPrefix(command.ID), command.ID)
	if err == nil {
		err = decodeRecord(record, &order)
	}
	return record, order.Direction, err
}
