package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/query"
	"purser/persistence"
	"purser/persistence/money"
)

// bookedLines is a ledger of the test's own lines, oldest first, two positions apart.
type bookedLines struct {
	Actors
	lines []balance.LedgerEntry
}

func (b *bookedLines) List(_ context.Context, _, _, _ string, page persistence.Page) (records []persistence.Record,
	err error) {
	for i := len(b.lines) - 1; i >= 0 && len(records) < persistence.PageLimit(page.Limit); i-- {
		position := uint64(2*i + 5)
		if page.AfterPosition != 0 && position >= page.AfterPosition {
			continue
		}
		text, err := json.Marshal(b.lines[i])
		if err != nil {
			return nil, err
		}
		records = append(records, persistence.Record{ID: b.lines[i].ID, Position: position, Document: text})
	}
	return records, nil
}

// book adds a credit with the hours of its creation and its booking. A nil balance makes a line of
// another account.
func (b *bookedLines) book(made, booked int, cents money.Cents, after *money.Cents) {
	hour := func(h int) decision.Stamp { return decision.StampOf(time.Date(2026, 11, 20, h, 0, 0, 0, time.UTC)) }
	b.lines = append(b.lines, balance.LedgerEntry{ID: fmt.Sprint(len(b.lines)), Direction: "credit",
		AmountCents: cents, CreatedAt: hour(made), BookedAt: hour(booked), BalanceCents: after})
}

func TestLinesBelongToTheDayOnWhichTheyWereBooked(t *testing.T) {
	t.Parallel()
	b := &bookedLines{}
	ledger := ledgerReader{actors: b, ctx: t.Context(), workspace: "ws", read: new(int)}
	cents := func(n money.Cents) *money.Cents { return &n }
	b.book(1, 1, 100, cents(100))
	b.book(2, 2, 20, cents(120))
	b.book(3, 3, 5_000, nil)        // of another account
	b.book(22, 23, 3, cents(123))   // the last of the first day
	b.book(23, 26, 1, cents(124))   // made on the first day, booked on the second
	b.book(26, 26, 10, cents(134))  // the second day
	b.book(50, 50, 500, cents(634)) // the third
	_, err := ledger.readPage(query.Page{Limit: 5})
	require.NoError(t, err)
	require.Equal(t, 5*lineBytes, *ledger.read, "what is read counts, whether it is shown or not")
	at := func(day int) uint64 {
		place, err := ledger.firstOf(time.Date(2026, 11, 20+day, 0, 0, 0, 0, time.UTC))
		require.NoError(t, err)
		return place
	}
	f := func(day int, opening money.Cents, ids ...string) {
		t.Helper()
		sum, err := ledger.balanceBefore(at(day))
		require.NoError(t, err)
		require.Equal(t, opening, sum)
		lines, err := ledger.entriesBetween(at(day), at(day+1))
		require.NoError(t, err)
		var got []string
		for _, l := range lines {
			got = append(got, l.ID)
		}
		require.Equal(t, ids, got)
	}
	f(-1, 0)
	f(0, 0, "3", "1", "0")
	f(1, 123, "5", "4")
	f(2, 134, "6")
	f(3, 634)
	b.lines = b.lines[:3] // the newest is of another account
	f(1, 120)
	b.lines = b.lines[2:] // there is no other
	f(1, 0)
}

// The lines of a statement are bounded.
func TestStatementLinesAreBounded(t *testing.T) {
	t.Parallel()
	b, after := &bookedLines{}, money.Cents(1)
	for range maxStatementLines + 1 {
		b.book(1, 1, 1, &after)
	}
	ledger := ledgerReader{actors: b, ctx: t.Context(), workspace: "ws", read: new(int)}
	_, err := ledger.entriesBetween(1, 1<<40)
	require.ErrorContains(t, err, "at most 50000 lines")
	b.lines = b.lines[1:]
	lines, err := ledger.entriesBetween(1, 1<<40)
	require.NoError(t, err)
	require.Len(t, lines, maxStatementLines)
}

// Lines of stablecoins do not belong to the dollars. They are skipped, up to their own limit.
func TestStablecoinLinesAreSkipped(t *testing.T) {
	t.Parallel()
	b, cents := &bookedLines{}, money.Cents(700)
	b.book(1, 1, 700, &cents)
	for range maxStatementLines + 1 {
		b.book(2, 2, 1, nil)
	}
	ledger := ledgerReader{actors: b, ctx: t.Context(), workspace: "ws", read: new(int)}
	sum, err := ledger.balanceBefore(1 << 40)
	require.NoError(t, err)
	require.Equal(t, cents, sum)
	lines, err := ledger.entriesBetween(1, 1<<40)
	require.NoError(t, err)
	require.Len(t, lines, 1)
	passed := lineCount{others: maxOtherLines}
	require.NoError(t, passed.countLine(&b.lines[0]))
	require.ErrorContains(t, passed.countLine(&b.lines[1]), "at most 1000000 lines of other balances")
}
