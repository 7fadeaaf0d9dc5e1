package tail

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimerHorizonUsesWallClock: the monotonic clock stops while the machine sleeps, so Lower must
// discard it.
func TestTimerHorizonUsesWallClock(t *testing.T) {
	var d TimerHorizon
	at := time.Now().Add(time.Hour)
	d.Lower(at)
	require.True(t, d.at.Equal(at))
	require.NotContains(t, d.at.String(), "m=")
}
