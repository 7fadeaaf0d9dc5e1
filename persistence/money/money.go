// Package money implements checked arithmetic of amounts in int64 smallest units. Purser uses no
// floats for money, and refuses an operation that would overflow before it is written. Cents and
// Minor are different types: an amount changes from one to the other by Cents.Minor and Minor.Cents
// alone, and to another currency by a Rate.
package money

import "errors"

// Cents is an amount of US dollars in cents. Amounts in requests are positive and at most
// MaxAmount. Balances may be negative, because a clearing or a return is never refused.
type Cents int64

// Minor returns c as an amount in the smallest unit of US dollars, which is the cent.
func (c Cents) Minor() Minor { return Minor(c) }

// BasisPoints is a part of an amount in hundredths of a percent, rounded towards zero to whole
// cents. The product of both must fit into an int64.
func (c Cents) BasisPoints(points int64) Cents { return c * Cents(points) / 10_000 }

// Dollar is one US dollar.
const Dollar Cents = 100

// MaxAmount is the largest amount one request may carry.
const MaxAmount Cents = 1_000_000_000_000

// ErrOverflow: a sum does not fit into an int64.
var ErrOverflow = errors.New("amount overflow")

// Amount is an amount of money in one unit: amounts in different units do not add up.
type Amount interface{ Cents | Minor }

// Add sums amounts. A sum over an int64 is ErrOverflow. Balances and the audit add with it.
func Add[A Amount](a A, more ...A) (A, error) {
	for _, b := range more {
		sum := a + b
		if (sum > a) != (b > 0) && b != 0 {
			return 0, ErrOverflow
		}
		a = sum
	}
	return a, nil
}

// MustAdd sums amounts that a check made earlier has bounded. It panics when the sum overflows.
func MustAdd[A Amount](a A, more ...A) A {
	sum, err := Add(a, more...)
	if err != nil {
		panic("BUG: amount overflow after its check")
	}
	return sum
}

// Month is a calendar month in UTC: year × 100 + month, 202611 for November 2026. Months compare as
// numbers.
type Month uint32

// MonthOf returns the calendar month of a Unix time in milliseconds.
func MonthOf(unixMilli int64) Month {
	// Civil-from-days (Howard Hinnant), because time.Time is ten times slower on the path of a
	// swipe.
	days := unixMilli / 86_400_000
	if unixMilli%86_400_000 < 0 {
		days--
	}
	days += 719_468
	era := days / 146_097
	if days < 0 {
		era = (days - 146_096) / 146_097
	}
	doe := days - era*146_097
	yoe := (doe - doe/1460 + doe/36_524 - doe/146_096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	year, month := yoe+era*400, mp+3
	if month > 12 {
		year, month = year+1, month-12
	}
	return Month(year*100 + month)
}
