package httpapi

import (
	"context"
	"encoding/json"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// reportConversion brings a conversion what became of it. One that completes after it was abandoned is an alarm: what it sold
// had been given back.
func (h *reportHandlers) reportConversion(ctx context.Context, r report, outcome string) error {
	var data struct {
		ConversionID string `json:"conversionId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, balance.RecordConversion, ident.Conversion, data.ConversionID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerBank, r, record.ID); err != nil {
		return err
	}
	reply, err := h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.ReportConversion{EventID: r.ID, ID: record.ID, Outcome: outcome}})
	if reported, ok := reply.(balance.ReportedConversion); ok && reported.Late {
		h.metrics.late.Inc()
		h.log.Error("a conversion completed after it was abandoned", "conversion", record.ID)
	}
	return err
}

// reportCurrency brings a balance what it may do from now on.
func (h *reportHandlers) reportCurrency(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID string         `json:"workspaceId"`
		Currency    money.Currency `json:"currency"`
		Status      string         `json:"status"`
		ScopeStatus string         `json:"scopeStatus"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := h.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := h.claim(ctx, PartnerBank, r, record.ID+" "+string(data.Currency)); err != nil {
		return err
	}
	_, err = h.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReportCurrency{
			EventID: r.ID, Workspace: record.ID, Currency: data.Currency, Status: data.Status, Scope: data.ScopeStatus}})
	return err
}
