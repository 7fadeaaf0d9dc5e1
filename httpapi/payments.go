package httpapi

import "encoding/json"

// recordInternational are international payments in USDC that were made before their routes were switched off. Nothing here
// writes them.
const recordInternational = "international_payment"

func (h *treasuryHandlers) paymentRoutes() []route {
	const path = "/api/payments/international"
	return []route{
		{method: "POST", path: path + "/quote", auth: authKey, scope: "read:treasury", unavailable: true, handle: neverReached},
		{method: "POST", path: path, auth: authKey, scope: "write:treasury", unavailable: true, handle: neverReached},
		{method: "GET", path: path, auth: authKey, scope: "read:treasury", query: pageQuery, handle: h.listInternational},
		{method: "GET", path: path + "/{id}", auth: authKey, scope: "read:treasury", handle: h.getInternational},
	}
}

func (h *treasuryHandlers) listInternational(c *call) (answer, error) {
	return h.list(c, listing{kind: recordInternational, workspace: c.who.workspace()}, nil)
}

func (h *treasuryHandlers) getInternational(c *call) (answer, error) {
	record, err := h.actors.Record(c.ctx, recordInternational, c.who.workspace(), c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"payment": json.RawMessage(record.Document)})
}
