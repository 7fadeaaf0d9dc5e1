package pebblelog_test

import (
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
	"purser/persistence/pebblelog"
	"purser/persistence/wal"
)

// files returns the names in the store's directory that end so.
func files(t *testing.T, fs vfs.FS, suffix string) []string {
	names, err := fs.List("store")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, suffix) })
	slices.Sort(names)
	return names
}

// whole opens the store and finds everything in it.
func whole(t *testing.T, fs vfs.FS, want map[string]string) {
	t.Helper()
	store, err := open(fs, "store")
	require.NoError(t, err)
	lost, err := missing(store.DB, want)
	require.NoError(t, errors.Join(err, store.Close()))
	require.Zero(t, lost)
}

// A backup of a program that kept its changes in Pebble's log has plain logs. It is taken over
// with every value, and none of them comes back over a later one.
func TestABackupWithLogsOfPebbleIsTakenOver(t *testing.T) {
	for _, format := range []pebble.FormatMajorVersion{pebble.FormatMinSupported, pebblegate.Format} {
		disk, written := vfs.NewCrashableMem(), map[string]string{}
		db, err := pebble.Open("store", &pebble.Options{FS: disk, Logger: quiet{}, FormatMajorVersion: format})
		require.NoError(t, err)
		for i := range 200 {
			written[fmt.Sprint(i)] = strings.Repeat("old", 50)
			require.NoError(t, db.Set([]byte(fmt.Sprint(i)), []byte(written[fmt.Sprint(i)]), pebble.Sync))
			if i == 100 {
				require.NoError(t, db.Flush())
			}
		}
		require.NoError(t, db.Checkpoint("backup"))
		require.NoError(t, db.Close())
		for i := range 3 {
			store, err := open(disk, "backup")
			require.NoError(t, err)
			lost, err := missing(store.DB, written)
			require.NoError(t, err)
			require.Zero(t, lost)
			for _, key := range []string{"199", "0"} {
				written[key] = fmt.Sprint("new", i)
				require.NoError(t, store.Set([]byte(key), []byte(written[key])))
			}
			require.NoError(t, errors.Join(store.DB.Flush(), store.Close()))
		}
	}
}

// A missing file is refused, or nothing acknowledged was in it. No start makes a new store in its
// place.
func TestAMissingFileIsRefused(t *testing.T) {
	s := newLiveStore(t, 4)
	s.write(20)
	require.NoError(t, s.store.DB.Flush())
	s.write(20)
	left := s.disk.CrashClone(vfs.CrashCloneCfg{})
	names := slices.Concat(files(t, left, ".wal"), files(t, left, ".sst"), files(t, left, "INTEGRITY"))
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
		store, err := open(damaged, "store")
		if err != nil {
			refused++
			continue
		}
		lost, err := missing(store.DB, s.written)
		require.NoError(t, errors.Join(err, store.Close()))
		require.Zero(t, lost, name)
	}
	require.GreaterOrEqual(t, refused, 5)
	require.NoError(t, s.store.Close())
}

// crash is a disk as a crash leaves it, and how many batches were durable before it.
type crash struct {
	fs      *vfs.MemFS
	durable uint64
}

// crasher keeps a crash of each third write of a disk, with some of the unsynced blocks.
type crasher struct {
	disk    *vfs.MemFS
	durable atomic.Uint64

	mu      sync.Mutex
	random  *rand.Rand
	crashes []crash
}

func (c *crasher) fs() vfs.FS {
	return errorfs.Wrap(c.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.random.IntN(3) == 0 {
			durable := c.durable.Load()
			cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: c.random.IntN(3) * 50, RNG: c.random}
			c.crashes = append(c.crashes, crash{c.disk.CrashClone(cfg), durable})
		}
		return nil
	}))
}

// apply applies batch n: two values of up to twice the length of a record of the log.
func apply(t *testing.T, s *pebblelog.Store, n uint64, random *rand.Rand) (number uint64) {
	t.Helper()
	value := make([]byte, 1+random.IntN(4)*segmentBytes/3)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	b := s.DB.NewBatch()
	require.NoError(t, b.Set(binary.BigEndian.AppendUint64([]byte("a"), n), value, nil))
	require.NoError(t, b.Set(binary.BigEndian.AppendUint64([]byte("b"), n), value, nil))
	number, err := s.Apply(b)
	require.NoError(t, errors.Join(err, b.Close()))
	return number
}

// prefix returns how many batches of apply a store has, and fails the test when one is in part or
// before a missing one.
func prefix(t *testing.T, s *pebblelog.Store) (n uint64) {
	t.Helper()
	var keys [2][]uint64
	for i, table := range []string{"a", "b"} {
		it, err := s.DB.NewIter(&pebble.IterOptions{LowerBound: []byte(table), UpperBound: []byte{table[0] + 1}})
		require.NoError(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			keys[i] = append(keys[i], binary.BigEndian.Uint64(it.Key()[1:]))
		}
		require.NoError(t, it.Close())
	}
	require.Equal(t, keys[0], keys[1], "a batch is there in part")
	for i, key := range keys[0] {
		require.Equal(t, uint64(i), key, "a batch is missing before others")
	}
	return uint64(len(keys[0]))
}

// A store is crashed at its writes, while batches are written and flushed without a wait for the
// log and with one. Every start has each durable batch and whole ones only, in their order. So
// has a start that follows more batches.
func TestCrashesAtEveryWriteLoseNothing(t *testing.T) {
	c := &crasher{disk: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(6, 6))}
	random, n := rand.New(rand.NewPCG(8, 8)), uint64(0)
	for range 2 {
		s, err := open(c.fs(), "store")
		require.NoError(t, err)
		require.Equal(t, n, prefix(t, s))
		for range 12 {
			number := apply(t, s, n, random)
			n++
			switch random.IntN(3) {
			case 0:
				require.NoError(t, s.DB.Flush())
				c.durable.Store(n)
			case 1:
				require.NoError(t, s.Wait(number))
				c.durable.Store(n)
			}
		}
		require.NoError(t, s.Close())
		c.durable.Store(n)
	}
	c.mu.Lock()
	crashes := c.crashes
	c.mu.Unlock()
	require.Greater(t, len(crashes), 30)
	for i, c := range crashes {
		s, err := open(c.fs, "store")
		require.NoError(t, err, "crash %d", i)
		n := prefix(t, s)
		require.GreaterOrEqual(t, n, c.durable, "crash %d", i)
		require.NoError(t, s.Wait(apply(t, s, n, random)))
		again := c.fs.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, s.Close())
		s, err = open(again, "store")
		require.NoError(t, err, "crash %d", i)
		require.Equal(t, n+1, prefix(t, s), "crash %d", i)
		require.NoError(t, s.Close())
	}
}

// A checkpoint of a store under writes is a store with an empty log, and has everything
// acknowledged before it.
func TestACheckpointOpens(t *testing.T) {
	s := newLiveStore(t, 7)
	s.write(30)
	require.NoError(t, s.store.Checkpoint("copy"))
	for range 2 {
		store, err := open(s.disk, "copy")
		require.NoError(t, err)
		lost, err := missing(store.DB, s.written)
		require.NoError(t, errors.Join(err, store.Close()))
		require.Zero(t, lost)
	}
	require.NoError(t, s.store.Close())
}

// A store opens after any number of crashes, also when nothing was written between them: the
// integrity file does not list the manifests of all earlier starts.
func TestAStoreOpensAfterAnyNumberOfCrashes(t *testing.T) {
	s := newLiveStore(t, 5)
	s.write(3)
	disk := s.disk.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, s.store.Close())
	for n := range 40 {
		store, err := open(disk, "store")
		require.NoError(t, err, "after %d crashes", n)
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: s.random})
		require.NoError(t, store.Close())
		disk = crashed
	}
	whole(t, disk, s.written)
}

func TestAStartOnAFullDiskIsRefusedByDirectoryAndBytes(t *testing.T) {
	s := newLiveStore(t, 5)
	s.write(200)
	disk := s.disk.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, s.store.Close())
	needed := int64(1<<20) + wal.FileBytes(disk, "store")
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(needed - 1), TotalBytes: 1 << 30})
	_, err := open(disk, "store")
	require.ErrorIs(t, err, pebblegate.ErrNoRoom)
	require.ErrorContains(t, err, "the disk of store has ")
	require.ErrorContains(t, err, " free; a start needs "+pebblegate.FormatNeed(needed))
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(needed), TotalBytes: 1 << 30})
	whole(t, disk, s.written)
}

// A copy that is made after a crash amid a batch of several records opens: its log begins behind
// the last batch that is whole.
func TestACopyAfterATornBatchOpens(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var cutting atomic.Bool
	var mu sync.Mutex
	var images []*vfs.MemFS
	s, err := open(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if cutting.Load() && op.Kind == errorfs.OpFileSyncData {
			mu.Lock()
			defer mu.Unlock()
			images = append(images, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})), "store")
	require.NoError(t, err)
	require.NoError(t, s.Set([]byte("key"), []byte("value")))
	cutting.Store(true)
	require.NoError(t, s.Set([]byte("big"), make([]byte, 5*segmentBytes)))
	cutting.Store(false)
	require.NoError(t, s.Close())
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, len(images), 2)
	for _, image := range images {
		s, err := open(image, "store")
		require.NoError(t, err)
		require.NoError(t, errors.Join(s.Checkpoint("copy"), s.Close()))
		s, err = open(image, "copy")
		require.NoError(t, err)
		lost, err := missing(s.DB, map[string]string{"key": "value"})
		require.NoError(t, errors.Join(err, s.Close()))
		require.Zero(t, lost)
	}
}

// A store whose first start was cut before its first flush is refused without its log, too.
func TestAMissingLogIsRefusedAfterACutFirstStart(t *testing.T) {
	disk, tables := vfs.NewCrashableMem(), 0
	var image *vfs.MemFS
	s, err := open(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			if tables++; tables == 2 { // the flush of the first record
				image = disk.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		return nil
	})), "store")
	require.NoError(t, errors.Join(err, s.Close()))
	s, err = open(image, "store")
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.Set([]byte("key"), []byte("value")), s.Close()))
	for _, name := range files(t, image, ".wal") {
		require.NoError(t, image.Remove("store/"+name))
	}
	_, err = open(image, "store")
	require.ErrorIs(t, err, pebblegate.ErrDamaged)
}
