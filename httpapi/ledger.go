package httpapi

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

// ledgerQuery holds the query parameters that narrow the ledger.
var ledgerQuery = slices.Concat(periodQuery, amountQuery, []string{"source", "direction", "cardId", "transferGroup"})

func (h *treasuryHandlers) ledgerRoutes() []route {
	return []route{
		{method: "GET", path: "/api/treasury/ledger", auth: authKey, scope: "read:treasury",
			query: slices.Concat(ledgerQuery, pageQuery), handle: h.listLedger},
		{method: "GET", path: "/api/treasury/daily", auth: authKey, scope: "read:treasury", handle: h.getDailyTotals},
	}
}

// listLedger handles GET /api/treasury/ledger: the whole ledger, of which the treasury shows the
// newest entries. The period bounds the booking of the entries, as in statements. It first waits
// until the journal has the workspace's answered decisions. It fails with invalid_query for a bad
// filter, limit or cursor, with not_found for another workspace's card, and with the store's error.
func (h *treasuryHandlers) listLedger(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	matches, err := h.readLedgerFilter(c)
	if err != nil {
		return answer{}, err
	}
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	list := filteredList[balance.LedgerEntry]{of: query.LedgerEntries, filter: c.filterText(ledgerQuery...),
		within: within, matches: matches,
		timeOf: func(e *balance.LedgerEntry) time.Time { return e.BookedAt.Time },
		show: func(stored json.RawMessage, _ *balance.LedgerEntry) (any, error) {
			return stored, nil
		}}
	return list.answerPage(h.edge, c)
}

// readLedgerFilter reads the source, direction, amounts, card and group of the query as a test of
// entries. It fails with invalid_query, which names the parameter, and with not_found for another
// workspace's card.
func (h *treasuryHandlers) readLedgerFilter(c *call) (matches func(*balance.LedgerEntry) bool, err error) {
	source, ofSource, err := c.readChoice("source", balance.LedgerSources...)
	if err != nil {
		return nil, err
	}
	direction, ofDirection, err := c.readChoice("direction", "debit", "credit")
	if err != nil {
		return nil, err
	}
	least, most, err := c.readAmounts()
	if err != nil {
		return nil, err
	}
	group, ofGroup := c.query["transferGroup"]
	if ofGroup {
		if _, err := ident.Parse(ident.TransferGroup, group); err != nil {
			return nil, fault.New(fault.InvalidQuery, "transferGroup must be the transferGroup of an entry")
		}
	}
	card, ofCard := c.query["cardId"]
	if ofCard {
		if _, err := readOwn(h.edge, c, query.Cards, card); err != nil {
			return nil, err
		}
	}
	return func(e *balance.LedgerEntry) bool {
		return (!ofSource || e.Source == source) && (!ofDirection || e.Direction == direction) &&
			(!ofGroup || e.TransferGroup == group) && (!ofCard || e.CardID != nil && *e.CardID == card) &&
			e.AmountCents >= least && e.AmountCents <= most
	}, nil
}
