package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"purser/actors/fault"
	"purser/persistence"
)

// Limits of a page.
const (
	minLimit     = 1
	maxLimit     = 100
	defaultLimit = 50
	// A page ends with the record that takes it beyond maxPageBytes. It is read in two parts, so
	// that long records beyond its end are not read.
	maxPageBytes = 1 << 20
	firstRead    = 16 // records
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

// cursorBehind returns the cursor behind a record. Clients treat it as opaque.
func (l listing) cursorBehind(after persistence.Record) *string { return l.cursorIn(after, 0) }

// cursorIn returns a cursor into a record that holds several entries of the list. It points behind
// the first shown entries (1 to 65,535) when more follow; with 0 it points behind the record.
func (l listing) cursorIn(r persistence.Record, shown int) *string {
	mark := l.cursorMark()
	b := binary.BigEndian.AppendUint64(mark[:], r.Position)
	b = binary.BigEndian.AppendUint32(b, r.Ordinal)
	if shown != 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(shown))
	}
	text := base64.RawURLEncoding.EncodeToString(b)
	return &text
}

func foreignCursor() error {
	return fault.New(fault.InvalidQuery, "cursor must be a nextCursor of this list")
}

// readPage reads limit and cursor of a list whose records are one entry each.
func (c *call) readPage(l listing) (persistence.Page, error) {
	p, shown, err := c.readPart(l)
	if err == nil && shown != 0 {
		err = foreignCursor()
	}
	return p, err
}

// readPart reads limit and cursor. shown is the number of entries already shown of the record at
// the cursor; 0 means all.
func (c *call) readPart(l listing) (p persistence.Page, shown int, err error) {
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
	if err != nil || len(b) != cursorBytes && len(b) != partBytes || [4]byte(b[:4]) != l.cursorMark() {
		return p, 0, foreignCursor()
	}
	p.AfterPosition = binary.BigEndian.Uint64(b[4:])
	p.AfterOrdinal = binary.BigEndian.Uint32(b[12:])
	if len(b) == partBytes {
		shown = int(binary.BigEndian.Uint16(b[cursorBytes:]))
	}
	if p.AfterPosition == 0 || len(b) == partBytes && shown == 0 {
		return p, 0, foreignCursor()
	}
	return p, shown, nil
}

// list answers a page of records. show turns a record into its JSON value; nil shows the stored
// document.
func (e *edge) list(c *call, l listing, show func(persistence.Record) (any, error)) (answer, error) {
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	records, more, err := e.readRecords(c, l, asked)
	if err != nil {
		return answer{}, err
	}
	out := page{Data: []any{}}
	if more {
		out.NextCursor = l.cursorBehind(records[len(records)-1])
	}
	for _, record := range records {
		shown := any(json.RawMessage(record.Document))
		if show != nil {
			if shown, err = show(record); err != nil {
				return answer{}, err
			}
		}
		out.Data = append(out.Data, shown)
	}
	return reply(out)
}

// readRecords reads the records of a page, and reports whether more follow.
func (e *edge) readRecords(c *call, l listing, asked persistence.Page) (records []persistence.Record, more bool,
	err error) {
	length, at := 0, asked
	for {
		// The extra record shows whether the list continues.
		at.Limit = asked.Limit + 1 - len(records)
		if len(records) == 0 {
			at.Limit = min(at.Limit, firstRead)
		}
		read, err := e.actors.List(c.ctx, l.kind, l.workspace, l.parent, at)
		if err != nil {
			return nil, false, err
		}
		for i, record := range read {
			if length > maxPageBytes || len(records) == asked.Limit {
				return records, true, nil
			}
			length += len(record.Document)
			records = append(records, read[i])
		}
		if len(read) < at.Limit {
			return records, false, nil
		}
		last := records[len(records)-1]
		at.AfterPosition, at.AfterOrdinal = last.Position, last.Ordinal
	}
}
