package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
)

const (
	maxScanned   = 1000 // authorizations that one filtered page looks at; its cursor goes on from there
	indexRecords = 16   // of the workspace's index, read at a time: one may name balance.MaxRelay, which is 18 KB
)

func (h *cardHandlers) authorizationRoutes() []route {
	return []route{{method: "GET", path: "/api/authorizations", auth: authKey, scope: "read:cards",
		query: append([]string{"cardId", "decision"}, pageQuery...), handle: h.listAuthorizations}}
}

// listAuthorizations lists those of a card, or through the workspace's index those of all its cards.
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
	if err := walk.begin(asked, shown); err != nil {
		return answer{}, err
	}
	out, err := walk.page(asked.Limit, wanted)
	if err != nil {
		return answer{}, err
	}
	return reply(out)
}

// ofCard narrows the list to the card of the query, if there is one.
func (l listing) ofCard(c *call) listing {
	if id, given := c.query["cardId"]; given {
		l.kind, l.parent = balance.RecordAuthorization, id
	}
	return l
}

// authorizationWalk goes through a list of authorizations, newest first: the records of a card, or what those of the workspace's
// index name. Index records only come at the front of the list and never change, so a place in one stays.
type authorizationWalk struct {
	h       *cardHandlers
	c       *call
	l       listing
	at      persistence.Page     // where what comes after records is read
	records []persistence.Record // read and not yet begun
	ended   bool                 // nothing comes after records
	now     persistence.Record
	names   []string // the authorizations of now, in the order in which they were decided
	shown   int      // how many of names were passed, from the last one on
}

// begin starts behind the record asked for, or behind as many entries of it as were shown.
func (w *authorizationWalk) begin(asked persistence.Page, shown int) error {
	w.at = persistence.Page{AfterPosition: asked.AfterPosition, AfterOrdinal: asked.AfterOrdinal, Limit: asked.Limit + 1}
	if w.l.kind == balance.RecordAuthorizationIndex {
		w.at.Limit = min(w.at.Limit, indexRecords)
	}
	if shown == 0 {
		return nil
	}
	w.at.AfterOrdinal++ // so that the record itself comes first; the highest becomes 0, behind which its position has none
	there, err := w.next()
	if err != nil {
		return err
	}
	if !there || w.now.Position != asked.AfterPosition || w.now.Ordinal != asked.AfterOrdinal || shown >= len(w.names) {
		return foreignCursor()
	}
	w.shown = shown
	return nil
}

// next goes one on and says whether there is one.
func (w *authorizationWalk) next() (bool, error) {
	for w.shown == len(w.names) {
		if len(w.records) == 0 {
			if err := w.read(); err != nil || len(w.records) == 0 {
				return false, err
			}
		}
		w.now, w.records, w.shown = w.records[0], w.records[1:], 0
		if err := w.open(); err != nil {
			return false, err
		}
	}
	w.shown++
	return true, nil
}

func (w *authorizationWalk) read() (err error) {
	if w.ended {
		return nil
	}
	if w.records, err = w.h.actors.List(w.c.ctx, w.l.kind, w.l.workspace, w.l.parent, w.at); err != nil {
		return err
	}
	if w.ended = len(w.records) < w.at.Limit; !w.ended {
		last := w.records[len(w.records)-1]
		w.at.AfterPosition, w.at.AfterOrdinal = last.Position, last.Ordinal
	}
	return nil
}

// open reads the names of the authorizations of the record that the walk has come to.
func (w *authorizationWalk) open() error {
	if w.l.kind == balance.RecordAuthorization {
		w.names = []string{w.now.ID}
		return nil
	}
	var index balance.AuthorizationIndex
	if err := json.Unmarshal(w.now.Document, &index); err != nil {
		return fmt.Errorf("authorizations' index: %w", err)
	}
	w.names = index.All()
	return nil
}

// page takes the entries of a page, those that were so decided ("" for all), from where the walk stands.
func (w *authorizationWalk) page(limit int, wanted string) (page, error) {
	out := page{Data: []any{}}
	for scanned := 0; ; scanned++ {
		last, shown := w.now, w.shown
		if shown == len(w.names) {
			shown = 0
		}
		there, err := w.next()
		if err != nil || !there {
			return out, err
		}
		if len(out.Data) == limit || scanned == maxScanned {
			out.NextCursor = w.l.cursorIn(last, shown)
			return out, nil
		}
		document, err := w.document()
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

// document is the authorization where the walk stands.
func (w *authorizationWalk) document() (json.RawMessage, error) {
	if w.l.kind == balance.RecordAuthorization {
		return w.c.unmark(w.now.Document), nil
	}
	found, err := w.h.actors.Record(w.c.ctx, balance.RecordAuthorization, w.l.workspace, w.names[len(w.names)-w.shown])
	return w.c.unmark(found.Document), err
}

func decidedAs(document json.RawMessage, wanted string) (bool, error) {
	if wanted == "" {
		return true, nil
	}
	var a struct {
		Decision string `json:"decision"`
	}
	if err := json.Unmarshal(document, &a); err != nil {
		return false, fmt.Errorf("authorization's record: %w", err)
	}
	return a.Decision == wanted, nil
}
