package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/persistence"
)

// maxScanned bounds the records one filtered page looks at; its cursor goes on from there.
const maxScanned = 1000

func (s *Server) authorizationRoutes() []route {
	return []route{{method: "GET", path: "/api/authorizations", auth: authKey, scope: "read:cards",
		query: append([]string{"cardId", "decision"}, pageQuery...), handle: s.listAuthorizations}}
}

// listAuthorizations lists those of a card, or through the workspace's index those of all its cards.
func (s *Server) listAuthorizations(c *call) (answer, error) {
	wanted, filtered := c.query["decision"]
	if filtered && !slices.Contains([]string{"approved", "declined"}, wanted) {
		return answer{}, fault.New(fault.InvalidQuery, "decision must be approved or declined")
	}
	l := listing{kind: balance.RecordAuthorizationIndex, workspace: c.who.workspace(), filter: wanted}
	asked, err := c.readPage(l.ofCard(c))
	if err != nil {
		return answer{}, err
	}
	if id, given := c.query["cardId"]; given {
		if _, err := s.readCard(c, id); err != nil {
			return answer{}, err
		}
		l = l.ofCard(c)
	}
	s.actors.WaitRelayed(c.ctx, c.who.workspace())
	out, err := s.scanAuthorizations(c, l, asked, wanted)
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

// scanAuthorizations fills a page with those that were so decided ("" for all).
func (s *Server) scanAuthorizations(c *call, l listing, asked persistence.Page, wanted string) (page, error) {
	out := page{Data: []any{}}
	at := persistence.Page{AfterPosition: asked.AfterPosition, AfterOrdinal: asked.AfterOrdinal, Limit: asked.Limit + 1}
	for scanned := 0; ; {
		records, err := s.actors.List(c.ctx, l.kind, l.workspace, l.parent, at)
		if err != nil {
			return page{}, err
		}
		for i, r := range records {
			document, err := s.authorizationOf(c, l, r)
			if err != nil {
				return page{}, err
			}
			if matches, err := decidedAs(document, wanted); err != nil {
				return page{}, err
			} else if matches {
				out.Data = append(out.Data, document)
			}
			scanned++
			more := i+1 < len(records) || len(records) == at.Limit
			if more && (len(out.Data) == asked.Limit || scanned >= maxScanned) {
				out.NextCursor = l.cursor(r)
				return out, nil
			}
		}
		if len(records) < at.Limit {
			return out, nil
		}
		last := records[len(records)-1]
		at.AfterPosition, at.AfterOrdinal = last.Position, last.Ordinal
	}
}

// authorizationOf follows an entry of the workspace's index to the authorization it names.
func (s *Server) authorizationOf(c *call, l listing, r persistence.Record) (json.RawMessage, error) {
	if l.kind == balance.RecordAuthorization {
		return c.unmark(r.Document), nil
	}
	var index balance.AuthorizationIndex
	if err := json.Unmarshal(r.Document, &index); err != nil {
		return nil, fmt.Errorf("authorization's index: %w", err)
	}
	found, err := s.actors.Record(c.ctx, balance.RecordAuthorization, l.workspace, index.AuthorizationID)
	return c.unmark(found.Document), err
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
