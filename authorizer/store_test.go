package authorizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// The memtables bound the log that a start replays, so the store must have those of
// persistence/pebblegate.
func TestTheStoreIsOpenedThroughTheGate(t *testing.T) {
	fs := vfs.NewMem()
	newRig(t, fs)
	names, err := fs.List("store")
	require.NoError(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "OPTIONS-") })
	require.GreaterOrEqual(t, i, 0, names)
	f, err := fs.Open(fs.PathJoin("store", names[i]))
	require.NoError(t, err)
	defer f.Close()
	text := make([]byte, 64<<10)
	n, _ := f.ReadAt(text, 0)
	require.Contains(t, string(text[:n]), "mem_table_size=16777216\n")
	require.Contains(t, string(text[:n]), "mem_table_stop_writes_threshold=4\n")
}

func TestANewStoreOutlivesAPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := newRig(t, fs, func(o *Options) { o.Dir = "new/data/authorizer" })
	c := cardOf(5, 1)
	r.mint(c)
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	require.True(t, Exists(after, "new/data/authorizer"), "the directory is gone, and the rule in it")
}

// A start reads no card: only its own swipe finds a card that cannot be decoded, and likewise a
// hold, a spend and a repeat.
func TestAStartReadsNoCard(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	const cards, broken = 100, 50
	card := func(n int) testCard { return cardOf(ident.Slot(1+16*n), n) }
	for n := range cards {
		r.mint(card(n))
		r.deposit(card(n).workspace, 1_000)
	}
	damaged := card(broken)
	for _, key := range [][]byte{appendRuleKey(nil, &damaged.token), appendIDKey(nil, prefixHold, &damaged.card),
		appendIDKey(nil, prefixSpend, &damaged.card),
		appendRepeatKey(nil, bucketOf(epoch.UnixMilli()), &networkID{1})} {
		r.e.store.setLazily(key, []byte("?"))
	}
	r.reopen()
	for n := range cards {
		if m := authorization(fmt.Sprint(n), card(n), 1); n == broken {
			r.declined(m, hold.ReasonSystemUnavailable)
		} else {
			r.approved(m)
		}
	}
}

func TestLostRunsOfARebuildAreKept(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	found := []Lost{{First: 1, Last: 1}, {First: 7, Last: 9}}
	require.NoError(t, r.e.Rebuilder().NoteLost(4, found))
	require.NoError(t, r.e.Rebuilder().NoteLost(5, nil))
	r.reopen()
	for i := range found {
		found[i].At = epoch.UnixMilli()
	}
	kept, err := r.e.Rebuilder().Lost(4)
	require.NoError(t, err)
	require.Equal(t, found, kept)
	none, err := r.e.Rebuilder().Lost(5)
	require.NoError(t, err)
	require.Empty(t, none)
}
