package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
)

// A store belongs to the deployment that claims it first, also after a restart.
func TestAStoreOfAnotherDeploymentIsRefused(t *testing.T) {
	ours := ident.Derive(0, time.UnixMilli(1), "ours")
	theirs := ident.Derive(0, time.UnixMilli(1), "theirs")
	fs := vfs.NewMem()
	claim := func(deployment ident.UUID) error {
		store := openStore(t, fs)
		defer func() { require.NoError(t, store.Close()) }()
		return store.Claim(deployment)
	}
	require.NoError(t, claim(ours))
	require.NoError(t, claim(ours))
	require.ErrorIs(t, claim(theirs), sandbox.ErrForeign)
	require.NoError(t, claim(ours), "a refused claim changes nothing")
}

// partners are all partners of a store.
type partners struct {
	store  *sandbox.Store
	bank   *sandbox.Bank
	ramp   *sandbox.Ramp
	chains *sandbox.Chains
}

func (d *reportServer) openPartners(t *testing.T, fs vfs.FS) partners {
	t.Helper()
	s := openStore(t, fs)
	chains, err := sandbox.NewChains(sandbox.ChainsConfig{Store: s, Chain: map[string]int{"base": 2}, Final: delay,
		Clock: d.clock})
	require.NoError(t, err)
	return partners{s, d.bankOf(t, s), d.rampOf(t, s), chains}
}

func (p partners) step(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, one := range []stepper{p.bank, p.ramp} {
		_, err := one.Step(ctx)
		require.NoError(t, err)
	}
}

// The machine loses power after orders to all partners were acknowledged, and again after reports
// whose acceptance was not stored. The reports are then sent again with the same event ids, the
// payment on the chain is where it was, and no partner has another's order.
func TestAllPartnersSurviveAPowerLoss(t *testing.T) {
	d, fs := newReportServer(), vfs.NewCrashableMem()
	p := d.openPartners(t, fs)
	paidOut := payout(t, p.bank, 1, 5_000)
	require.NoError(t, p.bank.Expect(t.Context(), deposit(1, 5_000)))
	require.NoError(t, p.bank.Pay(t.Context(), paidOut))
	require.NoError(t, p.ramp.Link(t.Context(), "ramp_1", rampWorkspace))
	ordered := rampOrder(1, "onramp", 10_000)
	require.NoError(t, p.ramp.Order(t.Context(), ordered))
	_, err := p.chains.Chain("base").Pay(t.Context(), "one", "0xpayer", sandbox.ChainPayment{Asset: "USDC", Address: "a",
		Amount: "5"})
	require.NoError(t, err)
	d.advance(delay)
	onChain := paid(t, p.chains.Chain("base"), "a")
	require.Len(t, onChain, 1)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, p.store.Close())

	p = d.openPartners(t, crashed)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.step(ended, t)
	again := crashed.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, p.store.Close())

	p = d.openPartners(t, again)
	defer func() { require.NoError(t, p.store.Close()) }()
	p.step(t.Context(), t)
	reports := d.receivedReports()
	require.Len(t, reports, 6)
	require.ElementsMatch(t, reports[:3], reports[3:])
	found := paid(t, p.chains.Chain("base"), "a")
	require.Equal(t, onChain[0].BlockHash, found[0].BlockHash)
	orders, err := p.bank.Orders()
	require.NoError(t, err)
	require.Equal(t, map[string]int{paidOut.Reference: 1}, orders)
	orders, err = p.ramp.Orders()
	require.NoError(t, err)
	require.Equal(t, map[string]int{ordered.ID: 1}, orders)
	_, err = p.bank.Standing(t.Context(), ordered.ID)
	require.ErrorIs(t, err, partner.ErrUnknown)
}
