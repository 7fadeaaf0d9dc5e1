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

// Entries of a page.
const (
	minLimit     = 1
	maxLimit     = 100
	defaultLimit = 50
)

// pageQuery are the parameters of every list.
var pageQuery = []string{"limit", "cursor"}

// page is a list's answer.
type page struct {
	Data       []any   `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// listing says which records a list shows, and in which tenant.
type listing struct{ kind, workspace, parent, filter string }

// mark binds a cursor to its list: one of another list, or of another filter, is refused and not followed.
func (l listing) mark() [4]byte {
	sum := sha256.Sum256([]byte(l.kind + "|" + l.workspace + "|" + l.parent + "|" + l.filter))
	return [4]byte(sum[:4])
}

const cursorBytes = 4 + 8 + 4

// cursor points behind a record. Callers take it for opaque.
func (l listing) cursor(after persistence.Record) *string {
	mark := l.mark()
	b := binary.BigEndian.AppendUint64(mark[:], after.Position)
	b = binary.BigEndian.AppendUint32(b, after.Ordinal)
	text := base64.RawURLEncoding.EncodeToString(b)
	return &text
}

// readPage reads limit and cursor.
func (c *call) readPage(l listing) (persistence.Page, error) {
	p := persistence.Page{Limit: defaultLimit}
	if text, given := c.query["limit"]; given {
		n, err := strconv.Atoi(text)
		if err != nil || n < minLimit || n > maxLimit || strconv.Itoa(n) != text {
			return p, fault.New(fault.InvalidQuery, "limit must be between 1 and 100")
		}
		p.Limit = n
	}
	text, given := c.query["cursor"]
	if !given {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != cursorBytes || [4]byte(b[:4]) != l.mark() {
		return p, fault.New(fault.InvalidQuery, "cursor must be a nextCursor of this list")
	}
	p.AfterPosition = binary.BigEndian.Uint64(b[4:])
	p.AfterOrdinal = binary.BigEndian.Uint32(b[12:])
	if p.AfterPosition == 0 {
		return p, fault.New(fault.InvalidQuery, "cursor must be a nextCursor of this list")
	}
	return p, nil
}

// list answers a page of records. show turns a record into what is shown; nil shows its document as it is stored.
func (s *Server) list(c *call, l listing, show func(persistence.Record) (any, error)) (answer, error) {
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	one := asked
	one.Limit++ // to see whether there is more
	records, err := s.actors.List(c.ctx, l.kind, l.workspace, l.parent, one)
	if err != nil {
		return answer{}, err
	}
	out := page{Data: []any{}}
	if len(records) > asked.Limit {
		records = records[:asked.Limit]
		out.NextCursor = l.cursor(records[len(records)-1])
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
