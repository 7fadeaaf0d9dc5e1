package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"purser/actors/fault"
	"purser/actors/query"
)

// Limits of a page.
const (
	minLimit     = 1
	maxLimit     = 100
	defaultLimit = 50
	maxPageBytes = 1 << 20 // a page ends with the record that takes its stored documents beyond it
)

// pageQuery holds the query parameters of every list.
var pageQuery = []string{"limit", "cursor"}

// page is the answer of a list.
type page struct {
	Data       []any   `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// listing selects the records of a list, and its tenant.
type listing struct{ kind, workspace, parent, filter string }

// cursorMark returns the fingerprint that binds a cursor to its list and filter. A cursor with
// another mark is refused.
func (l listing) cursorMark() [4]byte {
	sum := sha256.Sum256([]byte(l.kind + "|" + l.workspace + "|" + l.parent + "|" + l.filter))
	return [4]byte(sum[:4])
}

const (
	cursorBytes = 4 + 8 + 4
	partBytes   = cursorBytes + 2 // a cursor that points into a record
)

// cursorBehind returns the cursor behind the record at a place. Clients treat it as opaque.
func (l listing) cursorBehind(after query.Place) *string { return l.cursorIn(after, 0) }

// cursorIn returns a cursor into the record at a place, which holds several entries of the list. It points behind
// the first shown entries (1 to 65,535) when more follow; with 0 it points behind the record.
func (l listing) cursorIn(at query.Place, shown int) *string {
	mark := l.cursorMark()
	b := binary.BigEndian.AppendUint64(mark[:], at.Position)
	b = binary.BigEndian.AppendUint32(b, at.Ordinal)
	if shown != 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(shown))
	}
	text := base64.RawURLEncoding.EncodeToString(b)
	return &text
}

func foreignCursor() error {
	return fault.New(fault.InvalidQuery, "cursor must be a nextCursor of this list")
}

// readPage reads limit and cursor of a list whose records are one entry each. It fails with
// invalid_query for a limit outside 1 to 100, and for a cursor that is not of this list and filter.
func (c *call) readPage(l listing) (query.Page, error) {
	p, shown, err := c.readPart(l)
	if err == nil && shown != 0 {
		err = foreignCursor()
	}
	return p, err
}

// readPart reads limit and cursor. shown is the number of entries already shown of the record at
// the cursor; 0 means all. It fails with invalid_query for a limit outside 1 to 100, and for a
// cursor that is not of this list and filter.
func (c *call) readPart(l listing) (p query.Page, shown int, err error) {
	p.Limit = defaultLimit
	if text, given := c.query["limit"]; given {
		n, err := strconv.Atoi(text)
		if err != nil || n < minLimit || n > maxLimit || strconv.Itoa(n) != text {
			return p, 0, fault.New(fault.InvalidQuery, "limit must be between 1 and 100")
		}
		p.Limit = n
	}
	text, given := c.query["cursor"]
	if !given {
		return p, 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != cursorBytes && len(b) != partBytes {
		return p, 0, foreignCursor()
	}
	p.After.Position = binary.BigEndian.Uint64(b[4:])
	p.After.Ordinal = binary.BigEndian.Uint32(b[12:])
	if len(b) == partBytes {
		shown = int(binary.BigEndian.Uint16(b[cursorBytes:]))
	}
	// A cursor of another list has another mark, and package base64 reads several texts as the same
	// bytes: with line feeds, and with bits that no byte takes.
	if p.After.Position == 0 || *l.cursorIn(p.After, shown) != text {
		return p, 0, foreignCursor()
	}
	return p, shown, nil
}

// listRecords answers a page of the records that the caller's workspace has of a kind and a parent;
// most kinds have the parent "". show turns a document into its JSON value. A page also ends at
// maxPageBytes. It fails like readPage, with the store's error, and with show's.
func listRecords[D any](e *edge, c *call, of query.Records[D], parent string, show func(D) (any, error)) (answer,
	error) {
	l := listing{kind: of.Kind(), workspace: c.who.workspace(), parent: parent}
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	records, more, err := of.ListWithin(c.ctx, e.actors, l.workspace, parent, asked, maxPageBytes)
	if err != nil {
		return answer{}, err
	}
	out := page{Data: []any{}}
	if more {
		out.NextCursor = l.cursorBehind(records[len(records)-1].Place)
	}
	for i := range records {
		shown, err := show(records[i].Document)
		if err != nil {
			return answer{}, err
		}
		out.Data = append(out.Data, shown)
	}
	return reply(out)
}

// listInState answers a page of a list that the state of an actor holds whole, given oldest first.
// Like every list it shows the newest first. A cursor holds the time of an entry in milliseconds
// and its index in the list. It fails like pageInState.
func listInState[T any](c *call, kind string, all []T, at func(T) time.Time, show func(T) (any, error)) (answer,
	error) {
	newest := slices.Clone(all)
	slices.Reverse(newest)
	out, err := pageInState(c, kind, newest, func(i int) query.Place {
		return query.Place{Position: uint64(at(newest[i]).UnixMilli()), Ordinal: uint32(len(newest) - 1 - i)}
	}, show)
	if err != nil {
		return answer{}, err
	}
	return reply(out)
}

// pageInState returns the page that a request asks for of a list that the state of an actor holds
// whole, given as it is shown. The places of its entries descend from above 0. It fails like
// readPage, and with show's error.
func pageInState[T any](c *call, kind string, all []T, placeOf func(int) query.Place,
	show func(T) (any, error)) (page, error) {
	l := listing{kind: kind, workspace: c.who.keyScope()}
	asked, err := c.readPage(l)
	if err != nil {
		return page{}, err
	}
	out := page{Data: []any{}}
	for i := range all {
		if asked.After.Position > 0 && !comesAfter(placeOf(i), asked.After) {
			continue
		}
		if len(out.Data) == asked.Limit {
			out.NextCursor = l.cursorBehind(placeOf(i - 1))
			break
		}
		shown, err := show(all[i])
		if err != nil {
			return page{}, err
		}
		out.Data = append(out.Data, shown)
	}
	return out, nil
}

// comesAfter reports whether an entry is behind the cursor of a list whose places descend.
func comesAfter(p, cursor query.Place) bool {
	return p.Position < cursor.Position || p.Position == cursor.Position && p.Ordinal < cursor.Ordinal
}

// showStored shows a document as it is stored.
func showStored(document json.RawMessage) (any, error) { return document, nil }
