package pebblegate

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// BenchmarkMirroredSync writes records of a swipe's length to two zeroed files in turn, one as
// Pebble writes a log and one behind a mirror, and reports what the median sync takes more behind
// the mirror.
func BenchmarkMirroredSync(b *testing.B) {
	zeroed := func(name string) vfs.File {
		path := filepath.Join(b.TempDir(), name)
		f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
		require.NoError(b, err)
		_, err = f.Write(make([]byte, LogBytes))
		require.NoError(b, err)
		require.NoError(b, f.Sync())
		b.Cleanup(func() { require.NoError(b, f.Close()) })
		return f
	}
	plain := zeroed("plain")
	mirrored, err := newLogWriter(zeroed("mirrored"), 1, 0, func() error { return nil })
	require.NoError(b, err)
	mirrored.notes = newSyncedLogs(vfs.Default, b.TempDir())
	record := make([]byte, 800)
	var took [2][]time.Duration
	for at := int64(0); b.Loop(); at = (at + int64(len(record))) % MemTableSize {
		if at+int64(len(record)) > MemTableSize {
			mirrored.end.Store(0)
			mirrored.tail = mirrored.tail[:0]
		}
		began := time.Now()
		_, err := plain.WriteAt(record, at)
		require.NoError(b, err)
		require.NoError(b, plain.SyncData())
		took[0] = append(took[0], time.Since(began))
		began = time.Now()
		_, err = mirrored.Write(record)
		require.NoError(b, err)
		require.NoError(b, mirrored.SyncData())
		took[1] = append(took[1], time.Since(began))
	}
	for i := range took {
		slices.Sort(took[i])
	}
	median := func(of []time.Duration) float64 { return float64(of[len(of)/2].Microseconds()) }
	b.ReportMetric(median(took[0]), "µs-plain")
	b.ReportMetric(median(took[1]), "µs-mirrored")
	b.ReportMetric(median(took[1])/median(took[0]), "ratio")
}

// A write to a log allocates nothing.
func TestAMirroredWriteAllocatesNothing(t *testing.T) {
	f, err := vfs.Default.Create(filepath.Join(t.TempDir(), "log"), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	w, err := newLogWriter(f, 1, 0, func() error { return nil })
	require.NoError(t, err)
	w.notes = newSyncedLogs(vfs.Default, t.TempDir())
	record := make([]byte, 40_000)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := w.Write(record); err != nil {
			panic(err)
		}
	}))
	require.NoError(t, w.Close())
}
