package statement

import (
	"encoding/csv"
	"io"
	"strings"
	"time"

	"purser/persistence/money"
)

// csvHeader names the columns. An opening and a closing row enclose the lines.
var csvHeader = [...]string{"type", "bookedAt", "id", "source", "amount", "balance", "currency", "reference",
	"transferGroup",
	"cardId", "createdAt"}

// formulas holds the characters that begin a formula in a spreadsheet, in either width.
const formulas = "=+-@|%＝＋－＠"

// CSV writes the statement by RFC 4180: a header, the opening balance, the lines, the closing
// balance. Amounts are dollars with two decimals, negative for debits. Text that a spreadsheet
// would read as a formula has an apostrophe before it. It fails with ErrUnbalanced for lines that
// do not add up, and with w's error.
func (s *Statement) CSV(w io.Writer) error {
	if _, err := s.sumLines(); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	closing := "closing_balance"
	if s.Open {
		closing = "interim_balance"
	}
	rows := func(yield func([]string) bool) {
		if !yield(csvHeader[:]) || !yield(balanceRow("opening_balance", s.From, s.OpeningCents)) {
			return
		}
		for i := range s.Lines {
			if !yield(s.Lines[i].csvRow()) {
				return
			}
		}
		yield(balanceRow(closing, s.endOfPeriod(), s.ClosingCents))
	}
	for row := range rows {
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func balanceRow(what string, at time.Time, cents money.Cents) []string {
	row := make([]string, len(csvHeader))
	row[0], row[1], row[5], row[6] = what, formatTime(at), money.FormatDollars(cents), currency
	return row
}

func (l *Line) csvRow() []string {
	return []string{"entry", formatTime(l.Booked), csvCell(l.ID), csvCell(l.Source),
		money.FormatDollars(l.signedCents()),
		money.FormatDollars(l.BalanceCents), currency, csvCell(l.Reference), csvCell(l.TransferGroup),
		csvCell(l.CardID),
		formatTime(l.Made)}
}

// csvCell makes text safe to open in a spreadsheet.
func csvCell(text string) string {
	text = cleanText(text)
	if text != "" && strings.ContainsRune(formulas, []rune(text)[0]) {
		return "'" + text
	}
	return text
}

// formatTime formats a time like the rest of the interface.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
