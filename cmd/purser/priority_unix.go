//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// lowerPriority gives the process a nice value and starts the program anew with arguments. On Linux
// a priority belongs to a thread and is inherited: of the runtime's threads, only one that makes
// the call and then the exec gives it to all threads of the new image. Without the right to lower
// the priority it returns nil and nothing has changed. It fails only when the program cannot be
// started anew.
func lowerPriority(nice int, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice); err != nil {
		return nil
	}
	return syscall.Exec(self, append([]string{self}, arguments...), os.Environ())
}
