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

// A partner's report states a fact, so it is not refused for its content. A report that matches
// nothing (an unknown deposit, an unsupported type) is stored as unmatched and answered 200. There
// are two exceptions: a type that belongs to another path, see takeReport, and a store that does
// not answer, because a later delivery can succeed. The balance applies an event id once, and claim
// binds it to one target.

// report is a partner's report. Type determines the format of Data.
type report struct {
	ID   string         `json:"id"`
	Type string         `json:"type"`
	Data jsontext.Value `json:"data"`
}

// Paths of the partners' reports.
const (
	PathBankReports       = "/api/webhooks/bank-transfer"
	PathStablecoinReports = "/api/webhooks/partner-stablecoin-deposit"
	PathOnrampReports     = "/api/webhooks/partner-onramp"
	PathOfframpReports    = "/api/webhooks/partner-offramp"
)

// reportHandlers take the partners' signed reports.
type reportHandlers struct{ *edge }

func (h *reportHandlers) webhookRoutes() []route {
	return []route{
		{method: "POST", path: PathBankReports, auth: authPartner, partner: PartnerBank, handle: h.takeReport},
		{method: "POST", path: PathStablecoinReports, auth: authPartner, partner: PartnerStablecoin,
			handle: h.takeReport},
		{method: "POST", path: PathOnrampReports, auth: authPartner, partner: PartnerRamp, handle: h.takeReport},
		{method: "POST", path: PathOfframpReports, auth: authPartner, partner: PartnerRamp, handle: h.takeReport},
	}
}

// takeReport applies a partner's signed report, or stores it as unmatched. 200 means that it is
// durable and need not be sent again. A signature of version 1 is valid on every path of its
// partner. A replay on another path would be stored as unmatched there, and the true report would
// then be a repeat of its id. takeReport therefore refuses such a report when its type belongs to
// another path.
func (h *reportHandlers) takeReport(c *call) (answer, error) {
	if _, err := h.parse(c); err != nil {
		return answer{}, err
	}
	var r report
	if err := json.Unmarshal(c.body, &r); err != nil {
		return answer{}, fmt.Errorf("a report that its schema let through: %w", err)
	}
	var err error
	switch row, known := reportTypes[r.Type]; {
	case row.path == c.route.path:
		err = h.applyReport(c, row, r)
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

// applyReport sends a report to its balance, once: the report's id is first claimed for its target.
func (h *reportHandlers) applyReport(c *call, row reportType, r report) error {
	to, err := row.read(c.ctx, h, r)
	if err != nil {
		return err
	}
	if err := h.claimReport(c.ctx, c.route.partner, r, to.claimedFor); err != nil {
		return err
	}
	reply, err := h.actors.Ask(c.ctx, actors.Envelope{Kind: actors.KindBalance, Stream: to.workspace,
		Workspace: to.workspace,
		Command:   to.command, Prepare: to.prepare})
	if err == nil && isLate(reply) {
		h.metrics.late.Inc()
		h.log.Error("a partner has moved money that was given back before", "report", r.Type, "id", to.claimedFor)
	}
	return err
}

// isLate reports whether a payout or a conversion settled after its money was released.
func isLate(reply any) bool {
	switch reported := reply.(type) {
	case balance.ReportedPayout:
		return reported.Late
	case balance.ReportedConversion:
		return reported.Late
	}
	return false
}

// matchesNothing reports whether an error is permanent: the report can never be applied.
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

// Partners that send reports, by the names of their claims.
const (
	PartnerBank       = balance.ScopeBank
	PartnerStablecoin = balance.ScopeStablecoin
	PartnerRamp       = balance.ScopeRamp
)

// Partners lists the partners that send reports.
func Partners() []string { return []string{PartnerBank, PartnerRamp, PartnerStablecoin} }

// claimReport binds a report's id to a target before the report is applied there. After a crash in
// between, the partner's repeat finds the claim and is applied under it. A report whose id is bound
// to another target matches nothing.
func (h *reportHandlers) claimReport(ctx context.Context, partner string, r report, target string) error {
	system := ident.System.Format(ident.Workspace)
	reply, err := h.actors.Ask(ctx, actors.Envelope{Kind: actors.KindBalance, Stream: system, Workspace: system,
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
	_, err := h.actors.Ask(c.ctx, actors.Envelope{Kind: actors.KindBalance, Stream: system, Workspace: system,
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

// findNamed reads a record that a partner names, in any workspace.
func (h *reportHandlers) findNamed(ctx context.Context, kind, prefix, id string) (persistence.Record, error) {
	u, err := ident.Parse(prefix, id)
	if err != nil {
		return persistence.Record{}, fault.New(fault.NotFound, "")
	}
	return h.actors.Find(ctx, u.Slot(), kind, id)
}
