package httpapi

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// rampReport is what a report of the ramp's partner says: which order it is about, and how that ended. A type goes with one
// direction; on an order of another it matches nothing.
type rampReport struct{ direction, outcome string }

// The reports of the two handlers, by type.
var (
	onrampReports = map[string]rampReport{
		onrampDone:   {balance.RampOn, balance.RampCompleted},
		onrampFailed: {balance.RampOn, balance.RampFailed},
	}
	offrampReports = map[string]rampReport{
		offrampDone:      {balance.RampOff, balance.RampCompleted},
		offrampFailed:    {balance.RampOff, balance.RampFailed},
		withdrawalDone:   {balance.RampWithdraw, balance.RampCompleted},
		withdrawalFailed: {balance.RampWithdraw, balance.RampFailed},
	}
)

// partnerOnramp takes a signed report of what became of dollars for USDC, as bankTransfer does.
func (h *reportHandlers) partnerOnramp(c *call) (answer, error) {
	return h.takeReport(c, h.applyRamp(onrampReports))
}

// partnerOfframp takes one of USDC for dollars, or for a wallet.
func (h *reportHandlers) partnerOfframp(c *call) (answer, error) {
	return h.takeReport(c, h.applyRamp(offrampReports))
}

// applyRamp brings an order, or a session of the retired routes, what became of it. Of a session there is no fee, nor a
// transaction.
func (h *reportHandlers) applyRamp(served map[string]rampReport) func(context.Context, report) error {
	return func(ctx context.Context, r report) error {
		says, known := served[r.Type]
		if !known {
			return fault.New(fault.NotFound, "")
		}
		var data struct {
			OrderID  string `json:"orderId"`
			FeeCents *int64 `json:"feeCents"`
			TxHash   string `json:"txHash"`
		}
		if err := json.Unmarshal(r.Data, &data); err != nil {
			return fault.New(fault.InvalidBody, "data")
		}
		tell := balance.ReportRamp{EventID: r.ID, ID: data.OrderID, Outcome: says.outcome, FeeCents: data.FeeCents, TxHash: data.TxHash}
		record, direction, err := h.findRamp(ctx, &tell)
		if err != nil {
			return err
		}
		if direction != says.direction {
			return fault.New(fault.NotFound, "")
		}
		if err := h.claim(ctx, PartnerRamp, r, record.ID); err != nil {
			return err
		}
		_, err = h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
			Prepare: func(ctx context.Context) (any, error) {
				_, _, err := h.findRamp(ctx, &tell)
				return tell, err
			}})
		return err
	}
}

// findRamp reads the order or the session that a report is about, and fills it in.
func (h *reportHandlers) findRamp(ctx context.Context, tell *balance.ReportRamp) (persistence.Record, string, error) {
	if strings.HasPrefix(tell.ID, ident.RampSession+"_") {
		tell.Session = new(balance.RampSession)
		record, err := h.findNamed(ctx, balance.RecordRampSession, ident.RampSession, tell.ID)
		if err == nil {
			err = decodeRecord(record, tell.Session)
		}
		return record, tell.Session.Direction, err
	}
	var order balance.RampOrder
	record, err := h.findNamed(ctx, balance.RecordRampOrder, rampPrefix(tell.ID), tell.ID)
	if err == nil {
		err = decodeRecord(record, &order)
	}
	return record, order.Direction, err
}

func decodeRecord(record persistence.Record, into any) error {
	if err := json.Unmarshal(record.Document, into); err != nil {
		return fmt.Errorf("%s's record: %w", record.Kind, err)
	}
	return nil
}
