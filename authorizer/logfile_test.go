package authorizer

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const spareBytes = sparePiece + 100

// spares is a file system that counts the bytes written to spare logs. It blocks their writers
// while stand is set.
type spares struct {
	vfs.FS
	written atomic.Int64
	stand   atomic.Pointer[chan struct{}]
}

func newSpares() *spares {
	s := &spares{}
	s.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, spareName) {
			s.written.Add(1)
			if gate := s.stand.Load(); gate != nil {
				<-*gate
			}
		}
		return nil
	}))
	return s
}

// logBytes creates a log like Pebble, and returns its length, or -1 on an error.
func (s *spares) logBytes(t *testing.T, z *zeroedLogs, name string) int64 {
	f, err := z.Create(name, vfs.WriteCategoryUnspecified)
	if !assert.NoError(t, err) {
		return -1
	}
	info, err := f.Stat()
	if !assert.NoError(t, errors.Join(err, f.Close())) {
		return -1
	}
	return info.Size()
}

func (z *zeroedLogs) isReady() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.ready
}

// A commit that needs another log gets one of zeros at once, or a growing one while none is ready.
// It waits for neither.
func TestCommitsDoNotWaitForASpareLog(t *testing.T) {
	s := newSpares()
	z := newZeroedLogs(s, "", spareBytes)
	for _, name := range []string{"1.log", "2.log"} {
		require.EqualValues(t, spareBytes, s.logBytes(t, z, name))
		require.Eventually(t, z.isReady, time.Minute, time.Millisecond)
	}
	gate := make(chan struct{})
	s.stand.Store(&gate)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "3.log"))
	grows := make(chan int64, 1)
	go func() { grows <- s.logBytes(t, z, "4.log") }()
	require.Eventually(t, func() bool { return len(grows) == 1 }, time.Minute, time.Millisecond,
		"the disk makes no spare now")
	require.Zero(t, <-grows)
	s.stand.Store(nil)
	close(gate)
	require.Eventually(t, z.isReady, time.Minute, time.Millisecond)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "5.log"))
	require.Zero(t, s.logBytes(t, z, "MANIFEST"))
	z.close()
}

// The next start uses a finished spare log, and drops an unfinished one.
func TestASpareLogOutlivesAStart(t *testing.T) {
	s := newSpares()
	z := newZeroedLogs(s, "", spareBytes)
	z.close()
	before := s.written.Load()
	z = newZeroedLogs(s, "", spareBytes)
	require.Equal(t, before, s.written.Load())
	gate := make(chan struct{})
	s.stand.Store(&gate)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "1.log"))
	require.Eventually(t, func() bool { return s.written.Load() > before }, time.Minute, time.Millisecond)
	go func() {
		<-z.done
		s.stand.Store(nil)
		close(gate)
	}()
	z.close() // while it is written
	left, err := s.List("")
	require.NoError(t, err)
	require.Equal(t, []string{"1.log"}, left)
	z = newZeroedLogs(s, "", spareBytes)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "2.log"))
	z.close()
}

// A disk without room for a spare log has room for a log, and keeps no part of the spare.
func TestDiskWithoutASpareLogStillCommits(t *testing.T) {
	var full atomic.Bool
	s := newSpares()
	s.FS = errorfs.Wrap(s.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, spareName) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	z := newZeroedLogs(s, "", spareBytes)
	full.Store(true)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "1.log"))
	z.making.Wait()
	require.Zero(t, s.logBytes(t, z, "2.log"))
	z.close()
	z = newZeroedLogs(s, "", spareBytes)
	require.Zero(t, s.logBytes(t, z, "3.log"), "nor does it keep a start")
	z.close()
	left, err := s.List("")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"1.log", "2.log", "3.log"}, left)
}

// A missing spare log is replaced.
func TestASpareLogMayBeRemoved(t *testing.T) {
	s := newSpares()
	z := newZeroedLogs(s, "", spareBytes)
	require.NoError(t, s.Remove(z.spare()))
	require.Zero(t, s.logBytes(t, z, "1.log"))
	require.Eventually(t, z.isReady, time.Minute, time.Millisecond)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "2.log"))
	z.close()
}

// A backup may be on another disk, so the spare log is not renamed into it.
func TestABackupDoesNotTakeTheSpareLog(t *testing.T) {
	s := newSpares()
	r := newRig(t, s, func(o *Options) { o.logBytes = spareBytes })
	z := r.e.store.logs
	z.making.Wait()
	before := s.written.Load()
	require.NoError(t, r.e.Checkpoint("backup"))
	z.making.Wait()
	require.Equal(t, before, s.written.Load(), "no other was needed")
	require.True(t, z.isReady())
}
