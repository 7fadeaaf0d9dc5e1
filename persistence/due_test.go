package persistence_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
)

// TestDue goes through what a journal may and may not answer without its store.
func TestDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	var d persistence.Due
	may := func(at time.Time, want bool) uint64 {
		t.Helper()
		changes, may := d.May(at)
		require.Equal(t, want, may)
		return changes
	}
	d.Learn(may(now, true), time.Time{}) // what nobody has read may be due
	may(late, false)                     // there is no timer

	d.Set(late)
	may(soon, false)
	may(late, true)
	d.Set(soon)
	d.Set(late) // a later one puts nothing back
	may(now, false)
	may(soon, true)
	d.Set(time.Time{}) // nor does one that is removed
	may(soon, true)

	began := may(soon, true)
	d.Set(soon)
	d.Learn(began, late) // the read may not have seen the commit
	may(soon, true)
	d.Learn(may(soon, true), late)
	may(soon, false)

	began = may(late, true)
	d.Forget()
	may(now, true)
	d.Learn(began, late) // nor one that began before another process wrote
	may(now, true)
}
