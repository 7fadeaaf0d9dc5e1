package sandbox_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/persistence/ident"
)

// claimed is a bank, a ramp or the chains.
type claimed interface {
	ClaimStore(deployment ident.UUID) error
	Close() error
}

// A store belongs to the deployment that claims it first, also after a restart. A store of an
// earlier version has no owner, like a new one.
func TestAStoreOfAnotherDeploymentIsRefused(t *testing.T) {
	ours := ident.Derive(0, time.UnixMilli(1), "ours")
	theirs := ident.Derive(0, time.UnixMilli(1), "theirs")
	d := newReportServer()
	for name, open := range map[string]func(fs vfs.FS) (claimed, error){
		"bank": func(fs vfs.FS) (claimed, error) {
			return sandbox.NewBank(sandbox.Config{Dir: "store", FS: fs, Report: d.receiveReport,
				Clock: d.clock})
		},
		"ramp": func(fs vfs.FS) (claimed, error) {
			return sandbox.NewRamp(sandbox.Config{Dir: "store", FS: fs, Report: d.receiveReport,
				Clock: d.clock}, d.receiveReport)
		},
		"chains": func(fs vfs.FS) (claimed, error) {
			return sandbox.NewChains(sandbox.ChainsConfig{Dir: "store", FS: fs, Clock: d.clock,
				Chain: map[string]int{"bitcoin": 2}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			claim := func(deployment ident.UUID) error {
				store, err := open(fs)
				require.NoError(t, err)
				defer func() { require.NoError(t, store.Close()) }()
				return store.ClaimStore(deployment)
			}
			require.NoError(t, claim(ours))
			require.NoError(t, claim(ours))
			require.ErrorIs(t, claim(theirs), sandbox.ErrForeign)
			require.NoError(t, claim(ours), "a refused claim changes nothing")
		})
	}
}
