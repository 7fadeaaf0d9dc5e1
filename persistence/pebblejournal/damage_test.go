package pebblejournal_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/journaltest"
	"purser/persistence/pebblegate/damagetest"
	"purser/persistence/pebblejournal"
)

// afterDamage opens the journal on a damaged disk. It returns 1 when an acknowledged batch is
// missing. The error is a refusal, by the start, by a read or by a fatal error of Pebble.
func afterDamage(fs vfs.FS, load *journaltest.Load, told journaltest.Told) (lost int, err error) {
	var fatal atomic.Bool
	j, err := pebblejournal.Open(pebblejournal.Options{FS: fs, Dir: dir, CacheBytes: cacheBytes, SegmentBytes: segmentBytes,
		MustExist: true, Fatal: func(error) { fatal.Store(true) }})
	if err != nil {
		return 0, err
	}
	err = load.Verify(j, told)
	switch {
	case fatal.Load() || errors.Is(err, persistence.ErrUnavailable):
		return 0, errors.Join(err, errors.New("the journal has stopped"))
	case err != nil:
		return 1, j.Close()
	}
	return 0, j.Close()
}

// TestAttackDamageToAJournalIsRefused alters single places of a journal's files, young and with
// tables of earlier starts. Every acknowledged batch is there, or the damage ends the start or the
// process.
func TestAttackDamageToAJournalIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 7))
	var load journaltest.Load
	var disks []damagetest.Disk
	synctest.Test(t, func(t *testing.T) { disks = usedJournals(t, random, &load) })
	var all damagetest.Outcome
	for _, disk := range disks {
		o := damagetest.Sweep(t, disk, damagetest.Places(150, 2_000), random)
		t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
		all.Add(o)
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}

// usedJournals are the disks of a journal in use, of three starts.
func usedJournals(t *testing.T, random *rand.Rand, load *journaltest.Load) (disks []damagetest.Disk) {
	fs := vfs.NewCrashableMem()
	for _, name := range []string{"young", "of a second start", "of a third start"} {
		older := fs.CrashClone(vfs.CrashCloneCfg{})
		j, err := pebblejournal.Open(pebblejournal.Options{FS: fs, Dir: dir, CacheBytes: cacheBytes,
			SegmentBytes: segmentBytes})
		require.NoError(t, err)
		require.NoError(t, load.Use(j))
		for range 4 {
			require.NoError(t, load.Step())
		}
		time.Sleep(time.Second) // until the log has noted its end: before, damage there looks like a crash
		told := load.Told()
		disks = append(disks, damagetest.Disk{Name: name, Dir: dir, Older: older,
			FS:   fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random}),
			Open: func(fs *vfs.MemFS) (int, error) { return afterDamage(fs, load, told) }})
		require.NoError(t, j.Close())
	}
	return disks
}
