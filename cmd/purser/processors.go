package main

import (
	"os"
	"runtime"
)

// syncing is how many threads sit in the disk at any moment under load: the writers of the two stores' logs. Go's scheduler takes
// the processor of a thread in a system call for busy until it has waited for a while; on two processors nobody then looks at the
// network, and the swipe that has come waits for the sync of the journal.
const syncing = 2

// spareProcessors gives Go's scheduler as many processors more. GOMAXPROCS, if set, is left alone.
func spareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + syncing)
	}
}
