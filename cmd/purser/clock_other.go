//go:build !linux

package main

import "time"

// bootClock is the process's own clock where the time since boot cannot be read: a sleep of the
// machine is then a step.
func bootClock(otherwise func() time.Duration) func() time.Duration { return otherwise }

func kernelSynchronised() bool { return false }
