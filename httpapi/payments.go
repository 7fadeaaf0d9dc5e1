package httpapi

import "encoding/json"

// recordInternational is the kind of international payments in USDC. Their routes are unavailable,
// so only older payments exist.
const recordInternational = "international_payment"

func (h *treasuryHandlers) paymentRoutes() []route {
	const path = "/api/payments/international"
	return []route{
		{method: "POST", path: path + "/quote", auth: authKey, scope: "read:treasury", unavailable: true,
			handle: neverReached},
		{method: "POST", path: path, auth: authKey, scope: "write:treasury", unavailable: true, handle: neverReached},
		{method: "GET", path: path, auth: authKey, scope: "read:treasury", query: pageQuery,
			handle: h.listInternational},
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
