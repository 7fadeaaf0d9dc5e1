package pebblegate

import (
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// How a table is written beside swipes. A flush or a compaction that is let run takes a processor for 50 ms and more, and on two
// of them every swipe of that time waits in line for the other. So its writer rests after each piece, which is half a millisecond
// of its work, and takes a third of a processor for three times as long. A store whose tables are behind has them written without
// a rest: there the writer only lets others run, for the runtime would let it run for ten milliseconds.
const (
	pieceBytes = 32 << 10
	pieceRest  = time.Millisecond
)

// resting is a file system on which a flush or a compaction rests again and again. The tables of a backup are copied as they are.
type resting struct {
	vfs.FS
	gate *gate
}

// Create is vfs.FS's.
func (r resting) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, category)
	if err != nil || category == vfs.WriteCategoryUnspecified || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &table{File: f, gate: r.gate}, nil
}

// Unwrap is vfs.FS's.
func (r resting) Unwrap() vfs.FS { return r.FS }

type table struct {
	vfs.File
	gate    *gate
	written int
}

// Write is vfs.File's.
func (t *table) Write(p []byte) (int, error) {
	n, err := t.File.Write(p)
	if t.written += n; t.written >= pieceBytes {
		t.written = 0
		t.gate.rest()
	}
	return n, err
}

func (g *gate) rest() {
	g.written.Store(true)
	if g.calm.Load() {
		g.sleep(pieceRest)
	} else {
		runtime.Gosched()
	}
}
