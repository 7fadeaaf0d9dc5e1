package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/httpapi/statement"
	"purser/persistence/money"
)

// Limits of a statement. A statement is built whole before its first byte is sent, so that an
// inconsistent one is never sent.
const (
	maxStatementDays  = 366
	maxStatementLines = 50_000
	maxOtherLines     = 1_000_000 // ledger lines of other balances, which are skipped
	statementsAtOnce  = 4
	statementTurn     = time.Second // the longest wait for a place of statementsAtOnce
	statementPage     = query.MaxPage
	lineBytes         = 256 // about the size of a stored line, counted for each that is read
)

// statementFormats maps the names of the file formats to their writers.
var statementFormats = map[string]struct {
	contentType, extension string
	write                  func(*statement.Statement, io.Writer) error
}{
	"csv":     {"text/csv; charset=utf-8; header=present", "csv", (*statement.Statement).CSV},
	"camt053": {"application/xml", "xml", (*statement.Statement).CAMT053},
}

func (h *treasuryHandlers) statementRoutes() []route {
	return []route{{method: "GET", path: "/api/treasury/statement", auth: authKey, scope: "read:treasury",
		query: []string{"from", "to", "format"}, handle: h.getStatement}}
}

// getStatement answers the dollar ledger of whole days as a file.
//
// A line belongs to the day of its booking, so the statement of a past day never changes. A
// clearing that is booked after midnight is in the next day's statement, with the earlier date as
// its value date. Each line holds the balance after it, so the opening balance is found without
// reading all earlier lines. It handles GET /api/treasury/statement. It fails with invalid_query,
// with unavailable while other statements take all places, and with limit_exceeded for too many
// lines.
func (h *treasuryHandlers) getStatement(c *call) (answer, error) {
	asked, err := readPeriod(c)
	if err != nil {
		return answer{}, err
	}
	format, known := statementFormats[c.query["format"]]
	if !known {
		return answer{}, fault.New(fault.InvalidQuery, "format must be csv or camt053")
	}
	done, err := h.statementTurn(c)
	if err != nil {
		return answer{}, err
	}
	defer done()
	if err := h.readStatement(c, asked); err != nil {
		return answer{}, err
	}
	var out bytes.Buffer
	if err := format.write(asked, &out); err != nil {
		return answer{}, fmt.Errorf("statement of %s: %w", asked.Account, err)
	}
	name := fmt.Sprintf("statement-%s-%s.%s", asked.From.Format(time.DateOnly), asked.To.Format(time.DateOnly),
		format.extension)
	return answer{status: fasthttp.StatusOK, body: out.Bytes(), file: &file{format.contentType, name}}, nil
}

// statementTurn waits for one of the places of statementsAtOnce. A workspace has at most one. It
// fails with unavailable after the time statementTurn. The caller must call done.
func (h *treasuryHandlers) statementTurn(c *call) (done func(), err error) {
	ctx, cancel := context.WithTimeout(c.ctx, statementTurn)
	defer cancel()
	if done, err = h.statements.Acquire(ctx, c.who.workspace()); err != nil {
		return nil, fault.New(fault.Unavailable, "other statements are being made; nothing changed")
	}
	return done, nil
}

// readPeriod returns a statement of the requested days, without balances and lines. It fails with
// invalid_query for a day that is no date, for a reversed or future period, and for one of more
// than maxStatementDays.
func readPeriod(c *call) (*statement.Statement, error) {
	from, err := readDay(c, "from")
	if err != nil {
		return nil, err
	}
	to, err := readDay(c, "to")
	if err != nil {
		return nil, err
	}
	today := c.now.UTC().Truncate(24 * time.Hour)
	switch {
	case to.Before(from):
		return nil, fault.New(fault.InvalidQuery, "to must not be before from")
	case to.After(today):
		return nil, fault.New(fault.InvalidQuery, "to must not be after today, in UTC")
	case !to.Before(from.AddDate(0, 0, maxStatementDays)):
		return nil, fault.New(fault.InvalidQuery, fmt.Sprintf("from and to may span at most %d days", maxStatementDays))
	}
	return &statement.Statement{Account: c.who.workspace(), From: from, To: to, Made: c.now, Open: to.Equal(today)}, nil
}

func readDay(c *call, name string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, c.query[name])
	if err != nil {
		return day, fault.New(fault.InvalidQuery, name+" must be a day: YYYY-MM-DD")
	}
	return day, nil
}

// readStatement fills in the balances and lines. The balance's actor answers after every earlier
// decision is committed, so no line of a past day is missing. It fails with limit_exceeded for a
// period with too many lines, and with the store's error.
func (h *treasuryHandlers) readStatement(c *call, of *statement.Statement) error {
	h.actors.WaitRelayed(c.ctx, of.Account)
	_, err := h.actors.Ask(c.ctx, toBalance(of.Account, decision.Read{}))
	if err != nil {
		return err
	}
	ledger := ledgerReader{actors: h.actors, ctx: c.ctx, workspace: of.Account, read: &c.read}
	first, err := ledger.firstOf(of.From)
	if err != nil {
		return err
	}
	end, err := ledger.firstOf(of.To.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	if of.OpeningCents, err = ledger.balanceBefore(first); err != nil {
		return err
	}
	entries, err := ledger.entriesBetween(first, end)
	if err != nil {
		return err
	}
	of.ClosingCents = of.OpeningCents
	for _, e := range slices.Backward(entries) {
		if of.ClosingCents, err = money.Add(of.ClosingCents, e.Signed()); err != nil {
			return err
		}
		of.Lines = append(of.Lines, statementLine(e))
	}
	return nil
}

// statementLine returns the line of a dollar entry.
func statementLine(e balance.LedgerEntry) statement.Line {
	line := statement.Line{ID: e.ID, Source: e.Source, Direction: e.Direction, AmountCents: e.AmountCents,
		BalanceCents: *e.BalanceCents,
		Reference:    e.Reference, TransferGroup: e.TransferGroup,
		Booked: e.BookedAt.Time,
		Made:   e.CreatedAt.Time}
	if e.CardID != nil {
		line.CardID = *e.CardID
	}
	return line
}

// ledgerReader reads the dollar lines of a workspace's ledger, newest first. A place in the ledger
// is a position; the lines before it are at lower positions.
type ledgerReader struct {
	actors    Actors
	ctx       context.Context
	workspace string
	read      *int // is raised by about the bytes of the lines that are read; call.read
}

// ledgerRecord is a line as it is stored.
type ledgerRecord = query.Record[balance.LedgerEntry]

// readPage returns a page of the lines, and counts their bytes. It fails only with an error of the
// store.
func (l ledgerReader) readPage(page query.Page) ([]ledgerRecord, error) {
	records, err := query.LedgerEntries.List(l.ctx, l.actors, l.workspace, "", page)
	*l.read += len(records) * lineBytes
	return records, err
}

// firstOf returns the place of the first line that was booked at or after a time. Booking times
// rise with positions, so it searches by bisection. Without such a line it returns the place behind
// the newest. It fails only with an error of the store.
func (l ledgerReader) firstOf(at time.Time) (place uint64, err error) {
	return firstPlaceSince(at, func(before uint64) (time.Time, uint64, error) {
		line, err := l.readPage(query.Page{After: query.Place{Position: before}, Limit: 1})
		if err != nil || len(line) == 0 {
			return time.Time{}, 0, err
		}
		return line[0].Document.BookedAt.Time, line[0].Place.Position, nil
	})
}

// balanceBefore returns the dollar balance before a place, from the newest line of the dollars. It
// fails with limit_exceeded when it must read past more than maxOtherLines lines of other balances,
// and with the store's error.
func (l ledgerReader) balanceBefore(place uint64) (money.Cents, error) {
	page := query.Page{After: query.Place{Position: place}, Limit: 1} // the newest line is usually one of the dollars
	for read := (lineCount{}); ; page.Limit = statementPage {
		records, err := l.readPage(page)
		if err != nil || len(records) == 0 {
			return 0, err
		}
		for i := range records {
			e := &records[i].Document
			if e.BalanceCents != nil {
				return *e.BalanceCents, nil
			}
			if err := read.countLine(e); err != nil {
				return 0, err
			}
		}
		page.After = records[len(records)-1].Place
	}
}

// entriesBetween returns the dollar lines from first up to but excluding end, newest first. It
// fails with limit_exceeded when there are too many, and with the store's error.
func (l ledgerReader) entriesBetween(first, end uint64) (lines []balance.LedgerEntry, err error) {
	page := query.Page{After: query.Place{Position: end}, Limit: statementPage}
	for read := (lineCount{}); ; {
		records, err := l.readPage(page)
		if err != nil {
			return nil, err
		}
		for i := range records {
			if records[i].Place.Position < first {
				return lines, nil
			}
			e := &records[i].Document
			if err := read.countLine(e); err != nil {
				return nil, err
			}
			if ofDollars(e) {
				lines = append(lines, *e)
			}
		}
		if len(records) < statementPage {
			return lines, nil
		}
		page.After = records[len(records)-1].Place
	}
}

// lineCount counts the lines that were read for a statement.
type lineCount struct{ dollars, others int }

// countLine counts a line that was read. It fails with limit_exceeded beyond maxStatementLines
// dollar lines or maxOtherLines lines of other balances.
func (n *lineCount) countLine(e *balance.LedgerEntry) error {
	if !ofDollars(e) {
		if n.others++; n.others > maxOtherLines {
			return fault.New(fault.LimitExceeded,
				fmt.Sprintf("a statement reads past at most %d lines of other balances; ask for fewer days",
					maxOtherLines))
		}
		return nil
	}
	if n.dollars++; n.dollars > maxStatementLines {
		return fault.New(fault.LimitExceeded, fmt.Sprintf("a statement has at most %d lines; ask for fewer days",
			maxStatementLines))
	}
	return nil
}

// ofDollars reports whether a line belongs to the dollar balance: a line of another account has no
// balance.
func ofDollars(e *balance.LedgerEntry) bool { return e.BalanceCents != nil }
