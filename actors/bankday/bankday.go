// Package bankday is the calendar of US banks: the days on which the Federal Reserve settles, the hour by which an order must be
// in to go out that day, and when what goes out arrives. All of it is in New York's time, whose rules are embedded.
//
// The package is pure: it is told the time. It knows no holiday of another country, and no outage.
package bankday

import (
	"fmt"
	"time"
	_ "time/tzdata" // New York's clock, wherever the program runs
)

// Cut-offs: minutes after midnight in New York by which an order must be in.
const (
	CutOffSameDayACH = 16*60 + 45 // of the third window, the last one
	CutOffACH        = 20 * 60
	CutOffWire       = 18*60 + 45 // of Fedwire, for customers
	CutOffIntlWire   = 17 * 60
)

// wireDays is how many bank days a wire abroad takes after it has left.
const wireDays = 2

// Calendar counts bank days. It is safe for concurrent use.
type Calendar struct{ newYork *time.Location }

// New makes the calendar.
func New() (*Calendar, error) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		return nil, fmt.Errorf("bankday: %w", err)
	}
	return &Calendar{newYork: newYork}, nil
}

// Is says whether the day of a moment, in New York, is a bank day.
func (c *Calendar) Is(t time.Time) bool { return isBankDay(c.day(t)) }

// After is the n-th bank day after the day of a moment, at midnight in UTC; 0 is that day, or the next that is one.
func (c *Calendar) After(t time.Time, n int) time.Time {
	day := c.day(t)
	for !isBankDay(day) {
		day = day.AddDate(0, 0, 1)
	}
	for ; n > 0; n-- {
		for day = day.AddDate(0, 0, 1); !isBankDay(day); {
			day = day.AddDate(0, 0, 1)
		}
	}
	return day
}

// Leaves is the day on which an order of a moment goes out when it must be in by a cut-off.
func (c *Calendar) Leaves(t time.Time, cutOff int) time.Time {
	local := t.In(c.newYork)
	if c.Is(t) && local.Hour()*60+local.Minute() >= cutOff {
		return c.After(c.day(t).AddDate(0, 0, 1).Add(noon), 0)
	}
	return c.After(t, 0)
}

// noon keeps a day of New York the same day when it is read as a moment in UTC.
const noon = 17 * time.Hour

// Settles is the day on which a payment of a rail (ach, wire, realtime, intl_wire) arrives when it is ordered at a moment. An
// unknown rail is a bug.
func (c *Calendar) Settles(t time.Time, rail string, sameDay bool) time.Time {
	switch {
	case rail == "ach" && sameDay:
		return c.Leaves(t, CutOffSameDayACH)
	case rail == "ach":
		return c.After(c.Leaves(t, CutOffACH).Add(noon), 1)
	case rail == "wire":
		return c.Leaves(t, CutOffWire)
	case rail == "intl_wire":
		return c.After(c.Leaves(t, CutOffIntlWire).Add(noon), wireDays)
	case rail == "realtime": // at any hour of any day
		return c.day(t)
	}
	panic("BUG: rail " + rail)
}

// day is midnight, in UTC, of the day that it is in New York.
func (c *Calendar) day(t time.Time) time.Time {
	y, m, d := t.In(c.newYork).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func isBankDay(day time.Time) bool {
	return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday && !isHoliday(day)
}

// isHoliday knows the holidays of the Federal Reserve. One on a Sunday is kept on the Monday; one on a Saturday is not moved.
func isHoliday(day time.Time) bool {
	if fixedHoliday(day) || day.Weekday() == time.Monday && fixedHoliday(day.AddDate(0, 0, -1)) {
		return true
	}
	week := (day.Day()-1)/7 + 1 // which Monday, which Thursday of the month
	switch {
	case day.Weekday() == time.Monday && day.Month() == time.January && week == 3: // Martin Luther King
	case day.Weekday() == time.Monday && day.Month() == time.February && week == 3: // Washington
	case day.Weekday() == time.Monday && day.Month() == time.May && day.Day() > 24: // Memorial Day, the last one
	case day.Weekday() == time.Monday && day.Month() == time.September && week == 1: // Labor Day
	case day.Weekday() == time.Monday && day.Month() == time.October && week == 2: // Columbus Day
	case day.Weekday() == time.Thursday && day.Month() == time.November && week == 4: // Thanksgiving
	default:
		return false
	}
	return true
}

// fixedHoliday knows the days with a date. Juneteenth is one since 2021.
func fixedHoliday(day time.Time) bool {
	switch _, m, d := day.Date(); {
	case m == time.January && d == 1, m == time.July && d == 4, m == time.November && d == 11, m == time.December && d == 25:
		return true
	case m == time.June && d == 19:
		return day.Year() >= 2021
	}
	return false
}
