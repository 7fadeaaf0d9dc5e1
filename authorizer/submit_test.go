package authorizer

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// A ticket that moves to another shard at its last attempt reads under the lock there too.
// Otherwise a busy shard could delay it without bound.
func TestAMessageThatIsMovedLateIsDecidedInABusyShard(t *testing.T) {
	for attempt := 1; attempt < 2*loadAttempts; attempt++ {
		require.Equal(t, attempt >= loadAttempts, underLock(attempt), attempt)
	}
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1) // unknown: its clearing goes to the system's shard
	done, stopped := make(chan struct{}), make(chan struct{})
	for _, sh := range []*shard{r.e.shards[c.card.Shard()], r.e.shards[ident.SystemSlot.Shard()]} {
		go func() {
			defer func() { stopped <- struct{}{} }()
			for {
				select {
				case <-done:
					return
				default:
					sh.mu.Lock()
					sh.changes.Add(1)
					sh.mu.Unlock()
				}
			}
		}()
	}
	answered := make(chan hold.Answer, 1)
	go func() { answered <- r.e.Submit(clearing("c1", "", c, 10)) }()
	var a hold.Answer
	require.Eventually(t, func() bool {
		select {
		case a = <-answered:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	close(done)
	<-stopped
	<-stopped
	require.Equal(t, hold.Unmatched, a.Decision)
}
