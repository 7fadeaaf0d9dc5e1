// Package rfc3339 reads the timestamps of other programs.
package rfc3339

import (
	"errors"
	"time"
)

var errForm = errors.New("not a timestamp of RFC 3339")

// Parse reads a timestamp of RFC 3339, section 5.6, and returns it in UTC: four digits of a year,
// two of every other number, a period before a fraction, an offset of at most 23:59. T and Z are
// capitals, and a second is at most 59. Digits of the fraction beyond nanoseconds are dropped. It
// fails for any other text, and allocates nothing for a valid one.
//
// time.Parse and time.Time.UnmarshalText also take hours of one digit, a comma before the fraction
// and offsets up to 24:60.
func Parse(text []byte) (time.Time, error) {
	r := reader{rest: text}
	year := r.readNumber(4, 0, 9999)
	month := r.readAfter('-', 1, 12)
	day := r.readAfter('-', 1, 31)
	hour := r.readAfter('T', 0, 23)
	minute := r.readAfter(':', 0, 59)
	second := r.readAfter(':', 0, 59)
	nanoseconds := r.readFraction()
	offset := r.readOffset()
	at := time.Date(year, time.Month(month), day, hour, minute, second, nanoseconds, time.UTC)
	if r.bad || len(r.rest) != 0 || at.Day() != day { // time.Date moves the 30th of February to March
		return time.Time{}, errForm
	}
	return at.Add(-offset), nil
}

// reader reads a timestamp from its begin. After the first fault bad stays set.
type reader struct {
	rest []byte
	bad  bool
}

// take consumes one byte if it is next.
func (r *reader) take(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// readDigit consumes a digit. Without one it returns false.
func (r *reader) readDigit() (int, bool) {
	if len(r.rest) == 0 || r.rest[0] < '0' || r.rest[0] > '9' {
		return 0, false
	}
	digit := int(r.rest[0] - '0')
	r.rest = r.rest[1:]
	return digit, true
}

// readNumber reads a number of exactly so many digits between two bounds.
func (r *reader) readNumber(digits, least, most int) int {
	n := 0
	for range digits {
		digit, ok := r.readDigit()
		r.bad = r.bad || !ok
		n = n*10 + digit
	}
	r.bad = r.bad || n < least || n > most
	return n
}

// readAfter reads a number of two digits between two bounds, behind a separator.
func (r *reader) readAfter(separator byte, least, most int) int {
	r.bad = !r.take(separator) || r.bad
	return r.readNumber(2, least, most)
}

// readFraction reads an optional fraction of a second, in nanoseconds.
func (r *reader) readFraction() int {
	if !r.take('.') {
		return 0
	}
	n, unit := 0, 100_000_000
	digit, ok := r.readDigit()
	r.bad = r.bad || !ok
	for ; ok; digit, ok = r.readDigit() {
		n += digit * unit
		unit /= 10
	}
	return n
}

// readOffset reads Z or the offset from UTC.
func (r *reader) readOffset() time.Duration {
	if r.take('Z') {
		return 0
	}
	sign := time.Duration(1)
	if r.take('-') {
		sign = -1
	} else if !r.take('+') {
		r.bad = true
	}
	hours := r.readNumber(2, 0, 23)
	return sign * (time.Duration(hours)*time.Hour + time.Duration(r.readAfter(':', 0, 59))*time.Minute)
}
