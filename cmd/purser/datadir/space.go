package datadir

import (
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"purser/persistence/pebblegate"
)

// FreeBytes returns the free bytes of a directory's disk.
func FreeBytes(dir string) (int64, error) { return pebblegate.FreeBytes(vfs.Default, dir) }

// Device returns the number of the device that a directory is on. It fails with the file system's
// error. Backups sum up their needs by device with it.
func Device(dir string) (device uint64, err error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return uint64(s.Dev), nil
}
