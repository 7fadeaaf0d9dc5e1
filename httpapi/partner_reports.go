package httpapi

import (
	"fmt"

	"purser/actors/fault"
	"purser/actors/reports"
)

// Paths of the partners' reports.
const (
	PathBankReports       = "/api/webhooks/bank-transfer"
	PathStablecoinReports = "/api/webhooks/partner-stablecoin-deposit"
	PathOnrampReports     = "/api/webhooks/partner-onramp"
	PathOfframpReports    = "/api/webhooks/partner-offramp"
)

// reportChannels has the channel of each path.
var reportChannels = map[string]reports.Channel{
	PathBankReports:       reports.BankTransfers,
	PathStablecoinReports: reports.StablecoinDeposits,
	PathOnrampReports:     reports.Onramps,
	PathOfframpReports:    reports.Offramps,
}

// reportHandlers take the partners' signed reports. Package reports applies them.
type reportHandlers struct {
	*edge
	processor *reports.Processor
}

func (h *reportHandlers) webhookRoutes() []route {
	var rows []route
	for _, path := range []string{PathBankReports, PathStablecoinReports, PathOnrampReports, PathOfframpReports} {
		rows = append(rows, route{method: "POST", path: path, auth: authPartner,
			partner: reportChannels[path].Partner, handle: h.takeReport})
	}
	return rows
}

// takeReport applies a partner's signed report, or stores it as unmatched. 200 means that it is
// durable and need not be sent again. A signature of version 1 is valid on every path of its
// partner. A replay on another path would be stored as unmatched there, and the true report would
// then be a repeat of its id. takeReport therefore refuses such a report when its type belongs to
// another path. It fails with invalid_body, with signature_invalid for such a report, and with the
// store's error, after which the partner repeats the report.
func (h *reportHandlers) takeReport(c *call) (answer, error) {
	if _, err := h.decodeTree(c); err != nil {
		return answer{}, err
	}
	r, err := reports.Parse(c.body)
	if err != nil {
		return answer{}, fmt.Errorf("a report that its schema let through: %w", err)
	}
	channel := reportChannels[c.route.path]
	if r.BelongsElsewhere(channel) && !c.pathSigned {
		return answer{}, fault.New(fault.SignatureInvalid, "")
	}
	outcome, err := h.processor.Process(c.ctx, channel, r)
	if err != nil {
		return answer{}, err
	}
	if outcome.Late {
		h.metrics.late.Inc()
	}
	if outcome.Unmatched {
		h.metrics.unmatched.Inc()
	}
	return reply(map[string]bool{"received": true})
}
