package decision

import (
	"bytes"
	"fmt"
	"time"

	"purser/persistence/rfc3339"
)

// Stamp is a time as the interface writes it: RFC 3339 in UTC, always with milliseconds. Events and
// documents hold stamps, so that the stored time is the shown time.
type Stamp struct{ time.Time }

var quote = []byte{'"'}

const stampLayout = `"2006-01-02T15:04:05.000Z07:00"`

// StampOf returns the stamp of a time, truncated to milliseconds. The domain packages store every
// time in this form.
func StampOf(t time.Time) Stamp { return Stamp{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the time in UTC with milliseconds, as Append does. Its error is always nil.
func (s Stamp) MarshalJSON() ([]byte, error) {
	return s.Append(nil), nil
}

// UnmarshalJSON reads any RFC 3339 time in the years 0 to 9999 of UTC, which MarshalJSON can write,
// and null as the zero time. It fails for any other text.
func (s *Stamp) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*s = Stamp{}
		return nil
	}
	text, opened := bytes.CutPrefix(b, quote)
	text, closed := bytes.CutSuffix(text, quote)
	t, err := rfc3339.Parse(text)
	if err != nil || !opened || !closed {
		return fmt.Errorf("time %s: not a timestamp of RFC 3339", b)
	}
	*s = StampOf(t)
	if s.Year() < 0 || s.Year() > 9999 {
		return fmt.Errorf("time %s: the year is not within 0 to 9999", b)
	}
	return nil
}
