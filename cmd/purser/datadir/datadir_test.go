package datadir

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command that checks for a running server holds the lock for an instant. A start that meets it
// retries.
func TestServerChecksDoNotFailAStart(t *testing.T) {
	const starts = 50
	data := t.TempDir()
	unlock, err := Lock(data)
	require.NoError(t, err)
	require.NoError(t, unlock())
	var done atomic.Bool
	var checks sync.WaitGroup
	checks.Go(func() {
		for !done.Load() {
			_ = requireServer(data)
		}
	})
	defer checks.Wait()
	defer done.Store(true)
	for range starts {
		unlock, err := Lock(data)
		require.NoError(t, err)
		require.NoError(t, unlock())
	}
}
