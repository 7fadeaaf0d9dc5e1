package authorizer

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/pebblegate"
)

// How a spare log is made beside swipes: a piece at a time is on its way to the disk, which is
// theirs for a while after it.
const (
	sparePiece = 256 << 10
	sparePause = 2 * time.Millisecond
	spareName  = "spare.zeros"
)

// zeroedLogs makes each new write-ahead log as long as it will get, of zeros, synced before its
// first record. A sync of a file that grows writes the file's length and its new blocks to the file
// system's journal as well, and takes up to twice as long as one over blocks that are there. Zeros
// are no record: a log ends for its reader where they begin.
//
// Pebble makes a log while commits wait for it, and 16 MiB of zeros take the disk 50 ms. So one log
// is always ready under another name, and is renamed when it is asked for; a spare that is not
// ready yet is not waited for. Pebble uses old logs again, so after the first few of a start no
// more are made. Without a spare a log grows, and its syncs are slower: no more is lost, so no
// fault of a spare is a fault of the store.
type zeroedLogs struct {
	FS
	dir   string
	bytes int

	mu     sync.Mutex
	ready  bool // the spare is there
	closed bool
	done   chan struct{} // closed with it
	making sync.WaitGroup
}

// newZeroedLogs has a spare ready for the logs of a directory: the one that the last start left, or
// a new one. Close it.
func newZeroedLogs(fs FS, dir string, bytes int) *zeroedLogs {
	z := &zeroedLogs{FS: fs, dir: dir, bytes: bytes, done: make(chan struct{})}
	info, err := fs.Stat(z.spare())
	if z.ready = err == nil && info.Size() == int64(bytes); !z.ready {
		z.ready = z.zero(0)
	}
	return z
}

func (z *zeroedLogs) spare() string { return z.PathJoin(z.dir, spareName) }

// Create is vfs.FS's. The logs of a backup, in another directory, are written once, to their end.
func (z *zeroedLogs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") || z.PathDir(name) != z.PathDir(z.spare()) || !z.take() {
		return z.FS.Create(name, category)
	}
	defer z.another()
	if err := z.Rename(z.spare(), name); err != nil {
		slog.Warn("the spare log of the authorizer is gone", "err", err)
		return z.FS.Create(name, category)
	}
	return z.OpenReadWrite(name, category)
}

// take reports whether the caller gets the spare.
func (z *zeroedLogs) take() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	had := z.ready
	z.ready = false
	return had
}

// another has the next spare made. After one that failed there is none until the next start:
// Pebble's old logs do by then.
func (z *zeroedLogs) another() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return
	}
	z.making.Go(func() {
		made := z.zero(sparePause)
		z.mu.Lock()
		defer z.mu.Unlock()
		z.ready = made
	})
}

var errClosed = errors.New("closed")

// zero makes the spare, under a name of its own first: under its name it is whole. It is false when
// there is none, because the disk has little room or the store closes.
func (z *zeroedLogs) zero(rest time.Duration) bool {
	unfinished := z.spare() + ".unfinished"
	if !pebblegate.HasRoom(z.FS, z.dir, int64(z.bytes)) {
		_ = z.Remove(unfinished) // a killed process leaves it, seldom
		return false
	}
	f, err := z.FS.Create(unfinished, vfs.WriteCategoryUnspecified)
	if err == nil {
		f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: sparePiece})
		if err = errors.Join(z.fill(f, rest), f.Close()); err == nil {
			err = z.Rename(unfinished, z.spare())
		}
		if err != nil {
			err = errors.Join(err, z.Remove(unfinished)) // the rest of it would use the room of logs
		}
	}
	if err != nil && !errors.Is(err, errClosed) {
		slog.Warn("no spare log for the authorizer", "err", err)
	}
	return err == nil
}

func (z *zeroedLogs) fill(f vfs.File, rest time.Duration) error {
	zeros := make([]byte, sparePiece)
	for left := z.bytes; left > 0; left -= len(zeros) {
		zeros = zeros[:min(left, len(zeros))]
		if _, err := f.Write(zeros); err != nil {
			return err
		}
		if rest == 0 {
			continue
		}
		select {
		case <-z.done:
			return errClosed
		case <-time.After(rest):
		}
	}
	return f.Sync()
}

// close ends a spare that is being made.
func (z *zeroedLogs) close() {
	z.mu.Lock()
	z.closed = true
	z.mu.Unlock()
	close(z.done)
	z.making.Wait()
}
