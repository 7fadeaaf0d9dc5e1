package pebblejournal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

const (
	rounds       = 3 // rounds of the workload: each opens the journal, so that logs are replayed, tables written and files rotated
	steps        = 3 // per round
	cacheBytes   = 1 << 20
	segmentBytes = 64 << 10

	// dir has parents that Open has to make, and make durable.
	dir = "data/of/journal"
)

// crash is the disk at one moment, with the batches that were answered before it.
type crash struct {
	at   string
	fs   *vfs.MemFS
	told journaltest.Told
}

// verify opens the journal that the crash left and holds it against the workload.
func (c crash) verify(load *journaltest.Load) error {
	j, err := pebblejournal.Open(pebblejournal.Options{FS: c.fs, Dir: dir, CacheBytes: cacheBytes,
		SegmentBytes: segmentBytes})
	if err != nil {
		return err
	}
	if err := load.Verify(j, c.told); err != nil {
		return fmt.Errorf("%s: %w", c.at, err)
	}
	return j.Close()
}

// runLoad works until the rounds are over or something fails. A fault, which may be nil, is spared when an existing store is
// opened.
func runLoad(load *journaltest.Load, o pebblejournal.Options, fault *faultAt) error {
	for round := range rounds {
		fault.spare(round > 0)
		j, err := pebblejournal.Open(o)
		fault.spare(false)
		if err != nil {
			return err
		}
		if err := load.Use(j); err != nil {
			return err
		}
		for range steps {
			if err := load.Step(); err != nil {
				return err
			}
		}
		if err := j.Close(); err != nil {
			return err
		}
	}
	return nil
}

// crashes runs the workload and takes what a crash would leave before every write: all that was synced, and of the rest the
// percentage. The last is from after the last answer, before the journal is closed. Between nothing and all it crashes in the
// writes of logs alone: Pebble relies on a file system that keeps the order of directory entries, which this one then does not.
func crashes(t *testing.T, load *journaltest.Load, noSync bool, unsynced int) []crash {
	t.Helper()
	disk := vfs.NewCrashableMem()
	var mu sync.Mutex
	var taken []crash
	rng := rand.New(rand.NewPCG(1, 2))
	take := func(at string) {
		mu.Lock()
		defer mu.Unlock()
		told := load.Told() // before the clone, which may lack later answers
		clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
		taken = append(taken, crash{at: fmt.Sprintf("crash %d before %s", len(taken), at), fs: clone, told: told})
	}
	watched := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		inLog := strings.HasSuffix(op.Path, ".wal") && op.Kind != errorfs.OpCreate
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && (unsynced == 0 || unsynced == 100 || inLog) {
			take(op.Path)
		}
		return nil
	}))
	o := pebblejournal.Options{FS: watched, Dir: dir, CacheBytes: cacheBytes, SegmentBytes: segmentBytes, NoSync: noSync}
	require.NoError(t, runLoad(load, o, nil))
	j, err := pebblejournal.Open(o)
	require.NoError(t, err)
	require.NoError(t, load.Use(j))
	require.NoError(t, load.Step())
	take("the end")
	require.NoError(t, j.Close())
	return taken
}

// TestCrash crashes at every write and after the last answer. Answered batches are there; the
// others are whole or absent.
func TestCrash(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("%d%% of the unsynced survives", unsynced), func(t *testing.T) {
			var load journaltest.Load
			taken := crashes(t, &load, false, unsynced)
			require.Greater(t, len(taken), rounds*steps)
			for _, c := range taken {
				require.NoError(t, c.verify(&load))
			}
		})
	}
}

// TestCrashFindsLoss is the test of TestCrash: the same workload without syncs must lose answered
// batches. Any crash may show it; one alone does not when Pebble happened to sync just before.
func TestCrashFindsLoss(t *testing.T) {
	var load journaltest.Load
	var errs []error
	for _, c := range crashes(t, &load, true, 0) {
		errs = append(errs, c.verify(&load))
	}
	require.ErrorContains(t, errors.Join(errs...), "lost")
}

// TestErrors fails the i-th operation of the file system, for every i, once alone and once with everything after it. Then the
// process is gone: the journal that failed is left as it is, and the disk is opened again.
func TestErrors(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		t.Run(fmt.Sprintf("sticky %t", sticky), func(t *testing.T) {
			failed, fatal := 0, 0
			for i := 0; ; i++ {
				done, died := failAt(t, i, sticky)
				if done {
					break
				}
				failed++
				if died {
					fatal++
				}
			}
			require.Greater(t, failed, 100)
			require.Greater(t, fatal, 10, "few errors reached a commit: the test does not reach what it is for")
		})
	}
}

// failAt runs the workload with the i-th operation failing. done: there was no i-th operation. died: Fatal was called.
func failAt(t *testing.T, i int, sticky bool) (done, died bool) {
	t.Helper()
	var load journaltest.Load
	disk := vfs.NewCrashableMem()
	fault := &faultAt{at: i, sticky: sticky}
	o := pebblejournal.Options{
		FS: errorfs.Wrap(disk, fault), Dir: dir, CacheBytes: cacheBytes, SegmentBytes: segmentBytes,
		Fatal: func(error) { fault.died() },
	}
	err := runLoad(&load, o, fault)
	died = fault.isDead()
	if !fault.reached() {
		require.NoError(t, err)
		return true, false
	}
	if died {
		require.Error(t, err, "operation %d: the journal failed and went on", i)
	}
	var left []crash
	for _, unsynced := range []int{0, 100} {
		left = append(left, crash{at: fmt.Sprintf("operation %d: %s", i, fault.what()), told: load.Told(),
			fs: disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 2))})})
	}
	fault.spare(true) // or the rest of the journal would retry on the broken disk for ever
	for _, c := range left {
		require.NoError(t, c.verify(&load))
	}
	return false, died
}

// faultAt injects an error at the i-th operation. Two things it spares, because Pebble then panics in a goroutine of its own,
// which ends the process as it should, and the test with it: the sync of the directory, and the opening of a store that has
// tables.
type faultAt struct {
	at     int
	sticky bool

	mu     sync.Mutex
	spared bool
	seen   int
	op     string
	dead   bool
}

func (f *faultAt) spare(spared bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spared = spared
}

func (f *faultAt) String() string { return "faultAt" }

func (f *faultAt) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spared || op.Kind == errorfs.OpFileSync && op.Path == dir {
		return nil
	}
	i := f.seen
	f.seen++
	if i < f.at || i > f.at && !f.sticky {
		return nil
	}
	if i == f.at {
		f.op = fmt.Sprintf("kind %d of %s", op.Kind, op.Path)
	}
	return errorfs.ErrInjected
}

func (f *faultAt) died() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

func (f *faultAt) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *faultAt) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen > f.at
}

func (f *faultAt) what() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.op
}
