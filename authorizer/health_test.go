package authorizer

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

func TestEngineReportsItsLimitsAndItsQueue(t *testing.T) {
	heard := &counting{}
	r := newRig(t, vfs.NewMem(), func(o *Options) { o.BacklogMax, o.Listener = 5_000, heard })
	require.Equal(t, int64(5_000), r.e.BacklogMax())
	ticket := r.e.commits.newTicket(actWrite)
	require.True(t, r.e.commits.admitTicket(ticket))
	require.Equal(t, 1, r.e.Unsynced())
	r.e.commits.release(ticket)
	require.Eventually(t, func() bool { return r.e.Unsynced() == 0 }, time.Minute, time.Millisecond)
}
