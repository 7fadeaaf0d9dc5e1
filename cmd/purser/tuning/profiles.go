package tuning

import (
	"runtime"
	"time"
)

// Sampling of waits, for /debug/pprof/mutex and /debug/pprof/block: rare enough to cost nothing at
// 20,000 swipes a second. The profiles scale their values by these.
const (
	MutexProfileFraction = 100         // waits for a mutex per sample
	blockProfileEvery    = time.Second // waiting time of goroutines per sample
)

// ProfileWaiting sets the rates, which are the process's.
func ProfileWaiting() {
	runtime.SetMutexProfileFraction(MutexProfileFraction)
	runtime.SetBlockProfileRate(int(blockProfileEvery))
}
