package tail_test

import (
	"testing"
	"time"

	"purser/persistence/tail"

	"github.com/stretchr/testify/require"
)

// TestTimerHorizon checks when a journal must read its store to answer Timers.
func TestTimerHorizon(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	var d tail.TimerHorizon
	may := func(at time.Time, want bool) uint64 {
		t.Helper()
		changes, may := d.MayBeDue(at)
		require.Equal(t, want, may)
		return changes
	}
	d.Observe(may(now, true), time.Time{}) // before the first read a timer may be due
	may(late, false)                       // there is no timer

	d.Lower(late)
	may(soon, false)
	may(late, true)
	d.Lower(soon)
	d.Lower(late) // a later timer does not raise the horizon
	may(now, false)
	may(soon, true)
	d.Lower(time.Time{}) // nor does a removed timer
	may(soon, true)

	began := may(soon, true)
	d.Lower(soon)
	d.Observe(began, late) // the read may not have seen the commit
	may(soon, true)
	d.Observe(may(soon, true), late)
	may(soon, false)

	began = may(late, true)
	d.Forget()
	may(now, true)
	d.Observe(began, late) // the read began before another process wrote
	may(now, true)
}
