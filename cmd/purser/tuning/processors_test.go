package tuning

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpareProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1")
	require.Equal(t, before, SpareProcessors())
	require.Equal(t, before, runtime.GOMAXPROCS(0), "what the operator has set")
	t.Setenv("GOMAXPROCS", "")
	require.Equal(t, before, SpareProcessors())
	require.Equal(t, before+InCalls, runtime.GOMAXPROCS(0))
}
