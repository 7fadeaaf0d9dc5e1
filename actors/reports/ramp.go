package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// rampReported returns the reader of the reports with a direction and an outcome. A report concerns
// a ramp order, or a session of the retired routes, which has no fee and no transaction. The reader
// fails with invalid_body for data of another form, and with not_found, which matches nothing, for
// an unknown id or another direction.
func rampReported(direction, outcome string) func(context.Context, *Processor, Report) (destination, error) {
	return func(ctx context.Context, p *Processor, r Report) (to destination, err error) {
		var data struct {
			OrderID  string       `json:"orderId"`
			FeeCents *money.Cents `json:"feeCents"`
			TxHash   string       `json:"txHash"`
		}
		if err := decodeData(r, &data); err != nil {
			return to, err
		}
		command := balance.ReportRamp{EventID: r.ID, ID: data.OrderID, Outcome: outcome, FeeCents: data.FeeCents,
			TxHash: data.TxHash}
		record, found, err := p.findRamp(ctx, &command)
		if err == nil && found != direction {
			err = fault.New(fault.NotFound, "")
		}
		return destination{workspace: record.Workspace, claimedFor: record.ID, command: command}, err
	}
}

// findRamp reads the order or the session of a ramp report, and returns its record and its
// direction. It sets Session of a session's report. It fails with not_found for an unknown id, or
// when the record cannot be read or decoded.
func (p *Processor) findRamp(ctx context.Context, command *balance.ReportRamp) (persistence.Record, string, error) {
	prefix, _, _ := strings.Cut(command.ID, "_")
	switch prefix {
	case ident.RampSession:
		command.Session = new(balance.RampSession)
		record, err := p.findDocument(ctx, target{kind: balance.RecordRampSession, prefix: prefix, id: command.ID}, command.Session)
		return record, command.Session.Direction, err
	case ident.RampOrder, ident.Withdrawal:
		var order balance.RampOrder
		record, err := p.findDocument(ctx, target{kind: balance.RecordRampOrder, prefix: prefix, id: command.ID}, &order)
		return record, order.Direction, err
	}
	return persistence.Record{}, "", fault.New(fault.NotFound, "")
}

// findDocument reads the record that a partner names, and decodes its document. It fails with
// not_found for an unknown id, or when the record cannot be read or decoded.
func (p *Processor) findDocument(ctx context.Context, t target, into any) (persistence.Record, error) {
	record, err := p.find(ctx, t)
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(record.Document, into); err != nil {
		return record, fmt.Errorf("%s's record: %w", record.Kind, err)
	}
	return record, nil
}
