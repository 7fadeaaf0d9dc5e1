package tuning

import (
	"runtime"
	"time"
)

// How often waiting is sampled, for /debug/pprof/mutex and /debug/pprof/block: seldom enough that 20,000 swipes a second do not
// feel it. The profiles scale what they show by these.
const (
	MutexProfileFraction = 100         // one of so many waits for a mutex
	blockProfileEvery    = time.Second // one sample for so much time that goroutines wait
)

// ProfileWaiting sets the rates, which are the process's.
func ProfileWaiting() {
	runtime.SetMutexProfileFraction(MutexProfileFraction)
	runtime.SetBlockProfileRate(int(blockProfileEvery))
}
