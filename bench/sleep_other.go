//go:build !linux

package bench

import (
	"os"
	"time"
)

func nap(d time.Duration) { time.Sleep(d) }

func inMemory(string) bool { return false }

func syncData(f *os.File) error { return f.Sync() }
