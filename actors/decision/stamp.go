package decision

import (
	"encoding/json"
	"fmt"
	"time"
)

// Stamp is a moment as the interface writes it: RFC 3339 in UTC, always with milliseconds. Events and documents hold stamps, so
// that what is stored is what is shown.
type Stamp struct{ time.Time }

const stampLayout = `"2006-01-02T15:04:05.000Z07:00"`

// StampOf makes the stamp of a moment; what is finer than a millisecond is dropped.
func StampOf(t time.Time) Stamp { return Stamp{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the stamp.
func (s Stamp) MarshalJSON() ([]byte, error) {
	return s.Append(nil), nil
}

// UnmarshalJSON reads any RFC 3339 moment of the years that MarshalJSON can write.
func (s *Stamp) UnmarshalJSON(b []byte) error {
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*s = StampOf(t)
	if s.Year() < 0 || s.Year() > 9999 {
		return fmt.Errorf("moment %s", b)
	}
	return nil
}
