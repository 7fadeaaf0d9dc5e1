package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is the time since boot, which advances while the machine sleeps.
func bootClock(otherwise func() time.Duration) func() time.Duration {
	return func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
			return otherwise()
		}
		return time.Duration(at.Nano())
	}
}

// kernelSynchronised reports that a time daemon keeps the kernel's clock.
func kernelSynchronised() bool {
	var at unix.Timex
	_, err := unix.Adjtimex(&at)
	return err == nil && at.Status&unix.STA_UNSYNC == 0
}
