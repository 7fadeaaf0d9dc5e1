package statement

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/money"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var morning = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// month is a statement of two days with a line of each kind: a deposit, a clearing that was booked
// on the next day, a payout below zero, and its return.
func month() *Statement {
	s := &Statement{Account: "ws_01m7wd7tg0fvr8qj5w3n9k2xay", From: morning.Truncate(24 * time.Hour),
		To: morning.AddDate(0, 0, 1).Truncate(24 * time.Hour), Made: morning.AddDate(0, 0, 9), OpeningCents: 1_000}
	s.line(Credit, 250_000, "bank_deposit", "INV-2026-118 Hopper & Sons", "", 0)
	s.line(Debit, 4_205, "card_settlement", "c-7781", "card_01m7wd7tg0fvr9ycp3kw7z8hj9", 10*time.Hour)
	s.line(Debit, 250_000, "payout", "po_01m7wd7tg0ewc8h5zq4n1x2y3v", "", 0)
	s.line(Credit, 250_000, "payout_return", "po_01m7wd7tg0ewc8h5zq4n1x2y3v", "", 0)
	s.line(Credit, 5, "card_refund", "=cmd|'/C calc'!A0", "card_01m7wd7tg0fvr9ycp3kw7z8hj9", 0)
	return s
}

func (s *Statement) line(direction string, cents money.Cents, source, reference, card string, late time.Duration) {
	l := Line{ID: "le_01m7wd7tg0fvrbcv0cqzn0kab" + string(rune('a'+len(s.Lines))), Source: source, Direction: direction,
		AmountCents: cents, Reference: reference, TransferGroup: "tg_01m7wd7tg0fvr94qynncm09hx0", CardID: card,
		Booked: morning.Add(time.Duration(len(s.Lines)) * 4 * time.Hour)}
	l.Made = l.Booked.Add(-late)
	before := s.OpeningCents
	if n := len(s.Lines); n > 0 {
		before = s.Lines[n-1].BalanceCents
	}
	l.BalanceCents = before + l.signedCents()
	s.Lines, s.ClosingCents = append(s.Lines, l), l.BalanceCents
}

func (s *Statement) written(t require.TestingT, write func(*Statement, *bytes.Buffer) error) string {
	var out bytes.Buffer
	require.NoError(t, write(s, &out))
	return out.String()
}

func asCSV(s *Statement, out *bytes.Buffer) error { return s.CSV(out) }
func asXML(s *Statement, out *bytes.Buffer) error { return s.CAMT053(out) }

func TestGoldenFiles(t *testing.T) {
	open := month()
	open.Open = true
	empty := month()
	empty.Lines, empty.OpeningCents, empty.ClosingCents = nil, -12_005, -12_005
	for name, text := range map[string]string{
		"month.csv":    month().written(t, asCSV),
		"month.xml":    month().written(t, asXML),
		"open_day.csv": open.written(t, asCSV),
		"open_day.xml": open.written(t, asXML),
		"empty.csv":    empty.written(t, asCSV),
		"empty.xml":    empty.written(t, asXML),
	} {
		path := filepath.Join("testdata", name)
		if *rewrite {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text, name)
	}
}

// The golden files conform to the message definition, and the reader detects a message that does
// not.
func TestMessageKeepsToItsDefinition(t *testing.T) {
	definition := readDefinition(t)
	text := month().written(t, asXML)
	require.NoError(t, definition.judge(text))
	for _, path := range []string{"testdata/month.xml", "testdata/open_day.xml", "testdata/empty.xml"} {
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, definition.judge(string(golden)), path)
	}
	f := func(old, replacement, want string) {
		t.Helper()
		require.Contains(t, text, old)
		require.ErrorContains(t, definition.judge(strings.Replace(text, old, replacement, 1)), want)
	}
	f("<Cd>OPBD</Cd>", "<Cd>OPENING</Cd>", "Bal/Tp/CdOrPrtry/Cd")
	f("<CdtDbtInd>CRDT</CdtDbtInd>", "<CdtDbtInd>credit</CdtDbtInd>", "CdtDbtInd")
	f(`<Amt Ccy="USD">10.00</Amt>`, `<Amt Ccy="USD">-10.00</Amt>`, "Amt")
	f(`<Amt Ccy="USD">10.00</Amt>`, `<Amt>10.00</Amt>`, "Ccy")
	f("<Sts>", "<Status>", "Sts: missing before Status")
	f("<NtryRef>1</NtryRef>", "<NtryRef></NtryRef>", "NtryRef")
	f("<NtryRef>1</NtryRef>", "<NtryRef>1</NtryRef><NtryRef>1</NtryRef>", "NtryRef")
	f("<CreDtTm>2026-11-29T09:30:00.000Z</CreDtTm>", "", "CreDtTm")
	f("camt.053.001.08", "camt.053.001.02", "Document")
	f("<Ustrd>INV", "<Text/><Ustrd>INV", "Text")
}

// For any text and amounts, both files are well formed, parse to the same values, and contain no
// formula.
func TestHostileText(t *testing.T) {
	definition := readDefinition(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := &Statement{Account: "ws_1", From: morning.Truncate(24 * time.Hour), To: morning.Truncate(24 * time.Hour),
			Made: morning, OpeningCents: money.Cents(rapid.Int64Range(-1e14, 1e14).Draw(rt, "opening"))}
		s.ClosingCents = s.OpeningCents
		for range rapid.IntRange(0, 5).Draw(rt, "lines") {
			reference := rapid.OneOf(rapid.String(),
				rapid.StringMatching(`[=+\-@\t\r\n"'<>&;|,\x00\x{7F}\x{202E}\x{FFFF}]{1,150}`),
				rapid.Just(string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "bytes")))).Draw(rt, "reference")
			s.line(rapid.SampledFrom([]string{Debit, Credit}).Draw(rt, "direction"),
				money.Cents(rapid.Int64Range(0, 1e12).Draw(rt, "cents")),
				"card_settlement", reference, "", 0)
		}
		text := s.written(rt, asCSV)
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(rt, err)
		require.Len(rt, rows, len(s.Lines)+3)
		for i, row := range rows[2 : len(rows)-1] {
			require.Equal(rt, money.FormatDollars(s.Lines[i].signedCents()), row[4])
			harmless(rt, row[7])
		}
		message := s.written(rt, asXML)
		require.NoError(rt, definition.judge(message))
		var back document
		require.NoError(rt, xml.Unmarshal([]byte(message), &back))
		require.Len(rt, back.Statement.Entries, len(s.Lines))
		for i, e := range back.Statement.Entries {
			require.Equal(rt, money.FormatDollars(s.Lines[i].AmountCents), e.Amount.Decimal)
			if e.Details.Remittance != nil {
				require.Equal(rt, atMost(cleanText(s.Lines[i].Reference), maxRemittance), e.Details.Remittance.Text)
			}
		}
	})
}

func harmless(t require.TestingT, cell string) {
	require.True(t, utf8.ValidString(cell))
	require.False(t, strings.ContainsFunc(cell, unicode.IsControl), "%q", cell)
	if cell != "" {
		require.NotContains(t, "=+-@|%", cell[:1])
	}
}

func TestStatementsThatDoNotAddUpAreRefused(t *testing.T) {
	for what, break_ := range map[string]func(*Statement){
		"opening":   func(s *Statement) { s.OpeningCents++ },
		"closing":   func(s *Statement) { s.ClosingCents-- },
		"a line":    func(s *Statement) { s.Lines[2].AmountCents++ },
		"a balance": func(s *Statement) { s.Lines[1].BalanceCents++ },
		"direction": func(s *Statement) { s.Lines[0].Direction = Debit },
		"missing":   func(s *Statement) { s.Lines = s.Lines[1:] },
		"overflow":  func(s *Statement) { s.Lines[0].AmountCents = math.MaxInt64 },
		"negative":  func(s *Statement) { s.Lines = nil; s.line(Debit, -5, "payout", "", "", 0) },
	} {
		s := month()
		break_(s)
		var out bytes.Buffer
		require.ErrorIs(t, s.CSV(&out), ErrUnbalanced, what)
		require.ErrorIs(t, s.CAMT053(&out), ErrUnbalanced, what)
		require.Empty(t, out.String(), "nothing is written of a statement that is refused")
	}
}
