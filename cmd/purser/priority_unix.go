//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// lowest is the lowest priority that setpriority takes.
const lowest = 19

// lowerPriority gives the process the lowest priority and starts the program anew with arguments.
// On Linux a priority belongs to a thread and is inherited: of the runtime's threads, only one that
// makes the call and then the exec gives it to all threads of the new image. Without the right to
// lower the priority it returns nil and nothing has changed. It fails only when the program cannot
// be started anew. The password worker calls it.
func lowerPriority(arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowest); err != nil {
		return nil
	}
	return syscall.Exec(self, append([]string{self}, arguments...), os.Environ())
}
