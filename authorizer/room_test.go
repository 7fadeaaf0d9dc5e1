package authorizer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

func TestWithLittleRoomOnlyFactsAreAccepted(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	first := authorization("a1", c, 100)
	r.approved(first)
	backlog := r.e.Backlog()

	r.e.SetRoom(RoomForFacts)
	r.declined(authorization("a2", c, 100), hold.ReasonSystemUnavailable)
	require.Equal(t, backlog, r.e.Backlog(), "a decline for want of room takes room")
	require.Equal(t, hold.Approved, r.e.Submit(first).Decision, "a repeat is answered from what is remembered")
	require.Equal(t, hold.StatusOK, r.e.Submit(clearing("c1", "a1", c, 60)).Status)
	require.Equal(t, hold.StatusOK, r.e.Submit(reversal("v1", "a1")).Status)

	r.e.SetRoom(RoomForNone)
	r.declined(authorization("a3", c, 100), hold.ReasonSystemUnavailable)
	require.Equal(t, hold.StatusFull, r.e.Submit(clearing("c2", "a1", c, 60)).Status)

	r.e.SetRoom(RoomForAll)
	r.approved(authorization("a2", c, 100)) // the decline was not stored
	require.Equal(t, hold.StatusOK, r.e.Submit(clearing("c2", "a1", c, 60)).Status)
}

// The disk fills at some write under swipes, before any measurement. The engine stops with the
// reason, and with room again has every answered decision.
//
// The swipes are too few to fill Pebble's first memtable of 256 KiB, so that no log is rotated after
// the first failed write. A rotation panics when it cannot close the log, with DB.mu unlocked, and a
// deferred Unlock of a commit then ends the whole test binary. The product ends there by its own.
func TestAttackFullDiskUnderCommits(t *testing.T) {
	const maxSwipes = 40 // per card
	for _, after := range []int64{1, 2, 7, 20} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			var writes atomic.Int64
			var armed atomic.Bool
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				isWrite := op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt ||
					op.Kind == errorfs.OpCreate
				if armed.Load() && isWrite && writes.Add(1) > after {
					return syscall.ENOSPC
				}
				return nil
			}))
			r := newRig(t, fs, func(o *Options) {
				o.Deadline = func() <-chan time.Time { return time.After(time.Second) }
			})
			c := make([]testCard, 4)
			for n := range c {
				c[n] = cardOf(ident.Slot(200+n*300), n)
				r.mint(c[n])
				r.deposit(c[n].workspace, 1_000_000_000)
			}
			var a acknowledged
			armed.Store(true)
			for n := range c {
				go func() {
					for i := 0; i < maxSwipes && r.fatals.Load() == 0; i++ {
						m := authorization(fmt.Sprint(n, "/", i), c[n], 100)
						a.answer(m, r.e.Submit(m))
					}
				}()
			}
			require.Eventually(t, func() bool { return r.fatals.Load() > 0 }, time.Minute, time.Millisecond)
			require.ErrorIs(t, *r.fatal.Load(), syscall.ENOSPC)
			answered := a.so()
			require.True(t, after < 20 || len(answered.told) > 0, "nothing was answered before the disk was full")
			exited := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})

			again := newRig(t, exited)
			for _, told := range answered.told {
				require.Equal(t, told.answer, again.e.Submit(told.message))
			}
			again.approved(authorization("later", c[0], 100))
		})
	}
}

// BenchmarkRoomOfASwipe measures the check of the room per message.
func BenchmarkRoomOfASwipe(b *testing.B) {
	r := newRig(b, vfs.NewMem())
	b.ReportAllocs()
	for b.Loop() {
		if r.e.room.lacksRoom(hold.Authorization) {
			b.Fatal("no room")
		}
	}
}
