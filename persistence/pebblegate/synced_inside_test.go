package pebblegate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// newestLog returns the path and the number of the newest log of the store.
func newestLog(t *testing.T, fs vfs.FS) (path string, number uint64) {
	names, err := fs.List("store")
	require.NoError(t, err)
	for _, name := range names {
		if n, ok := logNumber(name); ok && n >= number {
			path, number = fs.PathJoin("store", name), n
		}
	}
	return path, number
}

// endingAt copies a disk and ends the newest log at a length, by zeros or by cutting the file off.
func endingAt(t *testing.T, disk *vfs.MemFS, length int64, cut bool) *vfs.MemFS {
	damaged := disk.CrashClone(vfs.CrashCloneCfg{})
	path, _ := newestLog(t, damaged)
	data, err := readFile(damaged, path, 1<<30)
	require.NoError(t, err)
	at := min(pageAt(length/pageBytes, 0), int64(len(data)))
	clear(data[at:])
	if cut {
		data = data[:at]
	}
	f, err := damaged.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	return damaged
}

// A log that ends before its synced length is refused by name, wherever it ends: both copies of its
// last pages are gone, and the rest of it is valid. A log without any of its records is refused
// too.
func TestALogThatLostItsEndIsRefused(t *testing.T) {
	disk := vfs.NewCrashableMem()
	o := func(fs vfs.FS) *pebble.Options {
		return &pebble.Options{FS: fs, EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}}
	}
	db, g, err := closed("store", o(disk))
	require.NoError(t, err)
	for n := range 400 {
		require.NoError(t, db.Set(fmt.Append(nil, n), make([]byte, 300), pebble.Sync))
	}
	_, number := newestLog(t, disk)
	end := g.notes.endOf(number)
	require.Greater(t, end, int64(400*300))
	unnoted := disk.CrashClone(vfs.CrashCloneCfg{})
	g.notes.save()
	for length := int64(0); length < end; length += pageBytes {
		for _, cut := range []bool{false, true} {
			_, err := Open("store", o(endingAt(t, disk, length, cut)))
			require.ErrorIs(t, err, ErrDamaged, "at %d of %d", length, end)
			require.ErrorContains(t, err, fmt.Sprintf("%06d.log", number))
		}
	}
	_, err = Open("store", o(endingAt(t, unnoted, 0, false)))
	require.ErrorIs(t, err, ErrDamaged, "a listed log has records")
	open := func(fs vfs.FS) {
		whole, err := Open("store", o(fs))
		require.NoError(t, err)
		for n := range 400 {
			_, closer, err := whole.Get(fmt.Append(nil, n))
			require.NoError(t, err)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, whole.Close())
	}
	open(disk.CrashClone(vfs.CrashCloneCfg{}))
	require.NoError(t, db.Close())
	open(disk.CrashClone(vfs.CrashCloneCfg{}))
}

// A sync is noted without a further one, in an idle store and in a busy one.
func TestEachSyncIsNoted(t *testing.T) {
	disk := vfs.NewCrashableMem()
	db, err := Open("store", &pebble.Options{FS: disk})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, db.Set([]byte("key"), make([]byte, 9_000), pebble.Sync))
		path, number := newestLog(t, disk)
		f, err := disk.Open(path)
		require.NoError(t, err)
		_, end, err := recoverLog(path, f, number)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Eventually(t, func() bool {
			found := newSyncedLogs(disk.CrashClone(vfs.CrashCloneCfg{}), "store")
			return found.load(false) == nil && found.endOf(number) == end
		}, time.Minute, time.Millisecond)
	}
	require.NoError(t, db.Close())
}

// BenchmarkNotedCommit makes synced commits of a swipe's length in two stores in turn, one with
// notes and one without, and reports what the median commit takes more beside the notes.
func BenchmarkNotedCommit(b *testing.B) {
	var stores [2]*pebble.DB
	for i := range stores {
		db, g, err := closed(b.TempDir(), &pebble.Options{})
		require.NoError(b, err)
		if stores[i] = db; i == 1 {
			g.granting.Go(func() { g.notes.run(g.done) })
		}
		b.Cleanup(func() { require.NoError(b, db.Close()) })
	}
	record, turn := make([]byte, 800), 64
	var took [2][]time.Duration
	for b.Loop() {
		for i, db := range stores {
			for n := range turn {
				began := time.Now()
				require.NoError(b, db.Set([]byte{byte(n)}, record, pebble.Sync))
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds())
		b.ReportMetric(float64(took[i][len(took[i])*99/100].Microseconds()), []string{"µs-p99-plain", "µs-p99-noted"}[i])
	}
	b.ReportMetric(median[0], "µs-plain")
	b.ReportMetric(median[1], "µs-noted")
	b.ReportMetric(median[1]/median[0], "ratio")
}
