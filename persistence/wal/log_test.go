package wal

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// stalledSync is a file system whose syncs of groups wait for a value of next.
type stalledSync struct {
	vfs.FS
	next atomic.Pointer[chan error]
}

func newStalledSync() *stalledSync {
	s := &stalledSync{}
	s.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if next := s.next.Load(); next != nil && op.Kind == errorfs.OpFileSyncData {
			return <-*next
		}
		return nil
	}))
	return s
}

// stall makes the syncs wait for a value of the channel, or no longer for nil.
func (s *stalledSync) stall(next chan error) {
	if s.next.Store(&next); next == nil {
		s.next.Store(nil)
	}
}

// Records that arrive during a sync share the next write and the next sync.
func TestRecordsDuringASyncShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalledSync()
		groups := [][]uint64{}
		r := newRig(t, disk, func(o *Options[uint64]) {
			o.Durable = func(owners []uint64, err error) {
				require.NoError(t, err)
				groups = append(groups, append([]uint64(nil), owners...))
			}
		})
		r.open(0)
		time.Sleep(noteAfter * 2) // the next segment is ready
		next := make(chan error)
		disk.stall(next)
		for range 3 {
			r.append(1, 100)
			synctest.Wait()
		}
		require.Empty(t, groups)
		require.Zero(t, r.log.Durable())
		require.EqualValues(t, 3, r.log.Appended())
		next <- nil
		synctest.Wait()
		require.Equal(t, [][]uint64{{1}}, groups)
		require.EqualValues(t, 1, r.log.Durable())
		next <- nil
		require.NoError(t, r.log.Wait(3))
		synctest.Wait()
		require.Equal(t, [][]uint64{{1}, {2, 3}}, groups)
		close(next)
		require.NoError(t, r.log.Close())
	})
}

// Owners hear of their records in order, once, after Durable has reached them. Goroutines append,
// wait and free beside each other.
func TestConcurrentAppendsAreReportedInOrder(t *testing.T) {
	type owner struct{ goroutine, turn int }
	const goroutines, turns = 8, 200
	var reported []owner
	var l *Log[owner]
	opened := make(chan struct{})
	o := Options[owner]{FS: vfs.NewMem(), Dir: "log", SegmentBytes: smallSegment, Store: testStore,
		Durable: func(owners []owner, err error) {
			<-opened
			reported = append(reported, owners...)
			if err != nil || l.Durable() < uint64(len(reported)) {
				t.Errorf("reported %d, durable %d: %v", len(reported), l.Durable(), err)
			}
		}}
	l, err := Open(o, 0, nil)
	require.NoError(t, err)
	close(opened)
	var group sync.WaitGroup
	numbers := make([]map[uint64]owner, goroutines)
	for g := range goroutines {
		numbers[g] = map[uint64]owner{}
		group.Go(func() {
			for turn := range turns {
				number, err := l.Append([]byte{byte(g), byte(turn)}, owner{g, turn})
				if err == nil && turn%3 == 0 {
					err = l.Wait(number)
				}
				if err == nil && turn%20 == 0 {
					err = l.Free(number / 2)
				}
				if err != nil {
					t.Error(err)
				}
				numbers[g][number] = owner{g, turn}
			}
		})
	}
	group.Wait()
	require.NoError(t, l.Close())
	require.Len(t, reported, goroutines*turns)
	for _, own := range numbers {
		for number, o := range own {
			require.Equal(t, o, reported[number-1])
		}
	}
}

// Every owner of a group that failed, or that came after, gets the first error. Nothing more is
// written.
func TestAFailureReachesEveryLaterOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalledSync()
		var failed []uint64
		r := newRig(t, disk, func(o *Options[uint64]) {
			o.Durable = func(owners []uint64, err error) {
				if err != nil {
					require.ErrorIs(t, err, errorfs.ErrInjected)
					failed = append(failed, owners...)
				}
			}
		})
		r.open(0)
		r.appendDurable(2, 100)
		time.Sleep(noteAfter * 2) // the next segment is ready
		next := make(chan error, 1)
		disk.stall(next)
		r.append(1, 100)
		synctest.Wait()
		r.append(2, 100)
		waiting := make(chan error, 1)
		go func() { waiting <- r.log.Wait(5) }()
		synctest.Wait()
		next <- errorfs.ErrInjected
		require.ErrorIs(t, <-waiting, errorfs.ErrInjected)
		r.append(1, 100)
		require.ErrorIs(t, r.log.Wait(6), errorfs.ErrInjected)
		require.NoError(t, r.log.Wait(2))
		require.ErrorIs(t, r.log.Close(), errorfs.ErrInjected)
		require.Equal(t, []uint64{3, 4, 5, 6}, failed)
		require.EqualValues(t, 2, r.log.Durable())
	})
}

// A record at the bound is taken and replayed, and a longer one is refused without a number.
func TestTheBoundOfARecord(t *testing.T) {
	for _, segment := range []int{0, smallSegment} {
		r := newRig(t, vfs.NewMem(), func(o *Options[uint64]) { o.SegmentBytes = segment })
		r.open(0)
		bound := MaxRecordBytes
		if segment == smallSegment {
			bound = smallSegment - pageBytes - recordHeader
		}
		for _, length := range []int{bound, 0, 1, bound} {
			_, err := r.log.Append(make([]byte, bound+1), 0)
			require.ErrorIs(t, err, ErrTooLarge)
			r.appendPayload(r.payload(length))
		}
		require.NoError(t, r.log.Close())
		r.open(4)
		require.NoError(t, r.log.Close())
	}
}

// appendPayload appends one record.
func (r *rig) appendPayload(p []byte) {
	_, err := r.log.Append(p, 0)
	require.NoError(r.t, err)
	r.records = append(r.records, p)
}

// A stalled disk makes the queue longer and leaves the frames bounded.
func TestAStalledDiskDoesNotMakeAGroupTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalledSync()
		largest := 0
		r := newRig(t, disk, func(o *Options[uint64]) {
			o.Durable = func(owners []uint64, _ error) { largest = max(largest, len(owners)) }
		})
		r.open(0)
		next := make(chan error)
		disk.stall(next)
		r.append(100, 4_000)
		synctest.Wait()
		close(next)
		require.NoError(t, r.log.Close())
		require.Greater(t, largest, 3)
		require.Greater(t, len(r.log.segments.held), 10)
		disk.stall(nil)
		r.open(100)
		require.NoError(t, r.log.Close())
	})
}

// Close writes the appended records. Later calls are refused, and Wait does not wait for a record
// that is not appended.
func TestAClosedLog(t *testing.T) {
	disk := vfs.NewCrashableMem()
	r := newRig(t, disk)
	r.open(0)
	waiting := make(chan error, 1)
	go func() { waiting <- r.log.Wait(1_000) }()
	r.append(50, 500)
	require.NoError(t, r.log.Close())
	require.ErrorIs(t, <-waiting, ErrClosed)
	require.NoError(t, r.log.Close())
	require.NoError(t, r.log.Wait(50))
	require.ErrorIs(t, r.log.Wait(51), ErrClosed)
	_, err := r.log.Append(nil, 0)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, r.log.Free(50))
	left := r.after(disk.CrashClone(vfs.CrashCloneCfg{}))
	left.open(50)
	require.NoError(t, left.log.Close())
}

// A segment that cannot hold a frame and a seal is refused.
func TestTheLengthOfASegment(t *testing.T) {
	for _, length := range []int{-1, pageBytes, minSegmentBytes + 1} {
		r := newRig(t, vfs.NewMem(), func(o *Options[uint64]) { o.SegmentBytes = length })
		require.ErrorContains(t, r.tryOpen(0), "segments of")
	}
}

// A log that is made behind a number takes the next one, and the copy of a store needs no record.
func TestALogIsMadeBehindANumber(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	require.NoError(t, r.fs.MkdirAll("log", 0o700))
	require.NoError(t, Create(r.options, 41))
	l, err := Open(r.options, 41, func(uint64, []byte) error { return errors.New("a record") })
	require.NoError(t, err)
	number, err := l.Append([]byte("next"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 42, number)
	require.NoError(t, l.Close())
	_, err = Open(r.options, 40, func(uint64, []byte) error { return nil })
	require.ErrorIs(t, err, ErrGap)
}
