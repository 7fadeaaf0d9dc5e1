package authorizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblegate/damagetest"
)

// afterDamage opens the store on a damaged disk and counts the answers that it does not repeat. The
// error is a refusal, by the start or by a fatal error of Pebble. After a fatal error the goroutine
// never returns.
func (a *acknowledged) afterDamage(fs vfs.FS) (lost int, err error) {
	fatal, done := make(chan error, 8), make(chan error, 1)
	r := &rig{fs: fs, clock: newClock()}
	o := r.options(func(o *Options) { o.Fatal = func(err error) { fatal <- err } })
	go func() {
		e, err := Open(o)
		if err != nil {
			done <- err
			return
		}
		for _, told := range a.told {
			got := e.Submit(told.message)
			if got.Reason == hold.ReasonSystemUnavailable {
				err = fmt.Errorf("%s: %s", told.message.ID, got.Reason)
				break
			}
			if got != told.answer {
				lost++
			}
		}
		if err == nil {
			err = a.reservationsAfterDamage(e, &lost)
		}
		if closed := e.Close(); err == nil {
			err = closed
		}
		done <- err
	}()
	select {
	case err = <-fatal:
		return 0, err
	case err = <-done:
		return lost, err
	}
}

func (a *acknowledged) reservationsAfterDamage(e *Engine, lost *int) error {
	missing := len(a.reserved)
	known := make(map[ident.UUID]bool, missing)
	for _, id := range a.reserved {
		known[id] = true
	}
	err := e.WalkReservations(func(_, id ident.UUID, _ money.Cents) error {
		if known[id] {
			missing--
		}
		return nil
	})
	*lost += missing
	return err
}

// damagedStores returns the disks of an authorizer under swipes: young, with tables, and while a
// table is written.
func damagedStores(t *testing.T, random *rand.Rand) []damagetest.Disk {
	fs := vfs.NewCrashableMem()
	r := newRig(t, fs)
	var a acknowledged
	var older *vfs.MemFS
	var disks []damagetest.Disk
	image := func(name string, unsynced int) {
		time.Sleep(time.Second) // until the log has noted its end: before, damage there looks like a crash
		synctest.Wait()
		had := a.so()
		disks = append(disks, damagetest.Disk{Name: name, Dir: "store", Older: older,
			FS:   fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: random}),
			Open: func(fs *vfs.MemFS) (int, error) { return had.afterDamage(fs) }})
	}
	swipes := func(kind string) {
		for i := range 24 {
			m := authorization(fmt.Sprint(kind, i), cardOf(200, 0), 1)
			a.answer(m, r.e.Submit(m))
		}
	}
	older = fs.CrashClone(vfs.CrashCloneCfg{})
	a.load(r, 24)
	image("young", 100)
	require.NoError(t, r.e.store.projector.projectAll())
	older = fs.CrashClone(vfs.CrashCloneCfg{})
	swipes("flushed")
	require.NoError(t, r.e.store.projector.projectAll())
	require.NoError(t, r.e.store.db.Compact(t.Context(), []byte("a"), []byte("z"), false))
	swipes("compacted")
	image("old", 50)
	return disks
}

// Damage at single places of a store's files either loses no answer, or ends the start or the
// process.
func TestAttackDamageToAnAuthorizerIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 7))
	var all damagetest.Outcome
	var disks []damagetest.Disk
	synctest.Test(t, func(t *testing.T) { disks = damagedStores(t, random) })
	for _, disk := range disks {
		o := damagetest.Sweep(t, disk, damagetest.Places(150, 2_000), random)
		t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
		all.Add(o)
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}
