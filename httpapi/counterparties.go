package httpapi

import (
	"purser/actors"
	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

func (h *treasuryHandlers) counterpartyRoutes() []route {
	const path, read, write = "/api/treasury/counterparties", "read:treasury", "write:counterparties"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: write, idempotency: keyRequired,
			handle: h.createCounterparty},
		{method: "GET", path: path, auth: authKey, scope: read, query: pageQuery, handle: h.listCounterparties},
		{method: "GET", path: path + "/{id}", auth: authKey, scope: read, handle: h.getCounterparty},
		{method: "DELETE", path: path + "/{id}", auth: authKey, scope: write, handle: h.removeCounterparty},
	}
}

// createCounterparty handles POST /api/treasury/counterparties: it saves a recipient of payouts. It
// fails with invalid_body and with the store's error.
func (h *treasuryHandlers) createCounterparty(c *call) (answer, error) {
	var account counterparty.Account
	if err := h.decode(c, &account); err != nil {
		return answer{}, err
	}
	id, err := h.newID(c, ident.Counterparty)
	if err != nil {
		return answer{}, err
	}
	workspace := c.who.workspace()
	return askIdempotent(h.edge, c, actors.Envelope{Kind: actors.KindCounterparty, Stream: id, Workspace: workspace,
		Command: counterparty.Save{ID: id, Workspace: workspace, Account: account}},
		func(saved counterparty.View) (answer, error) {
			return reply(map[string]any{"counterparty": saved})
		})
}

func (h *treasuryHandlers) listCounterparties(c *call) (answer, error) {
	return listRecords(h.edge, c, query.CounterpartyViews.AsStored(), "", showStored)
}

func (h *treasuryHandlers) getCounterparty(c *call) (answer, error) {
	view, err := readOwn(h.edge, c, query.CounterpartyViews.AsStored(), c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"counterparty": view})
}

// removeCounterparty handles DELETE /api/treasury/counterparties/{id}. Removing a recipient again
// answers the same. An unknown or another workspace's recipient is not_found.
func (h *treasuryHandlers) removeCounterparty(c *call) (answer, error) {
	id := c.params["id"]
	if _, err := ident.Parse(ident.Counterparty, id); err != nil {
		return answer{}, fault.New(fault.NotFound, "")
	}
	_, err := h.actors.Ask(c.ctx, actors.Envelope{Kind: actors.KindCounterparty, Stream: id,
		Workspace: c.who.workspace(),
		Command:   counterparty.Remove{}})
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]bool{"removed": true})
}

// recipientNamed returns the counterparty that a payout or a quote names. It fails with not_found
// for an unknown, removed or another workspace's counterparty.
func (h *treasuryHandlers) recipientNamed(c *call, id string) (balance.Recipient, error) {
	state, err := readOwn(h.edge, c, query.Counterparties, id)
	if err != nil {
		return balance.Recipient{}, err
	}
	if state.Removed {
		return balance.Recipient{}, fault.New(fault.NotFound, "")
	}
	return balance.Recipient{ID: id, International: state.Kind == counterparty.International, Currency: state.Currency},
		nil
}
