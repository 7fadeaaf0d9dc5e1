package authorizer

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// A projection behind deletions in Pebble's memtable is durable before the log frees its records: a
// crash loses nothing, and a checkpoint has all.
func TestAProjectionIsDurableBeforeTheLogIsFreed(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var armed atomic.Bool
	var early atomic.Pointer[vfs.MemFS] // a crash at the flush of the deletions, once the projection is written
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		flush := op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") &&
			!strings.Contains(op.Path, "projection")
		if flush && armed.CompareAndSwap(true, false) {
			early.Store(disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	}))
	short := func(o *Options) { o.SegmentBytes = 8 << 10 }
	r := newRig(t, fs, short)
	c := cardOf(5, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	require.NoError(t, r.e.store.projector.projectAll())
	require.NoError(t, r.e.shards[c.card.Shard()].forgetDue(dueHold{at: 1, id: c.card}))
	const decisions = 200
	for i := range decisions {
		r.approved(authorization(fmt.Sprint(i), c, 1))
	}
	armed.Store(true)
	require.NoError(t, r.e.store.projector.projectAll())
	late := disk.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, r.e.Checkpoint("copy"))
	for _, store := range []struct {
		fs  vfs.FS
		dir string
	}{{early.Load(), "store"}, {late, "store"}, {disk, "copy"}} {
		require.NotNil(t, store.fs)
		o := (&rig{t: t, fs: store.fs, clock: r.clock}).options(short, func(o *Options) { o.Dir = store.dir })
		e, err := Open(o)
		require.NoError(t, err)
		require.EqualValues(t, decisions, e.Synced(c.card.Shard()))
		require.NoError(t, e.Close())
	}
}

// A shard whose entries are never relayed keeps them, and not those of other shards. No log has a
// gap.
func TestAShardThatIsNotRelayedKeepsItsOwnEntries(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	stuck, busy := cardOf(200, 1), cardOf(500, 1)
	for _, c := range []testCard{stuck, busy} {
		r.mint(c)
		r.deposit(c.workspace, 1_000_000)
	}
	const days, daily = 30, 10
	for day := range days {
		r.approved(authorization(fmt.Sprint("stuck", day), stuck, 1)) // in each chunk
		require.NoError(t, r.e.PassRelayed(stuck.card.Shard(), uint64(day+1)))
		for i := range daily {
			r.approved(authorization(fmt.Sprint(day, "/", i), busy, 1))
		}
		require.NoError(t, r.e.MarkRelayed(busy.card.Shard(), r.e.Synced(busy.card.Shard())))
		r.clock.advance(24 * time.Hour)
		require.NoError(t, r.e.Trim(r.clock.now()))
	}
	require.Len(t, r.log(stuck.card.Shard()), days)
	kept := r.log(busy.card.Shard())
	require.LessOrEqual(t, len(kept), 9*daily)
	for i, n := range kept {
		require.Equal(t, kept[0].Seq+uint64(i), n.Seq)
	}
	require.Equal(t, r.e.Synced(busy.card.Shard()), kept[len(kept)-1].Seq)
}

// fullRig is an engine whose projections fail while full says so, with answers due after a while.
func fullRig(t *testing.T, full func(name string) bool) (*rig, testCard) {
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "projection") && full(op.Path) {
			return syscall.ENOSPC
		}
		return nil
	}))
	r := newRig(t, fs, func(o *Options) { o.Deadline = nil })
	c := cardOf(5, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000)
	return r, c
}

// fillTable leaves no room for further changes in memory.
func (r *rig) fillTable() {
	for i := range maxUnprojected >> 20 {
		r.e.store.setLazily(fmt.Append([]byte{prefixRelayed}, i), make([]byte, 1<<20))
	}
}

// Without room a message is answered in time, and the engine still closes.
func TestAnEngineWithoutRoomAnswersAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		r, c := fullRig(t, func(string) bool { return full.Load() })
		full.Store(true)
		r.fillTable()
		require.Equal(t, hold.ReasonTimeout, r.submit(authorization("late", c, 1)).Reason)
		closed, e := make(chan error, 1), r.e
		r.e = nil // closed only once
		go func() { closed <- e.Close() }()
		select {
		case err := <-closed:
			require.NoError(t, err)
		case <-time.After(time.Minute): // simulated
			t.Fatal("the engine waits for room for ever")
		}
	})
}

// A projection that fails once is tried again, also when all changes are in it.
func TestAFailedProjectionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full, once atomic.Bool
		r, c := fullRig(t, func(string) bool { return full.Load() || once.CompareAndSwap(true, false) })
		full.Store(true)
		require.Error(t, r.e.store.projector.projectAll()) // a small generation
		r.fillTable()
		full.Store(false)
		p := r.e.store.projector
		p.running.Lock()
		require.NoError(t, p.projectFrozen())
		p.running.Unlock()
		once.Store(true) // the large one fails once
		p.askProjection()
		time.Sleep(time.Hour)
		require.Equal(t, hold.Approved, r.submit(authorization("again", c, 1)).Decision)
	})
}

// A repeat that waits for a decision whose sync fails gets no answer either.
func TestARepeatOfAFailedSyncIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall atomic.Bool
		fails := make(chan struct{})
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if stall.Load() && op.Kind == errorfs.OpFileSyncData {
				<-fails
				return errors.New("no sync")
			}
			return nil
		}))
		r := newRig(t, fs)
		c := cardOf(5, 1)
		r.mint(c)
		r.deposit(c.workspace, 1_000)
		time.Sleep(time.Hour) // the log has noted its length
		stall.Store(true)
		answers := make(chan hold.Answer, 2)
		for range 2 {
			go func() { answers <- r.e.Submit(authorization("x", c, 1)) }()
			synctest.Wait()
		}
		close(fails)
		require.Zero(t, (<-answers).Status)
		require.Zero(t, (<-answers).Status)
		require.NotZero(t, r.fatals.Load())
		_ = r.e.Close()
		r.e = nil
	})
}

// The rules of KeepStricter fit into records, however long their lists are.
func TestKeepStricterOfLongLists(t *testing.T) {
	earlier, r := newRig(t, vfs.NewMem()), newRig(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 0 })
	list := make([]string, 1000)
	for i := range list {
		list[i] = fmt.Sprintf("%0100d", i)
	}
	const cards = 30
	for n := range cards {
		c := cardOf(5, n)
		now, then := c.rule(1, hold.CardActive), c.rule(2, hold.CardActive)
		now.Merchants, then.Merchants = list, list
		r.follows(c.card.Shard(), Follow{Rules: []hold.Rule{now}})
		earlier.follows(c.card.Shard(), Follow{Rules: []hold.Rule{then}})
	}
	found, err := r.e.Rebuilder().KeepStricter(earlier.e, cards)
	require.NoError(t, err)
	require.Equal(t, cards, found.Changed)
}
