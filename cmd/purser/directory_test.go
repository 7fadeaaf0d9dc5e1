package main

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Commands that look whether a server runs do not stop a start, though each has the lock for an
// instant.
func TestALookDoesNotStopAStart(t *testing.T) {
	const starts = 50
	data := t.TempDir()
	unlock, err := lockDirectory(data)
	require.NoError(t, err)
	require.NoError(t, unlock())
	var done atomic.Bool
	var looks sync.WaitGroup
	looks.Go(func() {
		for !done.Load() {
			_ = requireServer(data)
		}
	})
	defer looks.Wait()
	defer done.Store(true)
	for range starts {
		unlock, err := lockDirectory(data)
		require.NoError(t, err)
		require.NoError(t, unlock())
	}
}
