package statement

import (
	"encoding/csv"
	"io"
	"strings"
	"time"

	"purser/persistence/money"
)

// csvHeader names the columns. An opening and a closing row stand around the lines.
var csvHeader = [...]string{"type", "bookedAt", "id", "source", "amount", "balance", "currency", "reference",
	"transferGroup",
	"cardId", "createdAt"}

// formulas are the characters with which a spreadsheet takes a cell for a formula, in either width.
const formulas = "=+-@|%＝＋－＠"

// CSV writes the statement by RFC 4180: a header, the opening balance, the lines, the closing
// balance. Amounts are dollars with two decimals, negative for debits. Text that a spreadsheet
// would take for a formula has an apostrophe before it.
func (s *Statement) CSV(w io.Writer) error {
	if _, err := s.add(); err != nil {
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
			if !yield(s.Lines[i].row()) {
				return
			}
		}
		yield(balanceRow(closing, s.end(), s.ClosingCents))
	}
	for row := range rows {
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func balanceRow(what string, at time.Time, cents int64) []string {
	row := make([]string, len(csvHeader))
	row[0], row[1], row[5], row[6] = what, moment(at), money.FormatDollars(cents), currency
	return row
}

func (l *Line) row() []string {
	return []string{"entry", moment(l.Booked), cell(l.ID), cell(l.Source), money.FormatDollars(l.cents()),
		money.FormatDollars(l.BalanceCents), currency, cell(l.Reference), cell(l.TransferGroup), cell(l.CardID),
		moment(l.Made)}
}

// cell makes text safe to be opened in a spreadsheet.
func cell(text string) string {
	text = clean(text)
	if text != "" && strings.ContainsRune(formulas, []rune(text)[0]) {
		return "'" + text
	}
	return text
}

// moment is a time as the rest of the interface writes it.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
