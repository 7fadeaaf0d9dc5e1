package httpapi

import "purser/actors/query"

// paymentRoutes are of international payments in USDC. Creating one is unavailable, so only older
// payments exist.
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
	return listRecords(h.edge, c, query.InternationalPayments, "", showStored)
}

func (h *treasuryHandlers) getInternational(c *call) (answer, error) {
	payment, err := readOwn(h.edge, c, query.InternationalPayments, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"payment": payment})
}
