// Package statement writes the statement of an account as a file: CSV for people and spreadsheets,
// camt.053.001.08 (ISO 20022) for treasury systems.
//
// The caller gives the balances and the lines, and the package writes them. It refuses a statement
// that does not add up. Text of customers and merchants is cleaned of control characters, and
// escaped for the format. The package is independent of the ledger, of HTTP and of the clock.
package statement

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"purser/persistence/money"
)

// Directions of a line.
const (
	Debit  = "debit"
	Credit = "credit"
)

// ErrUnbalanced means that the opening balance and the lines do not add up to the closing balance,
// or to the balance after a line.
var ErrUnbalanced = errors.New("the statement does not add up")

// Statement is an account in US dollars over whole days in UTC.
type Statement struct {
	Account      string    // ws_ id
	From, To     time.Time // midnights of the first and of the last day, which the statement includes
	Made         time.Time
	Open         bool // the last day is not over: the closing balance is interim
	OpeningCents money.Cents
	ClosingCents money.Cents
	Lines        []Line // oldest first
}

// Line is an entry of the ledger.
type Line struct {
	ID            string
	Source        string
	Direction     string      // Debit or Credit
	AmountCents   money.Cents // positive
	BalanceCents  money.Cents // of the account, after the line
	Reference     string
	TransferGroup string
	CardID        string    // "" for none
	Booked        time.Time // within the statement's days
	Made          time.Time // time of the event; at or before Booked
}

// signedCents returns the line's change of the account.
func (l *Line) signedCents() money.Cents {
	if l.Direction == Debit {
		return -l.AmountCents
	}
	return l.AmountCents
}

// totals holds the sums of a statement's lines.
type totals struct {
	credits, debits         int
	creditCents, debitCents money.Cents
}

// sumLines checks that the statement adds up, line by line, and returns its totals. A difference is
// ErrUnbalanced.
func (s *Statement) sumLines() (t totals, err error) {
	balance := s.OpeningCents
	for i := range s.Lines {
		l := &s.Lines[i]
		if balance, err = money.Add(balance, l.signedCents()); err != nil || balance != l.BalanceCents ||
			l.AmountCents < 0 {
			return t, fmt.Errorf("%w: line %s", ErrUnbalanced, l.ID)
		}
		if l.Direction == Debit {
			t.debits++
			t.debitCents, err = money.Add(t.debitCents, l.AmountCents)
		} else {
			t.credits++
			t.creditCents, err = money.Add(t.creditCents, l.AmountCents)
		}
		if err != nil {
			return t, fmt.Errorf("%w: %w", ErrUnbalanced, err)
		}
	}
	if balance != s.ClosingCents {
		return t, fmt.Errorf("%w: %d, not %d", ErrUnbalanced, balance, s.ClosingCents)
	}
	return t, nil
}

// endOfPeriod returns the last moment of the statement: Made while the last day is open.
func (s *Statement) endOfPeriod() time.Time {
	if s.Open {
		return s.Made
	}
	return s.To.AddDate(0, 0, 1).Add(-time.Millisecond)
}

// cleanText makes text one trimmed line of valid UTF-8, without control characters that a terminal
// could interpret or that XML cannot hold.
func cleanText(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}

// atMost truncates text to a number of characters.
func atMost(text string, characters int) string {
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:characters])
	}
	return text
}
