//go:build !linux

package bench

import (
	"os"
	"time"
)

func nap(d time.Duration) { time.Sleep(d) }

func syncData(f *os.File) error { return f.Sync() }
