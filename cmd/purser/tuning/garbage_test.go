package tuning

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsBounded(t *testing.T) {
	for alive, want := range map[uint64]int{0: 600, 60 << 20: 600, 109 << 20: 600, 128 << 20: 500, 256 << 20: 200, 384 << 20: 100,
		512 << 20: 50, 640 << 20: 40, 1024 << 20: 25, 64 << 30: 25} {
		require.Equal(t, want, garbagePercent(alive), "%d MiB alive", alive>>20)
	}
}

func TestTheCollectorIsToldOnlyOfChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ticks, told := make(chan time.Time), []int(nil)
	readings := []uint64{0, 1 << 20, 256 << 20, 256 << 20, 0}
	later := len(readings) - 1
	done := make(chan struct{})
	go func() {
		defer close(done)
		paceGarbage(ctx, ticks, func() uint64 {
			n := readings[0]
			readings = readings[1:]
			return n
		}, func(percent int) { told = append(told, percent) })
	}()
	for range later {
		ticks <- time.Time{}
	}
	cancel()
	<-done
	require.Equal(t, []int{600, 200, 600}, told)
}

func TestWhatIsAliveIsRead(t *testing.T) {
	runtime.GC()
	require.Positive(t, aliveBytes())
}
