// Package tuning sets the limits of the process: processors of Go's scheduler, the pace of garbage
// collection, and the sampling of waits.
package tuning

import (
	"os"
	"runtime"
)

// InCalls is how many threads are in a system call at any moment under load: in a server the
// writers of the stores' logs, in the load generator the threads that sleep until the next request
// is due. Go's scheduler counts the processor of such a thread as busy for a while. On two
// processors no thread then polls the network, and a swipe waits for the sync of the journal.
// Measured on two processors without a quota.
const InCalls = 2

// SpareProcessors raises GOMAXPROCS by InCalls and returns its value before. `purser serve` and
// `purser bench` call it once, before they serve or send. It does not change a GOMAXPROCS set in
// the environment. A later change of the CPU quota has no effect.
func SpareProcessors() int {
	processors := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + InCalls)
	}
	return processors
}

// UnauthenticatedAtOnce is how many unauthenticated connections of a port use a processor at once:
// half of the processors. The other half answers authenticated swipes under any flood of that port.
func UnauthenticatedAtOnce(processors int) int { return max(1, processors/2) }
