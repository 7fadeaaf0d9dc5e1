package reports

import (
	"context"

	"github.com/go-json-experiment/json"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// types has a row for each supported type of report: the only channel that accepts it, and how it is
// read. A report of any other type is stored as unmatched.
var types = map[string]reportType{
	"deposit.settled":      {BankTransfers, readAs(depositSettled)},
	"deposit.received":     {BankTransfers, readAs(depositReceived)},
	"payout.settled":       {BankTransfers, readAs(payoutReported(balance.PayoutSettled))},
	"payout.failed":        {BankTransfers, readAs(payoutReported(balance.PayoutFailed))},
	"payout.returned":      {BankTransfers, readAs(payoutReported(balance.PayoutReturned))},
	"conversion.completed": {BankTransfers, readAs(conversionReported(balance.ConversionCompleted))},
	"conversion.failed":    {BankTransfers, readAs(conversionReported(balance.ConversionFailed))},
	"currency.changed":     {BankTransfers, readAs(currencyChanged)},
	"deposit.completed":    {StablecoinDeposits, readAs(stablecoinDeposit)},
	"onramp.completed":     {Onramps, rampReported(balance.RampOn, balance.RampCompleted)},
	"onramp.failed":        {Onramps, rampReported(balance.RampOn, balance.RampFailed)},
	"offramp.completed":    {Offramps, rampReported(balance.RampOff, balance.RampCompleted)},
	"offramp.failed":       {Offramps, rampReported(balance.RampOff, balance.RampFailed)},
	"withdrawal.completed": {Offramps, rampReported(balance.RampWithdraw, balance.RampCompleted)},
	"withdrawal.failed":    {Offramps, rampReported(balance.RampWithdraw, balance.RampFailed)},
}

// reportType is a row of types.
type reportType struct {
	channel Channel
	read    func(ctx context.Context, p *Processor, r Report) (destination, error)
}

// destination is the balance that a report concerns, by its workspace, and the command for it. The
// report's id is bound to claimedFor.
type destination struct {
	workspace, claimedFor string
	command               any
}

// target names the record that a report concerns. An aspect narrows the report to a part of the
// record, such as one currency of a workspace. An empty aspect means the whole record.
type target struct{ kind, prefix, id, aspect string }

func workspaceTarget(id string) target {
	return target{kind: actors.KindWorkspace, prefix: ident.Workspace, id: id}
}

// readAs returns the reader of a type of report. The reader decodes the data, asks build for the
// target and the command, and finds the target's workspace. The reader fails with invalid_body for
// data of another form, with not_found for an unknown target, and with other errors of Actors.Find.
func readAs[Data any](build func(eventID string, data Data) (target, any)) func(context.Context, *Processor, Report,
) (destination, error) {
	return func(ctx context.Context, p *Processor, r Report) (to destination, err error) {
		var data Data
		if err := decodeData(r, &data); err != nil {
			return to, err
		}
		about, command := build(r.ID, data)
		record, err := p.find(ctx, about)
		claimedFor := record.ID
		if about.aspect != "" {
			claimedFor += " " + about.aspect
		}
		return destination{workspace: record.Workspace, claimedFor: claimedFor, command: command}, err
	}
}

// decodeData decodes the data of a report. It fails with invalid_body for data of another form.
func decodeData(r Report, into any) error {
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	return nil
}

// find reads the record that a partner names, in any workspace. It fails with not_found for an id
// of another kind and an unknown record, and otherwise as Actors.Find does.
func (p *Processor) find(ctx context.Context, t target) (persistence.Record, error) {
	u, err := ident.Parse(t.prefix, t.id)
	if err != nil {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return p.actors.Find(ctx, u.Slot(), t.kind, t.id)
}

type depositSettledData struct {
	DepositID string `json:"depositId"`
}

func depositSettled(eventID string, d depositSettledData) (target, any) {
	return target{kind: balance.RecordDeposit, prefix: ident.Deposit, id: d.DepositID},
		balance.SettleDeposit{EventID: eventID, DepositID: d.DepositID}
}

type depositReceivedData struct {
	WorkspaceID    string      `json:"workspaceId"`
	AmountUsdCents money.Cents `json:"amountUsdCents"`
	Rail           string      `json:"rail"`
	Reference      string      `json:"reference"`
}

func depositReceived(eventID string, d depositReceivedData) (target, any) {
	return workspaceTarget(d.WorkspaceID), balance.ReceiveDeposit{Workspace: d.WorkspaceID, EventID: eventID,
		AmountUsdCents: d.AmountUsdCents, Rail: d.Rail, Reference: d.Reference}
}

type stablecoinDepositData struct {
	WorkspaceID    string      `json:"workspaceId"`
	Asset          string      `json:"asset"`
	Chain          string      `json:"chain"`
	AmountUsdCents money.Cents `json:"amountUsdCents"`
	TxHash         string      `json:"txHash"`
}

func stablecoinDeposit(eventID string, d stablecoinDepositData) (target, any) {
	return workspaceTarget(d.WorkspaceID), balance.ReceiveStablecoin{Workspace: d.WorkspaceID, EventID: eventID,
		Asset: d.Asset, Chain: d.Chain, TxHash: d.TxHash, AmountUsdCents: d.AmountUsdCents}
}

type payoutData struct {
	PayoutID string `json:"payoutId"`
}

func payoutReported(outcome string) func(string, payoutData) (target, any) {
	return func(eventID string, d payoutData) (target, any) {
		return target{kind: balance.RecordPayout, prefix: ident.Payout, id: d.PayoutID},
			balance.ReportPayout{EventID: eventID, ID: d.PayoutID, Outcome: outcome}
	}
}

type conversionData struct {
	ConversionID string `json:"conversionId"`
}

func conversionReported(outcome string) func(string, conversionData) (target, any) {
	return func(eventID string, d conversionData) (target, any) {
		return target{kind: balance.RecordConversion, prefix: ident.Conversion, id: d.ConversionID},
			balance.ReportConversion{EventID: eventID, ID: d.ConversionID, Outcome: outcome}
	}
}

type currencyChangedData struct {
	WorkspaceID string         `json:"workspaceId"`
	Currency    money.Currency `json:"currency"`
	Status      string         `json:"status"`
	ScopeStatus string         `json:"scopeStatus"`
}

// currencyChanged is about the status and the scope of a workspace's balance in a currency.
func currencyChanged(eventID string, d currencyChangedData) (target, any) {
	about := workspaceTarget(d.WorkspaceID)
	about.aspect = string(d.Currency)
	return about, balance.ReportCurrency{EventID: eventID, Workspace: d.WorkspaceID, Currency: d.Currency,
		Status: d.Status, Scope: d.ScopeStatus}
}
