package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

// counterpartyRoutes returns the routes of counterparties.
func (h *treasuryHandlers) counterpartyRoutes() []route {
	const path, read, write = "/api/treasury/counterparties", "read:treasury", "write:counterparties"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: write, idempotency: keyRequired,
			handle: h.createCounterparty},
		{method: "GET", path: path, auth: authKey, scope: read, query: slices.Concat(counterpartyQuery, pageQuery),
			handle: h.listCounterparties},
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

// counterpartyQuery holds the query parameters that narrow the list of recipients.
var counterpartyQuery = slices.Concat(periodQuery, []string{"kind", "name"})

// listCounterparties handles GET /api/treasury/counterparties. The period bounds when a recipient
// was saved, and name is the start of its name in any case. It fails with invalid_query for a bad
// filter, limit or cursor, and with the store's error.
func (h *treasuryHandlers) listCounterparties(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	kind, ofKind, err := c.readChoice("kind", counterparty.US, counterparty.International)
	if err != nil {
		return answer{}, err
	}
	name, ofName := c.query["name"]
	if ofName && (name == "" || utf8.RuneCountInString(name) > maxFilterText) {
		return answer{}, fault.New(fault.InvalidQuery, "name must have between 1 and 200 characters")
	}
	name = strings.ToLower(name)
	list := filteredList[counterparty.View]{of: query.CounterpartyViews, filter: c.filterText(counterpartyQuery...),
		within: within, timeOf: func(r *counterparty.View) time.Time { return r.CreatedAt.Time },
		matches: func(r *counterparty.View) bool {
			return (!ofKind || r.Kind == kind) && strings.HasPrefix(strings.ToLower(r.Name), name)
		},
		show: func(stored json.RawMessage, _ *counterparty.View) (any, error) { return stored, nil }}
	return list.answerPage(h.edge, c)
}

func (h *treasuryHandlers) getCounterparty(c *call) (answer, error) {
	view, err := readOwn(h.edge, c, query.CounterpartyViews.AsStored(), c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"counterparty": view})
}

// removeCounterparty handles DELETE /api/treasury/counterparties/{id}. Removing a recipient again
// answers the same. An unknown or another workspace's recipient is not_found. Other failures are
// those of the journal.
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
