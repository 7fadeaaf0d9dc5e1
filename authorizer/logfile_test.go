package authorizer

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

const spareBytes = sparePiece + 100

// spares is a file system that counts what is written to spare logs, and keeps the writers waiting while stand is there.
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

// logBytes makes a log as Pebble does, and returns how long it is then.
func (s *spares) logBytes(t *testing.T, z *zeroedLogs, name string) int64 {
	f, err := z.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return info.Size()
}

func (z *zeroedLogs) isReady() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.ready
}

// A commit that needs another log gets one of zeros at once, or, while none is ready, one that grows: it waits for neither.
func TestALogIsNotWaitedFor(t *testing.T) {
	s := newSpares()
	z, err := newZeroedLogs(s, "", spareBytes)
	require.NoError(t, err)
	for _, name := range []string{"1.log", "2.log"} {
		require.EqualValues(t, spareBytes, s.logBytes(t, z, name))
		require.Eventually(t, z.isReady, time.Minute, time.Millisecond)
	}
	gate := make(chan struct{})
	s.stand.Store(&gate)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "3.log"))
	require.Zero(t, s.logBytes(t, z, "4.log"), "the disk makes no spare now")
	s.stand.Store(nil)
	close(gate)
	require.Eventually(t, z.isReady, time.Minute, time.Millisecond)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "5.log"))
	require.Zero(t, s.logBytes(t, z, "MANIFEST"))
	z.close()
}

// What the last start made ready is used by the next; what it had not finished is not.
func TestASpareLogOutlivesAStart(t *testing.T) {
	s := newSpares()
	z, err := newZeroedLogs(s, "", spareBytes)
	require.NoError(t, err)
	z.close()
	before := s.written.Load()
	z, err = newZeroedLogs(s, "", spareBytes)
	require.NoError(t, err)
	require.Equal(t, before, s.written.Load())
	gate := make(chan struct{})
	s.stand.Store(&gate)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "1.log"))
	require.Eventually(t, func() bool { return s.written.Load() > before }, time.Minute, time.Millisecond)
	close(gate)
	z.close() // in the middle of it
	s.stand.Store(nil)
	z, err = newZeroedLogs(s, "", spareBytes)
	require.NoError(t, err)
	require.EqualValues(t, spareBytes, s.logBytes(t, z, "2.log"))
	z.close()
}

// A disk without room for a spare log has room for a log.
func TestADiskWithoutASpareLogGoesOn(t *testing.T) {
	s := newSpares()
	z, err := newZeroedLogs(s, "", spareBytes)
	require.NoError(t, err)
	full := &zeroedLogs{FS: errorfs.Wrap(s, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.Contains(op.Path, ".unfinished") {
			return errorfs.ErrInjected
		}
		return nil
	})), bytes: spareBytes, ready: true, done: make(chan struct{})}
	z.close()
	require.EqualValues(t, spareBytes, s.logBytes(t, full, "1.log"))
	full.making.Wait()
	require.Zero(t, s.logBytes(t, full, "2.log"))
	full.close()
}
