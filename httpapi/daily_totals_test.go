package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/query"
	"purser/persistence/money"
)

// The totals of a day are the debits and credits that were booked on it, for each of 30 days.
func TestDailyTotalsAddUpTheDaysOfTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := newLedgerLog(w)
	l.addLines(3) // before the oldest day
	w.clock.turn(2 * 24 * time.Hour)
	type sums struct{ debits, credits int }
	want := map[string]sums{}
	for _, step := range []int{1, 2, 28} {
		l.addLines(5)
		for _, e := range l.all[:5] {
			s := want[e.BookedAt.Format(time.DateOnly)]
			if e.Direction == "debit" {
				s.debits += int(e.AmountCents)
			} else {
				s.credits += int(e.AmountCents)
			}
			want[e.BookedAt.Format(time.DateOnly)] = s
		}
		if step < 28 {
			w.clock.turn(time.Duration(step) * 24 * time.Hour)
		}
	}
	w.clock.turn(26 * 24 * time.Hour) // the first day of the three is the oldest
	r := w.ok(w.get(l.tn.all, "/api/treasury/daily"))
	require.Equal(t, true, r.at("complete"))
	require.Len(t, r.at("days"), totalDays)
	for i := range totalDays {
		day := w.clock.now().AddDate(0, 0, i+1-totalDays).Format(time.DateOnly)
		require.Equal(t, day, r.text("days", i, "day"))
		require.Equal(t, want[day], sums{r.cents("days", i, "debitCents"), r.cents("days", i, "creditCents")}, day)
	}
	require.NotZero(t, want[r.text("days", 0, "day")])
}

// A ledger of more lines than one request reads shows the days that were read whole.
func TestDailyTotalsReadBoundedLines(t *testing.T) {
	t.Parallel()
	read := new(listedRecords)
	w := newWorld(t, func(c *Config) { read.Actors, c.Actors = c.Actors, read })
	l := newLedgerLog(w)
	l.addLines(20)
	w.clock.turn(24 * time.Hour)
	for range maxTotalsLines / 100 {
		w.mint(l.tn, "")
		l.addLines(99)
	}
	w.clock.turn(24 * time.Hour)
	w.mint(l.tn, "")
	l.addLines(60)
	r := w.ok(w.get(l.tn.all, "/api/treasury/daily"))
	require.Equal(t, false, r.at("complete"))
	require.Equal(t, maxTotalsLines, read.read)
	require.Len(t, r.at("days"), 1, "yesterday is not read whole")
	sum := 0
	for _, e := range l.all[:60] {
		if e.Direction == "debit" {
			sum += int(e.AmountCents)
		}
	}
	require.Equal(t, sum, r.cents("days", 0, "debitCents"))
}

// Totals after others read the later lines alone, and agree with totals that read all of them.
func TestLaterTotalsReadLaterLines(t *testing.T) {
	t.Parallel()
	read := new(listedRecords)
	w := newWorld(t, func(c *Config) { read.Actors, c.Actors = c.Actors, read })
	l := newLedgerLog(w)
	totals := func() any { return w.ok(w.get(l.tn.all, "/api/treasury/daily")).at("days") }
	readAnew := func() []dayTotal {
		days := newDayTotals(w.clock.now().UTC().Truncate(24 * time.Hour))
		require.NoError(t, days.readLines(ledgerReader{actors: w.system, ctx: t.Context(), workspace: l.tn.workspace, read: new(int)}, nil))
		return days.totals
	}
	shown := func(days []dayTotal) (out []any) {
		for _, d := range days {
			out = append(out, map[string]any{"day": d.Day, "debitCents": float64(d.DebitCents),
				"creditCents": float64(d.CreditCents), "spentCents": float64(d.SpentCents)})
		}
		return out
	}
	l.addLines(80)
	require.Equal(t, shown(readAnew()), totals())
	for _, turn := range []time.Duration{0, time.Hour, 24 * time.Hour, 29 * 24 * time.Hour, 45 * 24 * time.Hour} {
		w.clock.turn(turn)
		require.Equal(t, shown(readAnew()), totals(), turn)
		for _, lines := range []int{1, 60, 120} {
			w.mint(l.tn, "")
			l.addLines(lines)
			read.read = 0
			require.Equal(t, shown(readAnew()), totals(), "%v %d", turn, lines)
			require.LessOrEqual(t, read.read, fewLines+query.MaxPage)
		}
		read.read = 0
		totals()
		require.LessOrEqual(t, read.read, fewLines)
	}
}

// Exchanges and deposits are no spend, and a refund is taken off the day on which it was booked.
func TestSpendIsWhatLeavesForGood(t *testing.T) {
	t.Parallel()
	days, b := newDayTotals(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)), &bookedLines{}
	for _, line := range []struct {
		source, direction string
		cents             money.Cents
	}{{"card_settlement", "debit", 900}, {"card_refund", "credit", 200}, {"payout", "debit", 5_000}, {"payout_return", "credit", 5_000},
		{"physical_card_fee", "debit", 30}, {"ramp_onramp", "debit", 70_000}, {"bank_deposit", "credit", 100_000}} {
		b.book(1, 1, line.cents, new(money.Cents))
		r := ledgerRecord{Document: b.lines[len(b.lines)-1]}
		r.Document.Source, r.Document.Direction, r.Document.AmountCents = line.source, line.direction, line.cents
		_, err := days.addLine(&r)
		require.NoError(t, err)
	}
	require.Equal(t, dayTotal{Day: "2026-11-20", DebitCents: 75_930, CreditCents: 105_200, SpentCents: 730}, days.totals[totalDays-1])
}

// Lines of other accounts are not dollars.
func TestDailyTotalsAreOfDollars(t *testing.T) {
	t.Parallel()
	today := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	days, b, cents := newDayTotals(today), &bookedLines{}, money.Cents(5)
	b.book(1, 1, 7, nil)
	b.book(1, 1, 5, &cents)
	for _, line := range b.lines {
		over, err := days.addLine(&ledgerRecord{Document: line})
		require.NoError(t, err)
		require.False(t, over)
	}
	require.Equal(t, dayTotal{Day: "2026-11-20", CreditCents: 5}, days.totals[totalDays-1])
	before := balance.LedgerEntry{CreatedAt: b.lines[0].CreatedAt}
	before.CreatedAt.Time = today.AddDate(0, 0, -totalDays)
	over, err := days.addLine(&ledgerRecord{Document: before})
	require.NoError(t, err)
	require.True(t, over)
}
