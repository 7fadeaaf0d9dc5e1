package wal

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// countedDisk counts the writes of zeros, of header slots and of pages.
type countedDisk struct {
	vfs.FS
	mem                  *vfs.MemFS
	zeros, notes, groups atomic.Int64
	stall                atomic.Pointer[chan struct{}] // zeros wait for it; nil: they do not
	full                 atomic.Bool                   // writes of pages fail
}

func newCountedDisk() *countedDisk {
	d := &countedDisk{mem: vfs.NewMem()}
	d.FS = errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpFileWrite:
			d.zeros.Add(1)
			if stall := d.stall.Load(); stall != nil {
				<-*stall
			}
		case op.Kind == errorfs.OpFileWriteAt && op.Offset < headerBytes:
			d.notes.Add(1)
		case op.Kind == errorfs.OpFileWriteAt && d.full.Load():
			return syscall.ENOSPC
		case op.Kind == errorfs.OpFileWriteAt:
			d.groups.Add(1)
		}
		return nil
	}))
	return d
}

// current returns the segment that is being written, once the log is idle.
func (r *rig) current() *segment {
	synctest.Wait()
	return r.log.writer.segment
}

// currentBytes returns the length of the file that is being written.
func (r *rig) currentBytes() int64 {
	info, err := r.fs.Stat(r.log.segments.segmentPath(r.current().segment))
	require.NoError(r.t, err)
	return info.Size()
}

// Freed segments are used again: zeros are written for the first ones alone, and no old record
// appears.
func TestFreedSegmentsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCountedDisk()
		r := newRig(t, disk)
		r.open(0)
		for turn := range 120 {
			r.appendDurable(1, 3_500)
			r.free(r.log.Durable())
			time.Sleep(noteAfter / 2)
			require.LessOrEqual(t, len(r.log.segments.held), 2)
			require.Equal(t, fileBytes(smallSegment), r.currentBytes())
			if turn%25 == 0 {
				require.NoError(t, r.log.Close())
				r.open(r.log.Durable())
			}
		}
		require.LessOrEqual(t, disk.zeros.Load(), int64(maxSpares))
		require.Greater(t, r.current().segment, uint64(10))
		require.NoError(t, r.log.Close())
	})
}

// At most maxSpares freed segments are kept.
func TestSparesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newCountedDisk())
		r.open(0)
		for range 100 {
			r.appendDurable(1, 3_500)
			time.Sleep(noteAfter / 2)
		}
		require.Greater(t, len(r.log.segments.held), 2*maxSpares)
		r.free(r.log.Durable())
		names, err := r.fs.List("log")
		require.NoError(t, err)
		spares := 0
		for _, name := range names {
			if strings.HasSuffix(name, spareSuffix) {
				spares++
			}
		}
		require.Equal(t, maxSpares, spares)
		require.NoError(t, r.log.Close())
		r.open(100)
		require.NoError(t, r.log.Close())
	})
}

// Free keeps the segment with the next record, and the one that is being written.
func TestFreeKeepsWhatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem())
		r.open(0)
		r.appendDurable(40, 2_000)
		for through := range uint64(41) {
			r.free(through)
			held := r.log.segments.held
			require.LessOrEqual(t, held[0].first, through+1)
			if len(held) > 1 {
				require.Greater(t, held[1].first, through+1)
			}
			again := r.after(r.fs)
			require.NoError(t, r.log.Close())
			again.open(40)
			r = again
		}
		require.NoError(t, r.log.Close())
	})
}

// Groups do not wait for a file that is being made: the segment grows then, and the file serves the
// next one.
func TestGroupsDoNotWaitForTheNextFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCountedDisk()
		r := newRig(t, disk)
		r.open(0)
		time.Sleep(noteAfter / 2)
		require.Equal(t, fileBytes(smallSegment), r.currentBytes())
		stall := make(chan struct{})
		disk.stall.Store(&stall)
		for number := uint64(2); number < 5; number++ {
			for r.current().segment < number {
				r.appendDurable(1, 3_000)
			}
			require.Equal(t, number > 2, r.currentBytes() < fileBytes(smallSegment), "segment %d", number)
		}
		close(stall)
		time.Sleep(noteAfter / 2)
		for r.current().segment < 5 {
			r.appendDurable(1, 3_000)
		}
		require.Equal(t, fileBytes(smallSegment), r.currentBytes())
		require.NoError(t, r.log.Close())
		r.open(uint64(len(r.records)))
		require.NoError(t, r.log.Close())
	})
}

// A disk with little room gets no zeros, and its segments grow. A full disk fails the log, and
// loses nothing.
func TestAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCountedDisk()
		disk.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20})
		const segment = 64 * pageBytes
		r := newRig(t, disk, func(o *Options[uint64]) { o.SegmentBytes = segment })
		r.open(0)
		r.appendDurable(20, 3_000)
		time.Sleep(time.Second)
		require.Zero(t, disk.zeros.Load())
		require.Less(t, r.currentBytes(), fileBytes(segment)/2)
		disk.full.Store(true)
		r.append(1, 3_000)
		require.ErrorIs(t, r.log.Wait(21), syscall.ENOSPC)
		require.ErrorIs(t, r.log.Close(), syscall.ENOSPC)
		disk.full.Store(false)
		r.open(20)
		r.appendDurable(20, 3_000)
		require.NoError(t, r.log.Close())
		r.open(uint64(len(r.records)))
		require.NoError(t, r.log.Close())
	})
}

// An idle log notes its synced length once, and a busy one once in noteAfter.
func TestAnIdleLogNotesItsLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCountedDisk()
		r := newRig(t, disk, func(o *Options[uint64]) { o.SegmentBytes = 64 * pageBytes })
		r.open(0)
		time.Sleep(time.Second)
		before := disk.notes.Load()
		for range 500 {
			r.appendDurable(1, 300)
			time.Sleep(noteAfter / 10)
		}
		busy := disk.notes.Load()
		require.LessOrEqual(t, busy-before, int64(500/10))
		require.Greater(t, busy-before, int64(500/20))
		time.Sleep(time.Hour)
		require.Equal(t, busy+1, disk.notes.Load())
		s := r.current()
		require.Equal(t, s.end, s.noted)
		require.NoError(t, r.log.Close())
		require.Equal(t, busy+1, disk.notes.Load(), "the length was noted")
		slots, err := readSlots(openFile(t, disk, s.path), s.path, testStore, s.segment)
		require.NoError(t, err)
		require.Equal(t, s.end, slots.noted)
	})
}

// A log without syncs notes nothing: no length of it is certain.
func TestALogWithoutSyncsNotesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newCountedDisk()
		r := newRig(t, disk, func(o *Options[uint64]) { o.SegmentBytes, o.NoSync = 64*pageBytes, true })
		r.open(0)
		time.Sleep(time.Second) // the next segment is ready
		before := disk.notes.Load()
		for range 40 { // within one segment
			r.appendDurable(1, 300)
			time.Sleep(noteAfter / 2)
		}
		time.Sleep(time.Hour)
		require.Equal(t, before, disk.notes.Load())
		require.NoError(t, r.log.Close())
	})
}

// A group that arrives when a note is due goes first: the writer notes the length of an idle log
// alone.
func TestAGroupGoesBeforeANote(t *testing.T) {
	l := &Log[int]{maxRecord: 100, queue: queue[int]{limit: 100}, wake: make(chan struct{}, 1)}
	l.idle = true
	require.True(t, l.stopIdling())
	require.False(t, l.stopIdling(), "the writer is awake")
	l.idle = true
	_, err := l.Append([]byte("record"), 1)
	require.NoError(t, err)
	require.False(t, l.stopIdling(), "the timer was late")
}

func openFile(t *testing.T, fs vfs.FS, path string) vfs.File {
	f, err := fs.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}
