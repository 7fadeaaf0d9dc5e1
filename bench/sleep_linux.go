package bench

import (
	"os"
	"syscall"
	"time"
)

// nap waits to within some tens of microseconds. time.Sleep wakes up to a millisecond late in a
// process that is otherwise idle.
func nap(d time.Duration) {
	if d > 0 {
		spec := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&spec, nil) // a signal wakes it early: the caller looks at the clock
	}
}

// syncData makes the written data of a file durable, without its times.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
