package pebblegate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// silentLogger keeps Pebble's lines out of the tests' output.
type silentLogger struct{}

func (silentLogger) Infof(string, ...any)         {}
func (silentLogger) Errorf(string, ...any)        {}
func (silentLogger) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func optionsOn(fs vfs.FS) *pebble.Options { return &pebble.Options{FS: fs, Logger: silentLogger{}} }

func TestAStartOnAFullDiskIsRefusedByDirectoryAndBytes(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: openBytes - 1, TotalBytes: 1 << 30})
	_, err := Open("store", optionsOn(fs))
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "the disk of store has 1023.9 KiB free; a start needs 1 MiB")
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: openBytes, TotalBytes: 1 << 30})
	db, err := Open("store", optionsOn(fs))
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func TestOnADiskWithLittleRoomFlushesGoOnAndCompactionsDoNot(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: OptionalRoom - 1, TotalBytes: 1 << 40})
	var compactions atomic.Int64
	o := optionsOn(fs)
	o.L0CompactionThreshold = 1
	o.EventListener = &pebble.EventListener{CompactionBegin: func(pebble.CompactionInfo) { compactions.Add(1) }}
	db, gate, err := closed("store", o)
	require.NoError(t, err)
	gate.passable.Store(true) // its goroutine does not run, so that the test measures
	for round := range 4 {
		for i := range 100 {
			require.NoError(t, db.Set(binary.BigEndian.AppendUint64(nil, uint64(i)), []byte{byte(round)},
				pebble.NoSync))
		}
		require.NoError(t, db.Flush())
	}
	require.Positive(t, db.Metrics().Levels[0].TablesCount)
	require.Zero(t, compactions.Load())

	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: roomAgain, TotalBytes: 1 << 40})
	gate.open(db.Metrics)
	require.Eventually(t, func() bool { return compactions.Load() > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, db.Close())
}

// However often a store is flushed while its disk has little room, its writes are taken: the last
// facts and freezes must not wait for compactions that do not begin.
func TestOnADiskWithLittleRoomWritesDoNotStop(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: OptionalRoom - 1, TotalBytes: 1 << 40})
	o := optionsOn(fs)
	stopped := make(chan string, 1)
	o.EventListener = &pebble.EventListener{WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
		stopped <- info.Reason
	}}
	db, err := Open("store", o)
	require.NoError(t, err)
	written := make(chan error, 1)
	go func() {
		for round := range 8 * l0Compact {
			if err := errors.Join(db.Set([]byte("key"), []byte{byte(round)}, pebble.NoSync), db.Flush()); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	select {
	case err := <-written:
		require.NoError(t, err)
	case reason := <-stopped:
		require.Fail(t, "writes stop", reason)
	}
	require.Equal(t, 8*l0Compact, int(db.Metrics().Levels[0].Sublevels))
	require.NoError(t, db.Close())
}

func TestARunningCompactionIsAbandonedAndTheNextOneWaits(t *testing.T) {
	free := int64(roomAgain)
	r := room{free: func() (int64, bool) { return free, true }}
	r.lookForRoom()
	require.NoError(t, r.allow("pebble-compaction"))
	free = OptionalRoom - 1
	r.lookForRoom()
	require.ErrorIs(t, r.allow("pebble-compaction"), syscall.ENOSPC)
	require.NoError(t, r.allow("pebble-memtable-flush"))
	free = roomAgain // the tables of the compaction are removed
	for range abandonedPause {
		require.True(t, r.scarce.Load())
		r.lookForRoom()
	}
	require.False(t, r.scarce.Load())
}

func TestFreeBytesRoundDownAndNeededBytesUp(t *testing.T) {
	for bytes, want := range map[int64][2]string{0: {"0 KiB", "0 KiB"}, 1: {"0 KiB", "0.1 KiB"},
		1<<20 - 1: {"1023.9 KiB", "1024 KiB"}, 1 << 20: {"1 MiB", "1 MiB"}, 384<<20 + 1: {"384 MiB", "384.1 MiB"},
		3 << 29: {"1.5 GiB", "1.5 GiB"}, 1<<40 + 1: {"1024 GiB", "1024.1 GiB"}} {
		require.Equal(t, want, [2]string{FormatFree(bytes), FormatNeed(bytes)}, bytes)
	}
}
