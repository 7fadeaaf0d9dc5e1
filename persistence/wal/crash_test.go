package wal

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// crash is a disk as a crash left it, with the promises that the log had made before.
type crash struct {
	fs             vfs.FS
	durable, freed uint64
}

// live runs a log through three starts, with several segments, idle times and a Free.
func live(r *rig) {
	for range 3 {
		r.open(uint64(len(r.records)))
		for range 5 {
			r.appendDurable(2, 3_000)
			synctest.Wait()
			r.append(3, 2_000)
			require.NoError(r.t, r.log.Wait(uint64(len(r.records))))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		r.free(uint64(len(r.records)) / 2)
		require.NoError(r.t, r.log.Close())
	}
}

// survives opens a disk after a crash, appends to it and opens it once more.
func (r *rig) survives(c crash) {
	again := r.after(c.fs)
	again.freed = c.freed
	again.open(c.durable)
	again.appendDurable(3, 1_000)
	require.NoError(r.t, again.log.Close())
	again.open(uint64(len(again.records)))
	require.NoError(r.t, again.log.Close())
}

// promised returns what the log of a rig has promised until now, before a disk of it is copied.
func (r *rig) promised() (c crash) {
	r.promise.set(func() {
		if c.freed = r.promise.freed; r.promise.log != nil {
			c.durable = r.promise.log.Durable()
		}
	})
	return c
}

// A log survives a crash at each write, sync, rename, creation and removal. Each sector and each
// name that is not synced is lost or kept at random.
func TestACrashAtEachStepLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(7, 8))
		var all []crash
		disk := newSectorDisk()
		r := newRig(t, disk)
		disk.afterEach(func() {
			for range 2 {
				c := r.promised()
				c.fs = disk.crash(t, random)
				all = append(all, c)
			}
		})
		live(r)
		require.Greater(t, len(all), 300)
		for _, c := range all {
			r.survives(c)
		}
	})
}

// A crash before each change of Pebble's own crashable file system loses nothing, with nothing, a
// part or all of the blocks that are not synced.
func TestACrashOfPebblesFileSystemLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(9, 10))
		var all []crash
		var mu sync.Mutex
		disk := vfs.NewCrashableMem()
		r := newRig(t, nil)
		r.fs = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				mu.Lock()
				defer mu.Unlock()
				c := r.promised()
				c.fs = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * (len(all) % 3), RNG: random})
				all = append(all, c)
			}
			return nil
		}))
		r.options.FS = r.fs
		live(r)
		require.Greater(t, len(all), 150)
		for _, c := range all {
			r.survives(c)
		}
	})
}

// Many starts in a row each end with a crash in the middle of a group of some pages, on files that
// were used before. No crash looks like damage, and no record of an earlier start comes back.
func TestTornGroupsOfManyStartsLoseNothing(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(11, 12))
			disk := newSectorDisk()
			r := newRig(t, disk, func(o *Options[uint64]) { o.NoSync = noSync })
			durable, lost := uint64(0), 0
			for range 60 {
				r.open(durable)
				had := r.promised()
				left := disk.crash(t, random)
				countdown := 1 + random.IntN(30)
				disk.afterEach(func() {
					if countdown--; countdown == 0 {
						had = r.promised()
						left = disk.crash(t, random)
					}
				})
				for range 6 {
					r.appendDurable(1, 500)
					r.append(1+r.random.IntN(4), 5_000)
					require.NoError(t, r.log.Wait(uint64(len(r.records))))
					if !noSync && r.random.IntN(4) == 0 {
						r.free(r.log.Durable() - min(r.log.Durable(), 20))
					}
				}
				require.NoError(t, r.log.Close())
				if durable = had.durable; noSync {
					durable = 0
				}
				before := len(r.records)
				disk, r = left, r.after(left)
				r.freed, r.promise.freed = had.freed, had.freed
				lost += before - r.recovered()
			}
			require.Positive(t, lost)
		})
	}
}

// recovered returns how many records the log has, without opening it for good.
func (r *rig) recovered() int {
	again := r.after(r.fs)
	last := 0
	l, err := Open(again.options, again.freed, func(number uint64, _ []byte) error {
		last = int(number)
		return nil
	})
	require.NoError(r.t, err)
	require.NoError(r.t, l.Close())
	return last
}

// Files that a crash left unfinished are removed, and unknown files stay.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	fs := vfs.NewMem()
	r := newRig(t, fs)
	r.open(0)
	r.appendDurable(3, 100)
	require.NoError(t, r.log.Close())
	writeFile(t, fs, "log/zeros.unfinished", []byte{1})
	writeFile(t, fs, "log/grows.unfinished", nil)
	writeFile(t, fs, "log/0000000000000009.spare", make([]byte, 100))
	writeFile(t, fs, "log/note.txt", nil)
	r.open(3)
	require.NoError(t, r.log.Close())
	names, err := fs.List("log")
	require.NoError(t, err)
	require.Contains(t, names, "note.txt")
	require.False(t, slices.ContainsFunc(names, func(n string) bool {
		return strings.HasSuffix(n, unfinishedSuffix) || strings.HasSuffix(n, spareSuffix)
	}), names)
}

// A segment's name that the process before left in the machine's memory alone is durable before the
// segment is used.
func TestANameOfTheProcessBeforeIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newSectorDisk()
		r := newRig(t, disk)
		r.open(0)
		time.Sleep(noteAfter / 2) // segment 2 is ready
		require.NoError(t, r.log.Close())
		delete(disk.syncedNames, r.log.segments.segmentPath(2))
		r.open(0)
		for r.current().segment < 2 {
			r.appendDurable(1, 3_000)
		}
		for seed := range uint64(10) {
			r.survives(crash{fs: disk.crash(t, rand.New(rand.NewPCG(1, seed))), durable: r.log.Durable()})
		}
		require.NoError(t, r.log.Close())
	})
}
