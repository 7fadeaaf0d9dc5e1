package persistence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDueGoesByTheWall: what the clock of a process says of the time since its start stands still while the machine sleeps.
func TestDueGoesByTheWall(t *testing.T) {
	var d Due
	at := time.Now().Add(time.Hour)
	d.Set(at)
	require.True(t, d.at.Equal(at))
	require.NotContains(t, d.at.String(), "m=")
}
