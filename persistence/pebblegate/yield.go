package pebblegate

import (
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// yieldEvery is how much of a table is written before the writer lets others run: about a third of a millisecond of a
// compaction's work. The runtime would let it run for ten, and on few processors a swipe waits behind it.
const yieldEvery = 64 << 10

// yielding is a file system on which whoever writes a table, a flush or a compaction, yields the processor again and again.
type yielding struct{ vfs.FS }

// Create is vfs.FS's.
func (y yielding) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := y.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &table{File: f}, nil
}

// Unwrap is vfs.FS's.
func (y yielding) Unwrap() vfs.FS { return y.FS }

type table struct {
	vfs.File
	written int
}

// Write is vfs.File's.
func (t *table) Write(p []byte) (int, error) {
	n, err := t.File.Write(p)
	if t.written += n; t.written >= yieldEvery {
		t.written = 0
		runtime.Gosched()
	}
	return n, err
}
