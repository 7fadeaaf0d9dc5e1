// Package bankday is the calendar of US banks: the days on which the Federal Reserve settles, the
// cut-offs by which an order must arrive to be sent that day, and the arrival days of payments. All
// times are New York's, whose rules are embedded.
//
// The package is pure: callers pass the time in. It knows only US holidays, and no outages.
package bankday

import (
	"fmt"
	"time"
	_ "time/tzdata" // New York's rules on every machine
)

// Cut-offs, in minutes after midnight in New York.
const (
	CutOffSameDayACH = 16*60 + 45 // the third and last window
	CutOffACH        = 20 * 60
	CutOffWire       = 18*60 + 45 // Fedwire's, for customers
	CutOffIntlWire   = 17 * 60
)

// intlWireDays is the number of bank days from the sending day of a wire abroad to its arrival.
const intlWireDays = 2

// Calendar counts bank days. It is safe for concurrent use.
type Calendar struct{ newYork *time.Location }

// New returns the calendar. It fails only without the embedded time zone rules. The HTTP server,
// the processes and the simulated bank each make one at their start.
func New() (*Calendar, error) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		return nil, fmt.Errorf("bankday: %w", err)
	}
	return &Calendar{newYork: newYork}, nil
}

// IsBankDay reports whether the New York date of t is a bank day: no weekend and no holiday of the
// Federal Reserve.
func (c *Calendar) IsBankDay(t time.Time) bool { return isBankDay(c.newYorkDate(t)) }

// BankDayAfter is the n-th bank day after the New York date of t, as midnight UTC. 0 is that date,
// or the next bank day.
func (c *Calendar) BankDayAfter(t time.Time, n int) time.Time {
	day := c.newYorkDate(t)
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

// SendingDay is the bank day on which an order of time t is sent, for a cut-off in minutes after
// midnight in New York.
func (c *Calendar) SendingDay(t time.Time, cutOff int) time.Time {
	local := t.In(c.newYork)
	if c.IsBankDay(t) && local.Hour()*60+local.Minute() >= cutOff {
		return c.BankDayAfter(c.newYorkDate(t).AddDate(0, 0, 1).Add(noon), 0)
	}
	return c.BankDayAfter(t, 0)
}

// noon is added to midnight UTC of a date, so that the instant has the same date in New York.
const noon = 17 * time.Hour

// ArrivalDay is the day on which a payment ordered at t arrives by a rail: ach, wire, realtime or
// intl_wire. An unknown rail panics.
func (c *Calendar) ArrivalDay(t time.Time, rail string, sameDay bool) time.Time {
	switch {
	case rail == "ach" && sameDay:
		return c.SendingDay(t, CutOffSameDayACH)
	case rail == "ach":
		return c.BankDayAfter(c.SendingDay(t, CutOffACH).Add(noon), 1)
	case rail == "wire":
		return c.SendingDay(t, CutOffWire)
	case rail == "intl_wire":
		return c.BankDayAfter(c.SendingDay(t, CutOffIntlWire).Add(noon), intlWireDays)
	case rail == "realtime": // on any day
		return c.newYorkDate(t)
	}
	panic("BUG: rail " + rail)
}

// newYorkDate is the New York date of t, as midnight UTC.
func (c *Calendar) newYorkDate(t time.Time) time.Time {
	y, m, d := t.In(c.newYork).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func isBankDay(day time.Time) bool {
	return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday && !isHoliday(day)
}

// isHoliday reports a holiday of the Federal Reserve. A holiday on a Sunday moves to Monday; one on
// a Saturday does not move.
func isHoliday(day time.Time) bool {
	if isFixedHoliday(day) || day.Weekday() == time.Monday && isFixedHoliday(day.AddDate(0, 0, -1)) {
		return true
	}
	week := (day.Day()-1)/7 + 1 // ordinal of the weekday in the month
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

// isFixedHoliday reports a holiday with a fixed date. Juneteenth is one since 2021.
func isFixedHoliday(day time.Time) bool {
	switch _, m, d := day.Date(); {
	case m == time.January && d == 1, m == time.July && d == 4, m == time.November && d == 11, m == time.December &&
		d == 25:
		return true
	case m == time.June && d == 19:
		return day.Year() >= 2021
	}
	return false
}
