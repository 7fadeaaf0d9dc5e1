package pebblegate

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Limits of how a table is written beside swipes. A flush or a compaction without pauses takes a
// processor for 50 ms and more, and on two processors every swipe of that time queues for the
// other. So its writer pauses after each piece, which is half a millisecond of its work, and takes
// a third of a processor for three times as long. A store whose tables are behind has them written
// without pauses: there the writer only yields, because the runtime would preempt it after ten
// milliseconds.
const (
	pieceBytes = 32 << 10
	pieceRest  = time.Millisecond
)

// resting is a file system on which a flush or a compaction pauses after each piece. The tables of
// a backup are copied without pauses.
type resting struct {
	vfs.FS
	gate *gate
}

// Create implements vfs.FS. Tables of flushes and compactions are written with pauses. It fails
// with the file system's error.
func (r resting) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	isTable := category != vfs.WriteCategoryUnspecified && strings.HasSuffix(name, ".sst")
	if isTable && r.gate.room.full.Swap(false) {
		r.gate.sleep(fullPause)
	}
	f, err := r.FS.Create(name, category)
	if err != nil || !isTable {
		return f, err
	}
	return newTable(f, category, r.gate), nil
}

// Unwrap is vfs.FS's.
func (r resting) Unwrap() vfs.FS { return r.FS }

// table gathers written blocks into pieces, because Pebble writes block by block, and each in two
// calls. An error is the piece's, so a later write returns it, and every write after that.
type table struct {
	vfs.File
	pieces *bufio.Writer
}

func newTable(f vfs.File, category vfs.DiskWriteCategory, g *gate) *table {
	return &table{File: f, pieces: bufio.NewWriterSize(piece{f, category, g}, pieceBytes)}
}

// Write is vfs.File's.
func (t *table) Write(p []byte) (int, error) { return t.pieces.Write(p) }

// Sync is vfs.File's.
func (t *table) Sync() error { return errors.Join(t.pieces.Flush(), t.File.Sync()) }

// SyncData is vfs.File's.
func (t *table) SyncData() error { return errors.Join(t.pieces.Flush(), t.File.SyncData()) }

// SyncTo implements vfs.File. It fails with the error of the last piece or of the sync.
func (t *table) SyncTo(length int64) (bool, error) {
	if err := t.pieces.Flush(); err != nil {
		return false, err
	}
	return t.File.SyncTo(length)
}

// Close is vfs.File's.
func (t *table) Close() error { return errors.Join(t.pieces.Flush(), t.File.Close()) }

// piece writes to a file and pauses.
type piece struct {
	file     io.Writer
	category vfs.DiskWriteCategory
	gate     *gate
}

// Write writes a piece of a table and pauses. Pebble calls it, through a buffer of pieceBytes, for
// each table that a flush or compaction makes. It fails with errAbandoned for a compaction on a
// disk with little room, and with the disk's error.
func (p piece) Write(b []byte) (int, error) {
	if err := p.gate.room.allow(p.category); err != nil {
		return 0, err
	}
	n, err := p.file.Write(b)
	if isFull(err) {
		p.gate.room.full.Store(true)
	}
	p.gate.rest()
	return n, err
}

// rest pauses the writer of a table for pieceRest. When the tables are behind it only yields.
// piece.Write calls it.
func (g *gate) rest() {
	g.written.Store(true)
	if g.calm.Load() {
		g.sleep(pieceRest)
	} else {
		runtime.Gosched()
	}
}
