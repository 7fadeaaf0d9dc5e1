package pebblegate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/pebblegate"
)

// files returns the names in the store's directory that end so.
func files(t *testing.T, fs vfs.FS, suffix string) []string {
	names, err := fs.List("store")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, suffix) })
	slices.Sort(names)
	return names
}

func content(t *testing.T, fs vfs.FS, name string) []byte {
	f, err := fs.Open(fs.PathJoin("store", name))
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	data := make([]byte, info.Size())
	_, err = f.ReadAt(data, 0)
	require.NoError(t, errors.Join(err, f.Close()))
	return data
}

func overwrite(t *testing.T, fs vfs.FS, name string, at int64, data []byte) {
	f, err := fs.OpenReadWrite(fs.PathJoin("store", name), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

// whole opens the store and finds everything in it.
func whole(t *testing.T, fs vfs.FS, want map[string]string) {
	t.Helper()
	db, err := pebblegate.Open("store", options(fs))
	require.NoError(t, err)
	lost, err := missing(db, want)
	require.NoError(t, errors.Join(err, db.Close()))
	require.Zero(t, lost)
}

// plainStore is a store of a program without a guard, after a crash: three sessions' worth of logs
// and tables.
func plainStore(t *testing.T, format pebble.FormatMajorVersion) (*vfs.MemFS, map[string]string) {
	disk, written := vfs.NewCrashableMem(), map[string]string{}
	var left *vfs.MemFS
	for session := range 3 {
		db, err := pebble.Open("store", &pebble.Options{FS: disk, Logger: quiet{}, FormatMajorVersion: format})
		require.NoError(t, err)
		for i := range 200 {
			key, value := fmt.Sprint(session, "/", i), strings.Repeat(fmt.Sprint(i), 50)
			require.NoError(t, db.Set([]byte(key), []byte(value), pebble.Sync))
			written[key] = value
		}
		left = disk.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, db.Close())
	}
	return left, written
}

// A store with plain logs, as a backup has them, is taken over with every value, and refused when a
// valid chunk follows an invalid one. Damage to the end of its log looks like a crash.
func TestAStoreWithPlainLogsIsTakenOver(t *testing.T) {
	for _, format := range []pebble.FormatMajorVersion{pebble.FormatMinSupported, pebblegate.Format} {
		left, written := plainStore(t, format)
		for range 3 {
			whole(t, left, written)
		}
		_, err := left.Stat("store/INTEGRITY")
		require.NoError(t, err)
	}
	left, written := plainStore(t, pebble.FormatMinSupported)
	logs := files(t, left, ".log")
	newest := logs[len(logs)-1]
	used := len(bytes.TrimRight(content(t, left, newest), "\x00"))
	for at := 0; at < used-2_000; at += 997 {
		damaged := left.CrashClone(vfs.CrashCloneCfg{})
		overwrite(t, damaged, newest, int64(at), []byte{content(t, left, newest)[at] ^ 4})
		_, err := pebblegate.Open("store", options(damaged))
		require.ErrorIs(t, err, pebblegate.ErrDamaged, "byte %d of %s", at, newest)
		require.ErrorContains(t, err, newest)
	}
	whole(t, left, written)
}

// A program that does not know mirrors refuses a store with mirrored logs, in which it would find
// no record.
func TestAnEarlierProgramRefusesMirroredLogs(t *testing.T) {
	s := newLiveStore(t, 3)
	s.write(20)
	for _, left := range []*vfs.MemFS{s.disk.CrashClone(vfs.CrashCloneCfg{}), func() *vfs.MemFS {
		require.NoError(t, s.db.Close())
		return s.disk.CrashClone(vfs.CrashCloneCfg{})
	}()} {
		_, err := pebble.Open("store", &pebble.Options{FS: left, Logger: quiet{}})
		require.ErrorContains(t, err, "corrupt log file")
		whole(t, left, s.written)
	}
}

// A missing file is refused, or nothing acknowledged was in it. No start makes a new store in its
// place.
func TestAMissingFileIsRefused(t *testing.T) {
	s := newLiveStore(t, 4)
	s.write(20)
	require.NoError(t, s.db.Flush())
	s.write(20)
	left := s.disk.CrashClone(vfs.CrashCloneCfg{})
	names := slices.Concat(files(t, left, ".log"), files(t, left, ".sst"), files(t, left, "INTEGRITY"))
	all, err := left.List("store")
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasPrefix(name, "MANIFEST") || strings.HasPrefix(name, "marker.manifest") {
			names = append(names, name)
		}
	}
	refused := 0
	for _, name := range names {
		damaged := left.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, damaged.Remove("store/"+name))
		db, err := pebblegate.Open("store", options(damaged))
		if err != nil {
			refused++
			continue
		}
		lost, err := missing(db, s.written)
		require.NoError(t, errors.Join(err, db.Close()))
		require.Zero(t, lost, name)
	}
	require.GreaterOrEqual(t, refused, 5)
	require.NoError(t, s.db.Close())
}

// Damage to the last acknowledged write is repaired by its second copy.
func TestTheLastWriteIsRepaired(t *testing.T) {
	s := newLiveStore(t, 5)
	s.write(50)
	left := s.disk.CrashClone(vfs.CrashCloneCfg{})
	log := files(t, left, ".log")[0]
	data := content(t, left, log)
	end := len(bytes.TrimRight(data, "\x00"))
	for back := range 40 {
		damaged := left.CrashClone(vfs.CrashCloneCfg{})
		at := end - 1 - back
		overwrite(t, damaged, log, int64(at), []byte{data[at] ^ 1})
		whole(t, damaged, s.written)
	}
	require.NoError(t, s.db.Close())
}

// TestCrashesAtEveryWriteStart crashes a store at its writes, with commits longer than a mirror
// among them. Every start succeeds and finds each acknowledged value.
func TestCrashesAtEveryWriteStart(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	disk := vfs.NewCrashableMem()
	type crash struct {
		fs           *vfs.MemFS
		acknowledged uint32
	}
	var crashes []crash
	var acknowledged atomic.Uint32
	var mu sync.Mutex
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && random.IntN(3) == 0 {
			had := acknowledged.Load()
			unsynced := 0
			if strings.HasSuffix(op.Path, ".log") && op.Kind != errorfs.OpCreate {
				unsynced = 50
			}
			cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: random}
			crashes = append(crashes, crash{disk.CrashClone(cfg), had})
		}
		return nil
	}))
	values := rand.New(rand.NewPCG(8, 8))
	for range 2 {
		db, err := pebblegate.Open("store", options(fs))
		require.NoError(t, err)
		for range 8 {
			n := acknowledged.Load()
			value := make([]byte, 1+values.IntN(3)*60_000)
			for i := range value {
				value[i] = byte(values.Uint32())
			}
			require.NoError(t, db.Set(binary.BigEndian.AppendUint32(nil, n), value, pebble.Sync))
			acknowledged.Store(n + 1)
		}
		require.NoError(t, db.Close())
	}
	require.Greater(t, len(crashes), 30)
	for i, c := range crashes {
		db, err := pebblegate.Open("store", options(c.fs))
		require.NoError(t, err, "crash %d", i)
		for n := range c.acknowledged {
			_, closer, err := db.Get(binary.BigEndian.AppendUint32(nil, n))
			require.NoError(t, err, "crash %d lost %d of %d", i, n, c.acknowledged)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, db.Close())
	}
}

// A checkpoint of a store under writes is a store without mirrors, and has everything acknowledged
// before it.
func TestACheckpointOpens(t *testing.T) {
	s := newLiveStore(t, 7)
	s.write(30)
	require.NoError(t, s.db.Checkpoint("copy", pebble.WithFlushedWAL()))
	for range 2 {
		db, err := pebblegate.Open("copy", options(s.disk))
		require.NoError(t, err)
		lost, err := missing(db, s.written)
		require.NoError(t, errors.Join(err, db.Close()))
		require.Zero(t, lost)
	}
	require.NoError(t, s.db.Close())
}

// A store opens after any number of crashes, also when nothing was written between them: the
// integrity file does not list the manifests of all earlier starts.
func TestAStoreOpensAfterAnyNumberOfCrashes(t *testing.T) {
	s := newLiveStore(t, 5)
	s.write(3)
	disk := s.disk.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, s.db.Close())
	for n := range 40 {
		db, err := pebblegate.Open("store", options(disk))
		require.NoError(t, err, "after %d crashes", n)
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: s.random})
		require.NoError(t, db.Close())
		disk = crashed
	}
	whole(t, disk, s.written)
}
