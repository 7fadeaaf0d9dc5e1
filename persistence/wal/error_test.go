package wal

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// An error at any single I/O operation loses no durable record. A failed group fails all later
// ones, and nothing is written to a segment after it. The next start finds the log whole.
func TestAnErrorAtEachOperationLosesNothing(t *testing.T) {
	failed, refused, unharmed := 0, 0, 0
	for i := 0; ; i++ {
		reached := false
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			at, late := 0, 0
			var broken atomic.Bool
			disk := newSectorDisk()
			fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if broken.Load() && op.Kind == errorfs.OpFileWriteAt && op.Offset > 0 {
					late++
				}
				if at++; at-1 != i {
					return nil
				}
				reached = true
				return errorfs.ErrInjected
			}))
			r := newRig(t, fs)
			durable, err := uint64(0), error(nil)
			for range 2 {
				if err = r.tryOpen(durable); err != nil {
					break
				}
				durable, err = r.liveUntilError(&broken)
				if err != nil {
					break
				}
			}
			switch {
			case err == nil:
				unharmed++
			case r.log == nil || durable == 0:
				refused++
			default:
				failed++
			}
			if err != nil {
				require.ErrorIs(t, err, errorfs.ErrInjected)
				require.NotErrorIs(t, err, ErrDamaged)
			}
			require.Zero(t, late, "a write after the failure")
			r.survives(crash{fs: disk.crash(t, rand.New(rand.NewPCG(1, uint64(i)))), durable: durable, freed: r.freed})
		})
		if !reached {
			break
		}
	}
	require.Greater(t, failed, 20)
	require.Greater(t, refused, 10)
	require.Greater(t, unharmed, 10)
}

// liveUntilError appends, frees and closes until the log fails, and checks that the failure lasts.
func (r *rig) liveUntilError(broken *atomic.Bool) (durable uint64, failure error) {
	for n := range 20 {
		r.append(2, 2_000)
		number := uint64(len(r.records))
		err := r.log.Wait(number)
		if failure == nil && err != nil {
			broken.Store(true)
			failure = err
		}
		require.Equal(r.t, failure, err)
		if failure == nil {
			durable = number
		}
		synctest.Wait()
		if n == 10 {
			through := r.log.Durable() / 2
			r.freed = through
			r.promise.set(func() { r.promise.freed = through })
			if err := r.log.Free(through); err != nil {
				require.ErrorIs(r.t, err, errorfs.ErrInjected)
				require.NoError(r.t, r.log.Free(through))
			}
			time.Sleep(time.Minute)
		}
	}
	require.LessOrEqual(r.t, durable, r.log.Durable())
	err := r.log.Close()
	require.Equal(r.t, err, r.log.Close())
	if failure != nil {
		require.ErrorIs(r.t, err, failure)
	}
	return r.log.Durable(), errors.Join(failure, err)
}

// A process that starts after a failed sync finds the group in the machine's memory. It makes the
// group durable, although another sync of the same pages would write nothing.
func TestAGroupWhoseSyncFailedIsDurableOnceReplayed(t *testing.T) {
	for _, records := range []int{1, 3, 9} { // in the third case a seal fails too
		disk := newSectorDisk()
		var failing atomic.Bool
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing.Load() && op.Kind == errorfs.OpFileSyncData {
				disk.dropDirty()
				return errorfs.ErrInjected
			}
			return nil
		}))
		r := newRig(t, fs)
		r.open(0)
		r.appendDurable(records-1, 3_000)
		failing.Store(true)
		r.append(1, 3_000)
		require.ErrorIs(t, r.log.Wait(uint64(records)), errorfs.ErrInjected)
		require.ErrorIs(t, r.log.Close(), errorfs.ErrInjected)
		again := r.after(disk)
		again.open(uint64(records - 1))
		for seed := range uint64(10) {
			left := again.after(disk.crash(t, rand.New(rand.NewPCG(1, seed))))
			left.open(uint64(len(again.records)))
			require.NoError(t, left.log.Close())
		}
		require.NoError(t, again.log.Close())
	}
}

// dropDirty makes every unsynced sector one that a crash loses and a sync does not write, as Linux
// does after a failed sync.
func (d *sectorDisk) dropDirty() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.names {
		clear(n.versions)
	}
}
