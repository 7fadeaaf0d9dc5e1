package main

import (
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/settings"
	"purser/persistence/pebblegate"
)

// growth measures the largest increase of a small disk's used bytes since watchGrowth.
type growth struct {
	start, max int64
	stopped    chan struct{}
	watching   sync.WaitGroup
}

func (d *smallDisk) used(t *testing.T) int64 {
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.dir, &s))
	return int64(s.Blocks-s.Bfree) * s.Bsize
}

func (d *smallDisk) watchGrowth(t *testing.T) *growth {
	t.Helper()
	g := &growth{start: d.used(t), stopped: make(chan struct{})}
	g.watching.Go(func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-g.stopped:
				return
			case <-ticker.C:
				g.max = max(g.max, d.used(t)-g.start)
			}
		}
	})
	return g
}

// stop stops the watch, and returns the largest increase in bytes.
func (g *growth) stop() int64 {
	close(g.stopped)
	g.watching.Wait()
	return g.max
}

// A server whose disk has only settings.LastReserve free writes less than that until its next start
// is complete: in the relay, in a stop by SIGTERM or SIGKILL, and in a start whose logs hold many
// swipes.
func TestTheLastReserveHoldsAStopAndAStart(t *testing.T) {
	d, purser, data, p, s := launchOnSmallDisk(t)
	if d == nil {
		return
	}
	swipes := int64(4_000)
	if os.Getenv(fullLengthVariable) != "" {
		swipes = 100_000
	}
	for _, stop := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		enough := s.n.Load() + swipes
		s.runUntil(t, p, func() bool { return s.n.Load() >= enough })
		s.refused.Store(0)
		d.setFreeBytes(t, settings.MinDiskReserve-1<<20)
		s.runUntil(t, p, func() bool { return s.refused.Load() > 0 })
		d.setFreeBytes(t, settings.LastReserve)
		watch := d.watchGrowth(t)
		if stop == syscall.SIGTERM {
			p.awaitEmptyBacklog(t)
			require.Empty(t, p.signalAndWait(t, stop), "the server's log: %s", p.log.tail(logTailLines))
		} else {
			p.signalAndWait(t, stop)
		}
		stopped := watch.stop()
		watch = d.watchGrowth(t)
		p = launchOnFullDisk(t, purser, data)
		p.awaitEmptyBacklog(t)
		started := watch.stop()
		t.Logf("%d swipes, %s: the disk's use grows by at most %s until the end, and by %s in the next start; "+
			"the last reserve is %s", enough, stop, pebblegate.FormatNeed(stopped), pebblegate.FormatNeed(started),
			pebblegate.FormatNeed(settings.LastReserve))
		require.Less(t, stopped+started, int64(settings.LastReserve))
		d.setFreeBytes(t, 1<<30)
		p.await(t, "readiness", func() bool {
			resp, err := p.http.Get(p.admin + "/readyz")
			return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		})
	}
	s.requireSameAnswers(t, p)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
}
