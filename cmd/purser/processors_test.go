package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpareProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1")
	require.Equal(t, before, spareProcessors())
	require.Equal(t, before, runtime.GOMAXPROCS(0), "what the operator has set")
	t.Setenv("GOMAXPROCS", "")
	require.Equal(t, before, spareProcessors())
	require.Equal(t, before+inCalls, runtime.GOMAXPROCS(0))
}
