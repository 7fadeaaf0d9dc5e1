package tuning

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

// The garbage that accumulates before a collection: the rest of heapBytes beside the live heap, and
// at least garbageBytes. Go's default is as much as the live heap. With the memory for cards full
// that is most of a gigabyte. With few cards Go collects several times a second, and swipes wait
// for it.
const (
	heapBytes           = 768 << 20
	garbageBytes        = 256 << 20
	leastGarbagePercent = 25  // percent of the live heap; with less, a heap of many gigabytes is collected all the time
	mostGarbagePercent  = 600 // the live heap may grow before the next look
	lookAtGarbageEvery  = 100 * time.Millisecond
	aliveMetric         = "/gc/heap/live:bytes" // the live heap of the last collection
)

// BoundGarbage adjusts the garbage collector's percentage of the whole process, and returns when
// the context ends. The last percentage stays. If GOGC is set, BoundGarbage returns at once.
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

// garbagePercent returns the garbage that may accumulate, in percent of the live heap.
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
