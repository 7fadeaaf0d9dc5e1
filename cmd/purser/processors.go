package main

import (
	"os"
	"runtime"
)

// inCalls is how many threads sit in a system call at any moment under load: in a server the writers of the two stores' logs, in the
// load generator those who nap until the next request is due. Go's scheduler takes the processor of such a thread for busy until it
// has waited for a while; on two processors nobody then looks at the network, and the swipe that has come waits for the sync of the
// journal.
const inCalls = 2

// spareProcessors gives Go's scheduler as many processors more. GOMAXPROCS, if set, is left alone.
func spareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + inCalls)
	}
}
