package httpapi

import (
	"encoding/json"
	"slices"
	"time"

	"purser/actors/balance"
	"purser/actors/query"
)

const (
	maxScanned   = 1000 // authorizations that one filtered page examines; its cursor continues behind them
	indexRecords = 16   // index records read at a time; one can hold balance.MaxRelay ids, 18 KB
)

// authorizationRoutes returns the routes that read authorizations.
func (h *cardHandlers) authorizationRoutes() []route {
	const path = "/api/authorizations"
	return []route{
		{method: "GET", path: path, auth: authKey, scope: "read:cards",
			query: slices.Concat([]string{"cardId"}, authorizationFilters, pageQuery), handle: h.listAuthorizations},
		{method: "GET", path: path + "/totals", auth: authKey, scope: "read:cards", handle: h.getAuthorizationTotals},
		{method: "GET", path: path + "/{id}", auth: authKey, scope: "read:cards", handle: h.getAuthorization},
	}
}

// getAuthorization handles GET /api/authorizations/{id}: it shows an authorization and the id of
// its card. It fails with not_found for another workspace's. It first waits until the journal has
// the workspace's answered decisions.
func (h *cardHandlers) getAuthorization(c *call) (answer, error) {
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	record, err := query.Authorizations.AsStored().ReadRecord(c.ctx, h.actors, c.who.workspace(), c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"authorization": record.Document,
		"cardId": record.Parent})
}

// listAuthorizations handles GET /api/authorizations. It lists the authorizations of a card, or
// those of the workspace through its index, newest first. It fails with invalid_query for a bad
// filter, limit or cursor, and with not_found for another workspace's card.
func (h *cardHandlers) listAuthorizations(c *call) (answer, error) {
	filter, err := c.readAuthorizationFilter()
	if err != nil {
		return answer{}, err
	}
	l := listing{kind: balance.RecordAuthorizationIndex, workspace: c.who.workspace(), filter: c.filterMark()}
	asked, shown, err := c.readPart(l.ofCard(c))
	if err != nil {
		return answer{}, err
	}
	if id, given := c.query["cardId"]; given {
		if _, err := h.readCard(c, id); err != nil {
			return answer{}, err
		}
		l = l.ofCard(c)
	}
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	walk := authorizationWalk{h: h, c: c, l: l}
	if err := walk.startBehind(asked, shown); err != nil {
		return answer{}, err
	}
	if asked.After == (query.Place{}) && !filter.until.IsZero() {
		if err := walk.skipNewer(filter.until.Add(maxClockStep)); err != nil {
			return answer{}, err
		}
	}
	out, err := walk.collectPage(asked.Limit, &filter)
	if err != nil {
		return answer{}, err
	}
	return reply(out)
}

// ofCard narrows the list to the card of the query, if the query has one.
func (l listing) ofCard(c *call) listing {
	if id, given := c.query["cardId"]; given {
		l.kind, l.parent = balance.RecordAuthorization, id
	}
	return l
}

// authorizationWalk iterates over authorizations, newest first: the records of a card, or those
// that the workspace's index names. Index records are only prepended and never change, so a
// position in one stays valid.
type authorizationWalk struct {
	h        *cardHandlers
	c        *call
	l        listing
	nextPage query.Page                      // the page to read after records
	records  []query.Record[json.RawMessage] // read, before current
	ended    bool                            // the list has no more behind records
	current  query.Record[json.RawMessage]   // the record of ids
	ids      []string                        // the ids that current holds, in the order of their decisions
	shown    int                             // the number of ids passed, from the last one backwards
}

// startBehind starts behind the record of the cursor, or behind the first shown entries of it. It
// fails with invalid_query when the cursor's record does not hold that many entries, and with the
// store's error.
func (w *authorizationWalk) startBehind(asked query.Page, shown int) error {
	w.nextPage = query.Page{After: asked.After, Limit: asked.Limit + 1}
	if w.l.kind == balance.RecordAuthorizationIndex {
		w.nextPage.Limit = min(w.nextPage.Limit, indexRecords)
	}
	if shown == 0 {
		return nil
	}
	// The ordinal after the cursor's makes the first read begin with the cursor's own record. The
	// highest ordinal overflows to 0, behind which a position has no record.
	w.nextPage.After.Ordinal++
	there, err := w.nextAuthorization()
	if err != nil {
		return err
	}
	if !there || w.current.Place != asked.After || shown >= len(w.ids) {
		return foreignCursor()
	}
	w.shown = shown
	return nil
}

// nextAuthorization advances by one authorization and reports whether there was one. It fails only
// with an error of the store.
func (w *authorizationWalk) nextAuthorization() (bool, error) {
	for w.shown == len(w.ids) {
		if len(w.records) == 0 {
			if err := w.fetchRecords(); err != nil || len(w.records) == 0 {
				return false, err
			}
		}
		w.current, w.records, w.shown = w.records[0], w.records[1:], 0
		if err := w.openRecord(); err != nil {
			return false, err
		}
	}
	w.shown++
	return true, nil
}

// fetchRecords reads the next page of records behind the last one read. It reads nothing once the
// list has ended. It fails only with an error of the store.
func (w *authorizationWalk) fetchRecords() (err error) {
	if w.ended {
		return nil
	}
	if w.records, err = w.listRecords(w.nextPage); err != nil {
		return err
	}
	if w.ended = len(w.records) < w.nextPage.Limit; !w.ended {
		w.nextPage.After = w.records[len(w.records)-1].Place
	}
	return nil
}

// listRecords reads a page of the records of the walk's list.
func (w *authorizationWalk) listRecords(page query.Page) ([]query.Record[json.RawMessage], error) {
	list := query.Authorizations.AsStored()
	if w.l.kind == balance.RecordAuthorizationIndex {
		list = query.AuthorizationIndexes.AsStored()
	}
	return list.List(w.c.ctx, w.h.actors, w.l.workspace, w.l.parent, page)
}

// skipNewer starts the walk with the records at or before the position of the first one since a
// time. The time of an index record is that of its first authorization. It fails only with an error
// of the store. It must be called before the first nextAuthorization.
func (w *authorizationWalk) skipNewer(at time.Time) error {
	first, err := firstPlaceSince(at, func(before uint64) (made time.Time, position uint64, err error) {
		records, err := w.listRecords(query.Page{After: query.Place{Position: before}, Limit: 1})
		if err != nil || len(records) == 0 {
			return made, 0, err
		}
		made, err = madeAt(records[0].ID)
		return made, records[0].Place.Position, err
	})
	w.nextPage.After = query.Place{Position: first + 1} // the records of one position can be of many times
	return err
}

// openRecord sets ids to the authorizations of the current record. The bytes of an index document
// count, because no answer shows them. It fails only for one that cannot be decoded.
func (w *authorizationWalk) openRecord() error {
	if w.l.kind == balance.RecordAuthorization {
		w.ids = []string{w.current.ID}
		return nil
	}
	w.c.passed += len(w.current.Document)
	index, err := query.AuthorizationIndexes.Decode(w.current.Document)
	w.ids = index.AuthorizationIDs
	return err
}

// authorizationPage is a page of authorizations with the ids of their cards, in the same order.
type authorizationPage struct {
	page
	CardIDs []string `json:"cardIds"`
}

// collectPage collects a page from the walk's position: the authorizations that a filter selects. A
// page may be short or empty, because it also ends after maxScanned authorizations and at
// maxReadBytes. The bytes of records that it does not show count. It fails with an error of the
// store, and like scan.isOver.
func (w *authorizationWalk) collectPage(limit int, filter *authorizationFilter) (authorizationPage, error) {
	out := authorizationPage{page: page{Data: []any{}}, CardIDs: []string{}}
	reading := w.h.limits.newScan(w.c)
	defer reading.endScan()
	for scanned := 0; ; scanned++ {
		last, shown := w.current, w.shown
		if shown == len(w.ids) {
			shown = 0
		}
		there, err := w.nextAuthorization()
		if err != nil || !there {
			return out, err
		}
		made, err := madeAt(w.currentID())
		if err != nil || filter.isBehind(made) {
			return out, err
		}
		over, err := reading.isOver()
		if err != nil {
			return authorizationPage{}, err
		}
		if over || len(out.Data) == limit || scanned == maxScanned {
			out.NextCursor = w.l.cursorIn(last.Place, shown)
			return out, nil
		}
		if !filter.isWithin(made) {
			if w.l.kind == balance.RecordAuthorization {
				w.c.passed += len(w.current.Document)
			}
			continue
		}
		record, err := w.readRecord()
		if err != nil {
			return authorizationPage{}, err
		}
		if matches, err := filter.matchesDocument(record.Document); err != nil {
			return authorizationPage{}, err
		} else if !matches {
			w.c.passed += len(record.Document)
			continue
		}
		out.Data, out.CardIDs = append(out.Data, record.Document), append(out.CardIDs, record.Parent)
	}
}

// readRecord returns the record of the authorization at the walk's position, as it is stored. It
// fails when the record cannot be read.
func (w *authorizationWalk) readRecord() (query.Record[json.RawMessage], error) {
	if w.l.kind == balance.RecordAuthorization {
		return w.current, nil
	}
	return query.Authorizations.AsStored().ReadRecord(w.c.ctx, w.h.actors, w.l.workspace, w.currentID())
}

// currentID returns the id of the authorization at the walk's position.
func (w *authorizationWalk) currentID() string { return w.ids[len(w.ids)-w.shown] }
