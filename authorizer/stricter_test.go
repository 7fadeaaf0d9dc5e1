package authorizer

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// stricterCards is more cards than one commit of KeepStricter holds.
const stricterCards = stricterBatch + 100

// storeOfCards makes a store whose cards have a version and a state.
func storeOfCards(t *testing.T, fs vfs.FS, cards int, version uint64, state hold.CardState) *rig {
	r := newRig(t, fs)
	rules := make([]hold.Rule, cards)
	for i := range rules {
		rules[i] = cardOf(60, i+1).rule(version, state)
	}
	r.follows(cardOf(60, 1).card.Shard(), Follow{Rules: rules})
	return r
}

// frozenCards counts the frozen cards of a store.
func frozenCards(t *testing.T, e *Engine) (frozen int) {
	view := e.Snapshot()
	require.NoError(t, view.WalkCards(func(rule *hold.Rule) error {
		if rule.State == hold.CardFrozen {
			frozen++
		}
		return nil
	}))
	require.NoError(t, view.Close())
	return frozen
}

// The stricter rules are written in bounded commits. A power loss between two of them leaves a
// part, and a second call writes the others.
func TestKeepStricterIsInterrupted(t *testing.T) {
	earlier := storeOfCards(t, vfs.NewMem(), stricterCards+1, 2, hold.CardFrozen)
	disk := vfs.NewCrashableMem()
	r := storeOfCards(t, disk, stricterCards, 1, hold.CardActive)
	var mu sync.Mutex
	var clones []*vfs.MemFS
	crashing := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	r.reopen(func(o *Options) { o.FS = errorfs.Wrap(disk, crashing) })
	found, err := r.e.Rebuilder().KeepStricter(earlier.e, 3)
	require.NoError(t, err)
	require.Len(t, found.Cards, 3)
	require.Equal(t, stricterCards, found.Changed)
	require.Equal(t, 1, found.Unknown)
	require.NoError(t, r.e.Close())

	seen := map[int]int{}
	for _, fs := range append(clones, disk.CrashClone(vfs.CrashCloneCfg{})) {
		r.fs = fs
		r.open()
		seen[frozenCards(t, r.e)]++
		again, err := r.e.Rebuilder().KeepStricter(earlier.e, 0)
		require.NoError(t, err)
		require.Equal(t, stricterCards, again.Changed)
		require.Equal(t, stricterCards, frozenCards(t, r.e))
		require.NoError(t, r.e.Close())
	}
	r.e = nil
	require.Contains(t, seen, 0)
	require.Contains(t, seen, stricterBatch)
	require.Contains(t, seen, stricterCards)
}
