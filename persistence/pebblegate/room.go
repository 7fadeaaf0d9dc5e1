package pebblegate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoRoom marks a store that its disk has no room to open. The message names directory and bytes.
var ErrNoRoom = errors.New("the disk is too full")

// A store's needs of its disk.
const (
	// FlushBytes bounds the tables that a flush writes: it writes the memtables of the store.
	FlushBytes = MemTables * MemTableSize
	// OptionalRoom is the free space below which a store makes only the writes that it must. It
	// then begins no compaction, abandons a running one, preallocates no log and makes no spare
	// log.
	OptionalRoom = 512 << 20
	// openBytes bounds the other files of an open: manifest, OPTIONS, INTEGRITY, markers and the
	// first pages of a log.
	openBytes = 1 << 20
)

// How writers wait for room.
const (
	// roomAgain is the free space at which a store writes freely again.
	roomAgain = OptionalRoom + OptionalRoom/4
	// abandonedPause is how many turns of grantEvery pass after an abandoned compaction before the
	// next one: its removed tables look like room.
	abandonedPause = int(time.Minute / grantEvery)
	// fullPause is how long a flush that has met a full disk waits before the next table. Pebble
	// repeats it at once.
	fullPause = 100 * time.Millisecond
)

// HasRoom reports whether the disk of a directory has so many free bytes beyond OptionalRoom. It
// reports true when the free space is not known.
func HasRoom(fs vfs.FS, dir string, bytes int64) bool {
	free, err := FreeBytes(fs, dir)
	return err != nil || free >= OptionalRoom+bytes
}

// FreeBytes returns the free bytes of a directory's disk that a process without privileges may use.
// It fails with the file system's error.
func FreeBytes(fs vfs.FS, dir string) (int64, error) {
	usage, err := fs.GetDiskUsage(dir)
	return int64(min(usage.AvailBytes, math.MaxInt64)), err
}

// FormatFree writes free bytes in KiB, MiB or GiB with at most one decimal, rounded down.
// FormatNeed rounds up. So a disk that lacks one byte never seems to have enough.
func FormatFree(bytes int64) string { return formatBytes(bytes, math.Floor) }

// FormatNeed writes needed bytes as FormatFree does, rounded up.
func FormatNeed(bytes int64) string { return formatBytes(bytes, math.Ceil) }

// formatBytes formats a size in KiB, MiB or GiB with at most one decimal, rounded by round.
func formatBytes(bytes int64, round func(float64) float64) string {
	unit, name := int64(1<<10), "KiB"
	switch {
	case bytes >= 1<<30:
		unit, name = 1<<30, "GiB"
	case bytes >= 1<<20:
		unit, name = 1<<20, "MiB"
	}
	const decimal = 10
	tenths := round(float64(bytes) / float64(unit) * decimal)
	return strconv.FormatFloat(tenths/decimal, 'f', -1, 64) + " " + name
}

// RequireRoom fails with ErrNoRoom for a store whose disk cannot take the flush of so many bytes
// of its log. Free space that is not known passes.
func RequireRoom(fs vfs.FS, dir string, logged int64) error {
	free, err := FreeBytes(fs, dir)
	if err != nil {
		return nil // an open that meets a full disk fails by itself
	}
	if need := openBytes + min(logged, FlushBytes); free < need {
		return fmt.Errorf("%w: the disk of %s has %s free; a start needs %s", ErrNoRoom, dir, FormatFree(free),
			FormatNeed(need))
	}
	return nil
}

// isFull reports whether a write failed because disk or quota are used up.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// errAbandoned ends a compaction that would use up the room of flushes and logs.
var errAbandoned = fmt.Errorf("compaction abandoned: less than %d MiB free: %w", OptionalRoom>>20, syscall.ENOSPC)

// room is what a gate knows of the free space of its store's disk.
type room struct {
	free      func() (bytes int64, known bool)
	scarce    atomic.Bool
	abandoned atomic.Bool // a compaction, since the last look
	full      atomic.Bool // the last piece of a table met a full disk
	pause     int         // looks before compactions begin again
}

// watchRoom makes the gate measure the disk of a directory.
func (r *room) watchRoom(fs vfs.FS, dir string) {
	r.free = func() (int64, bool) {
		free, err := FreeBytes(fs, dir)
		return free, err == nil
	}
	r.lookForRoom()
}

// lookForRoom measures the free space and updates scarce. Only one goroutine calls it at a time.
func (r *room) lookForRoom() {
	if r.abandoned.Swap(false) {
		r.pause = abandonedPause
	}
	r.pause = max(0, r.pause-1)
	switch free, known := r.free(); {
	case !known:
	case free < OptionalRoom:
		r.scarce.Store(true)
	case free >= roomAgain && r.pause == 0:
		r.scarce.Store(false)
	}
}

// isFlush reports that a table belongs to a flush, which continues to the last byte.
func isFlush(category vfs.DiskWriteCategory) bool {
	return strings.Contains(string(category), "memtable-flush")
}

// allow fails with errAbandoned for a piece that a compaction must not write because the disk has
// little room. A flush may always write.
func (r *room) allow(category vfs.DiskWriteCategory) error {
	if r.scarce.Load() && !isFlush(category) {
		r.abandoned.Store(true)
		return errAbandoned
	}
	return nil
}
