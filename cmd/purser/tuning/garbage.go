package tuning

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

// How much garbage gathers before it is collected: as much as the heap has room for beside what is alive, and not less than
// garbageBytes. Go's own rule is as much as is alive: with the memory for cards full, that is most of a gigabyte beside it; with
// few cards it collects several times a second, and swipes wait while it does.
const (
	heapBytes           = 768 << 20
	garbageBytes        = 256 << 20
	leastGarbagePercent = 25  // of what is alive: were it less, a heap of many gigabytes would be collected without a rest
	mostGarbagePercent  = 600 // what is alive may have grown before it is looked at again
	lookAtGarbageEvery  = 100 * time.Millisecond
	aliveMetric         = "/gc/heap/live:bytes" // what the last collection found alive
)

// BoundGarbage sets the collector's percentage, which is the process's, until the context ends. GOGC, if set, is left alone.
func BoundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(lookAtGarbageEvery)
	defer ticker.Stop()
	paceGarbage(ctx, ticker.C, aliveBytes, func(percent int) { debug.SetGCPercent(percent) })
}

// paceGarbage sets the percentage at once, and at a tick when it is another.
func paceGarbage(ctx context.Context, ticks <-chan time.Time, alive func() uint64, set func(percent int)) {
	for last := 0; ; {
		if percent := garbagePercent(alive()); percent != last {
			set(percent)
			last = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// garbagePercent is what share of what is alive may gather as garbage.
func garbagePercent(alive uint64) int {
	room := uint64(garbageBytes)
	if alive < heapBytes-garbageBytes {
		room = heapBytes - alive
	}
	if alive*mostGarbagePercent <= room*100 {
		return mostGarbagePercent
	}
	return max(leastGarbagePercent, int(room*100/alive))
}

func aliveBytes() uint64 {
	sample := []runtimemetrics.Sample{{Name: aliveMetric}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
