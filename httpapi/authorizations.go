package httpapi

import (
	"encoding/json"
	"slices"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/query"
)

const (
	maxScanned   = 1000 // authorizations that one filtered page examines; its cursor continues behind them
	indexRecords = 16   // index records read at a time; one can hold balance.MaxRelay ids, 18 KB
)

func (h *cardHandlers) authorizationRoutes() []route {
	return []route{{method: "GET", path: "/api/authorizations", auth: authKey, scope: "read:cards",
		query: append([]string{"cardId", "decision"}, pageQuery...), handle: h.listAuthorizations}}
}

// listAuthorizations handles GET /api/authorizations. It lists the authorizations of a card, or
// those of the workspace through its index, newest first. It fails with invalid_query for a bad
// decision, limit or cursor, and with not_found for another workspace's card.
func (h *cardHandlers) listAuthorizations(c *call) (answer, error) {
	wanted, filtered := c.query["decision"]
	if filtered && !slices.Contains([]string{"approved", "declined"}, wanted) {
		return answer{}, fault.New(fault.InvalidQuery, "decision must be approved or declined")
	}
	l := listing{kind: balance.RecordAuthorizationIndex, workspace: c.who.workspace(), filter: wanted}
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
	out, err := walk.collectPage(asked.Limit, wanted)
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
	list := query.Authorizations.AsStored()
	if w.l.kind == balance.RecordAuthorizationIndex {
		list = query.AuthorizationIndexes.AsStored()
	}
	if w.records, err = list.List(w.c.ctx, w.h.actors, w.l.workspace, w.l.parent, w.nextPage); err != nil {
		return err
	}
	if w.ended = len(w.records) < w.nextPage.Limit; !w.ended {
		w.nextPage.After = w.records[len(w.records)-1].Place
	}
	return nil
}

// openRecord sets ids to the authorizations of the current record. It fails only for an index
// document that cannot be decoded.
func (w *authorizationWalk) openRecord() error {
	if w.l.kind == balance.RecordAuthorization {
		w.ids = []string{w.current.ID}
		return nil
	}
	index, err := query.AuthorizationIndexes.Decode(w.current.Document)
	w.ids = index.All()
	return err
}

// collectPage collects a page from the walk's position: the authorizations with the decision
// wanted, or all for "". A page may be short or empty, because it also ends after maxScanned
// authorizations. It fails only with an error of the store.
func (w *authorizationWalk) collectPage(limit int, wanted string) (page, error) {
	out := page{Data: []any{}}
	for scanned := 0; ; scanned++ {
		last, shown := w.current, w.shown
		if shown == len(w.ids) {
			shown = 0
		}
		there, err := w.nextAuthorization()
		if err != nil || !there {
			return out, err
		}
		if len(out.Data) == limit || scanned == maxScanned {
			out.NextCursor = w.l.cursorIn(last.Place, shown)
			return out, nil
		}
		document, err := w.readDocument()
		if err != nil {
			return page{}, err
		}
		if matches, err := decidedAs(document, wanted); err != nil {
			return page{}, err
		} else if matches {
			out.Data = append(out.Data, document)
		}
	}
}

// readDocument returns the record of the authorization at the walk's position.
func (w *authorizationWalk) readDocument() (json.RawMessage, error) {
	if w.l.kind == balance.RecordAuthorization {
		return w.c.stripPrefix(w.current.Document), nil
	}
	found, err := query.Authorizations.AsStored().Read(w.c.ctx, w.h.actors, w.l.workspace, w.ids[len(w.ids)-w.shown])
	return w.c.stripPrefix(found), err
}

func decidedAs(document json.RawMessage, wanted string) (bool, error) {
	if wanted == "" {
		return true, nil
	}
	a, err := query.AuthorizationDecisions.Decode(document)
	return a.Decision == wanted, err
}
