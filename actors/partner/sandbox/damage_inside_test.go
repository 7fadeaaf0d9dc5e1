package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/persistence/pebblegate/damagetest"
)

// acknowledgedSandbox lists the acknowledged orders and chains.
type acknowledgedSandbox struct{ orders, chains []string }

// afterDamage opens the store on a damaged disk and counts missing orders and chains. A fatal error
// of Pebble panics and counts as a refusal.
func (k acknowledgedSandbox) afterDamage(fs vfs.FS) (lost int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	s, err := OpenStore(fs, "sandbox")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, id := range k.orders {
		o, ok, err := (&orderStore{s.log, bankPrefix}).loadOrder(id)
		if err != nil {
			return 0, err
		}
		if !ok || o.Deposit.ID != id {
			lost++
		}
	}
	for _, name := range k.chains {
		known, err := s.loadChain(&Chain{name: name})
		if err != nil {
			return 0, err
		}
		if !known {
			lost++
		}
	}
	return lost, nil
}

// Single places of the store's files are altered. Afterwards all orders and chains are there, or
// opening fails, or the process ends.
func TestAttackDamageToTheSandboxIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 7))
	var disks []damagetest.Disk
	synctest.Test(t, func(t *testing.T) { disks = usedSandboxes(t, random) })
	var all damagetest.Outcome
	for _, disk := range disks {
		o := damagetest.Sweep(t, disk, damagetest.Places(150, 4_000), random)
		t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
		all.Add(o)
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}

// usedSandboxes are the disks of a store in use, of three starts.
func usedSandboxes(t *testing.T, random *rand.Rand) (disks []damagetest.Disk) {
	fs := vfs.NewCrashableMem()
	var k acknowledgedSandbox
	for _, name := range []string{"young", "of a second start", "of a third start"} {
		older := fs.CrashClone(vfs.CrashCloneCfg{})
		s, err := OpenStore(fs, "sandbox")
		require.NoError(t, err)
		bank := &orderStore{s.log, bankPrefix}
		for i := range 30 {
			o := order{Deposit: partner.Deposit{ID: fmt.Sprint(name, i)}, Due: time.Unix(int64(i), 0)}
			require.NoError(t, bank.saveOrder(nil, &o))
			k.orders = append(k.orders, o.Deposit.ID)
			require.NoError(t, s.saveAnchor(o.Deposit.ID, anchorBlock{}))
			k.chains = append(k.chains, o.Deposit.ID)
		}
		time.Sleep(time.Second) // until the log has noted its end: before, damage there looks like a crash
		had := k
		disks = append(disks, damagetest.Disk{Name: name, Dir: "sandbox", Older: older,
			FS:   fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random}),
			Open: func(fs *vfs.MemFS) (int, error) { return had.afterDamage(fs) }})
		require.NoError(t, s.Close())
	}
	return disks
}
