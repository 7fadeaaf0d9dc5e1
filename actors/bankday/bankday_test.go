package bankday_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/bankday"
)

func calendar(t require.TestingT) *bankday.Calendar {
	c, err := bankday.New()
	require.NoError(t, err)
	return c
}

// winterTime parses a time in New York's winter, five hours behind UTC.
func winterTime(t *testing.T, text string) time.Time {
	moment, err := time.Parse("2006-01-02 15:04 -0700", text+" -0500")
	require.NoError(t, err)
	return moment
}

// The want lists are the holidays that the Federal Reserve publishes.
func TestHolidaysOfTheFederalReserve(t *testing.T) {
	holidays := map[int][]string{
		2025: {"01-01", "01-20", "02-17", "05-26", "06-19", "07-04", "09-01", "10-13", "11-11", "11-27", "12-25"},
		// July 4 is a Saturday.
		2026: {"01-01", "01-19", "02-16", "05-25", "06-19", "09-07", "10-12", "11-11", "11-26", "12-25"},
		// July 4 is a Sunday.
		2027: {"01-01", "01-18", "02-15", "05-31", "07-05", "09-06", "10-11", "11-11", "11-25"},
	}
	c := calendar(t)
	for year, want := range holidays {
		var got []string
		for day := time.Date(year, 1, 1, 17, 0, 0, 0, time.UTC); day.Year() == year; day = day.AddDate(0, 0, 1) {
			if w := day.Weekday(); w != time.Saturday && w != time.Sunday && !c.IsBankDay(day) {
				got = append(got, day.Format("01-02"))
			}
		}
		require.Equal(t, want, got, year)
	}
}

func TestOrdersLeaveAndArrive(t *testing.T) {
	for _, c := range []struct {
		ordered, rail string
		sameDay       bool
		arrives       string
	}{
		{"2026-11-20 16:44", "ach", true, "2026-11-20"},
		{"2026-11-20 16:45", "ach", true, "2026-11-23"}, // after the last window of a Friday
		{"2026-11-20 19:59", "ach", false, "2026-11-23"},
		{"2026-11-20 20:00", "ach", false, "2026-11-24"},
		{"2026-11-21 09:00", "ach", false, "2026-11-24"}, // a Saturday: leaves on Monday
		{"2026-11-25 18:44", "wire", false, "2026-11-25"},
		{"2026-11-25 18:45", "wire", false, "2026-11-27"}, // over Thanksgiving
		{"2026-11-26 12:00", "wire", false, "2026-11-27"},
		{"2026-11-26 23:59", "realtime", false, "2026-11-26"},
		{"2026-11-24 16:59", "intl_wire", false, "2026-11-27"}, // two bank days, Thanksgiving between
		{"2026-11-24 17:00", "intl_wire", false, "2026-11-30"},
	} {
		require.Equal(t, c.arrives, calendar(t).ArrivalDay(winterTime(t, c.ordered), c.rail,
			c.sameDay).Format(time.DateOnly), "%+v", c)
	}
	require.Panics(t, func() { calendar(t).ArrivalDay(time.Time{}, "carrier pigeon", false) })
}

func TestTheDayIsTheDateInNewYork(t *testing.T) {
	summer := time.Date(2026, 7, 8, 3, 59, 0, 0, time.UTC) // 23:59 of the 7th
	require.Equal(t, "2026-07-07", calendar(t).BankDayAfter(summer, 0).Format(time.DateOnly))
	require.Equal(t, "2026-07-08", calendar(t).BankDayAfter(summer.Add(time.Minute), 0).Format(time.DateOnly))
}

func TestBankDaysGoForwardOneByOne(t *testing.T) {
	c := calendar(t)
	rapid.Check(t, func(t *rapid.T) {
		moment := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "s"), 0)
		n := rapid.IntRange(0, 10).Draw(t, "days")
		day, next := c.BankDayAfter(moment, n), c.BankDayAfter(moment, n+1)
		require.True(t, next.After(day))
		require.True(t, c.IsBankDay(day.Add(17*time.Hour)))
		require.LessOrEqual(t, next.Sub(day), 5*24*time.Hour)
	})
}
