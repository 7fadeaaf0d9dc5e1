package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/persistence/pebblegate/damagetest"
)

// acknowledgedSandbox lists the acknowledged orders and chains.
type acknowledgedSandbox struct{ orders, chains []string }

// afterDamage opens the stores on a damaged disk and counts missing orders and chains. A fatal
// error of Pebble panics and counts as a refusal.
func (k acknowledgedSandbox) afterDamage(fs vfs.FS) (lost int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	s, err := openStore("bank", fs)
	if err != nil {
		return 0, err
	}
	for _, id := range k.orders {
		o, ok, err := s.loadOrder(id)
		if err != nil {
			return 0, errors.Join(err, s.close())
		}
		if !ok || o.Deposit.ID != id {
			lost++
		}
	}
	if err := s.close(); err != nil {
		return 0, err
	}
	chains, err := openChainStore("bank/chains", fs)
	if err != nil {
		return 0, err
	}
	for _, name := range k.chains {
		known, err := chains.loadChain(&Chain{name: name})
		if err != nil {
			return 0, errors.Join(err, chains.close())
		}
		if !known {
			lost++
		}
	}
	return lost, chains.close()
}

// Single places of the stores' files are altered. Afterwards all orders and chains are there, or
// opening fails, or the process ends.
func TestAttackDamageToTheSandboxIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 7))
	fs := vfs.NewCrashableMem()
	var k acknowledgedSandbox
	var all damagetest.Outcome
	for _, name := range []string{"young", "of a second start", "of a third start"} {
		older := fs.CrashClone(vfs.CrashCloneCfg{})
		s, err := openStore("bank", fs)
		require.NoError(t, err)
		chains, err := openChainStore("bank/chains", fs)
		require.NoError(t, err)
		for i := range 30 {
			o := order{Deposit: partner.Deposit{ID: fmt.Sprint(name, i)}, Due: time.Unix(int64(i), 0)}
			require.NoError(t, s.saveOrder(nil, &o))
			k.orders = append(k.orders, o.Deposit.ID)
			require.NoError(t, chains.saveAnchor(o.Deposit.ID, anchorBlock{}))
			k.chains = append(k.chains, o.Deposit.ID)
		}
		had := k
		for _, dir := range []string{"bank", "bank/chains"} {
			disk := damagetest.Disk{Name: dir + " " + name, Dir: dir, Older: older,
				FS:   fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random}),
				Open: func(fs *vfs.MemFS) (int, error) { return had.afterDamage(fs) }}
			o := damagetest.Sweep(t, disk, damagetest.Places(75, 2_000), random)
			t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
			all.Add(o)
		}
		require.NoError(t, errors.Join(s.close(), chains.close()))
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}
