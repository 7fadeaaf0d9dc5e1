package sandbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

// manualClock is a clock that a test advances.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (w *manualClock) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *manualClock) advance(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(by)
}

// storedChains are chains with their store.
type storedChains struct {
	*sandbox.Chains
	*sandbox.Store
}

func (w *manualClock) openChains(t *testing.T, fs vfs.FS, final time.Duration) (storedChains, *sandbox.Chain) {
	t.Helper()
	s := openStore(t, fs)
	all, err := sandbox.NewChains(sandbox.ChainsConfig{Store: s, Chain: map[string]int{"ethereum": 12, "bitcoin": 2},
		Final: final, Clock: w.clock})
	require.NoError(t, err)
	return storedChains{all, s}, all.Chain("ethereum")
}

func head(t *testing.T, c *sandbox.Chain) partner.Head {
	t.Helper()
	h, err := c.Head(t.Context())
	require.NoError(t, err)
	return h
}

func paid(t *testing.T, c *sandbox.Chain, to ...string) []partner.Observation {
	t.Helper()
	found, err := c.Transfers(t.Context(), 1, 1<<40, to)
	require.NoError(t, err)
	return found
}

func TestBlocksFollowTheClock(t *testing.T) {
	w := &manualClock{now: time.UnixMilli(1_700_000_000_000).UTC()}
	all, c := w.openChains(t, vfs.NewMem(), 12*time.Second)
	defer func() { require.NoError(t, all.Close()) }()
	require.Nil(t, all.Chain("dogecoin"))
	require.Equal(t, uint64(1), head(t, c).Number)
	w.advance(10 * time.Second)
	h := head(t, c)
	require.Equal(t, uint64(11), h.Number)
	require.Equal(t, w.now, h.At)
	b, err := c.Block(t.Context(), 11)
	require.NoError(t, err)
	require.Equal(t, h, b)
	for _, none := range []uint64{0, 12} {
		_, err := c.Block(t.Context(), none)
		require.ErrorIs(t, err, partner.ErrNoBlock)
	}
	w.advance(-5 * time.Second)
	require.Equal(t, uint64(6), head(t, c).Number, "a clock turned back takes blocks away")
}

func TestOneTransactionOfTwoTransfersIsInTheNextBlock(t *testing.T) {
	w := &manualClock{now: time.UnixMilli(1_700_000_000_000).UTC()}
	all, c := w.openChains(t, vfs.NewMem(), 12*time.Second)
	defer func() { require.NoError(t, all.Close()) }()
	tx, err := c.Pay(t.Context(), "one", "0xpayer", sandbox.ChainPayment{Asset: "USDC", Address: "a", Amount: "5"},
		sandbox.ChainPayment{Asset: "USDC.e", Address: "b", Amount: "7"})
	require.NoError(t, err)
	require.Empty(t, paid(t, c, "a", "b"))
	w.advance(time.Second)
	require.Len(t, paid(t, c, "a"), 1)
	found := paid(t, c, "b", "a")
	require.Len(t, found, 2)
	require.Equal(t, []any{tx, 0, "5", tx, 1, "7"}, []any{found[0].TxHash, found[0].Index, found[0].Amount,
		found[1].TxHash, found[1].Index, found[1].Amount})
	again, err := c.Pay(t.Context(), "one", "0xpayer", sandbox.ChainPayment{Asset: "USDC", Address: "a", Amount: "9"})
	require.NoError(t, err)
	require.Equal(t, tx, again, "the same reference is the same transaction")
	w.advance(time.Minute)
	require.Len(t, paid(t, c, "a"), 1)
	_, err = c.Pay(t.Context(), "two", "0xpayer")
	require.Error(t, err)
}

func TestAReorganisationMovesOrDropsTransfers(t *testing.T) {
	w := &manualClock{now: time.UnixMilli(1_700_000_000_000).UTC()}
	all, c := w.openChains(t, vfs.NewMem(), 12*time.Second)
	defer func() { require.NoError(t, all.Close()) }()
	kept, err := c.Pay(t.Context(), "kept", "", sandbox.ChainPayment{Asset: "USDC", Address: "a", Amount: "5"})
	require.NoError(t, err)
	lost, err := c.Pay(t.Context(), "lost", "", sandbox.ChainPayment{Asset: "USDC", Address: "b", Amount: "5"})
	require.NoError(t, err)
	w.advance(3 * time.Second)
	before, second := paid(t, c, "a")[0], head(t, c)
	require.ErrorIs(t, c.Reorganise(t.Context(), 3, "0xnothing"), sandbox.ErrNoTransfer)
	require.Error(t, c.Reorganise(t.Context(), 5))
	require.NoError(t, c.Reorganise(t.Context(), 3, lost))
	require.Empty(t, paid(t, c, "a", "b"))
	require.NotEqual(t, second.Hash, head(t, c).Hash)
	b, err := c.Block(t.Context(), before.Block)
	require.NoError(t, err)
	require.NotEqual(t, before.BlockHash, b.Hash)
	w.advance(time.Second)
	found := paid(t, c, "a", "b")
	require.Len(t, found, 1)
	require.Equal(t, kept, found[0].TxHash)
	require.NotEqual(t, before.BlockHash, found[0].BlockHash)
	first, err := c.Block(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, c.Reorganise(t.Context(), 1))
	unmoved, err := c.Block(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, first, unmoved)
}

// Acknowledged blocks, forks and transfers survive a power loss. With another block time, blocks
// continue from the newest.
func TestChainsSurviveAPowerLoss(t *testing.T) {
	w, fs := &manualClock{now: time.UnixMilli(1_700_000_000_000).UTC()}, vfs.NewCrashableMem()
	all, c := w.openChains(t, fs, 12*time.Second)
	_, err := c.Pay(t.Context(), "one", "0xpayer", sandbox.ChainPayment{Asset: "USDC", Address: "a", Amount: "5"})
	require.NoError(t, err)
	w.advance(5 * time.Second)
	require.NoError(t, c.Reorganise(t.Context(), 2))
	newest, found := head(t, c), paid(t, c, "a")
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, all.Close())

	all, c = w.openChains(t, crashed, 12*time.Second)
	require.Equal(t, newest, head(t, c))
	require.Equal(t, found[0].At.UnixNano(), paid(t, c, "a")[0].At.UnixNano())
	found[0].At = paid(t, c, "a")[0].At
	require.Equal(t, found, paid(t, c, "a"))
	require.NoError(t, all.Close())

	all, c = w.openChains(t, crashed, 120*time.Second)
	defer func() { require.NoError(t, all.Close()) }()
	require.Equal(t, newest.Number, head(t, c).Number)
	w.advance(10 * time.Second)
	require.Equal(t, newest.Number+1, head(t, c).Number)
	_, err = sandbox.NewChains(sandbox.ChainsConfig{})
	require.Error(t, err)
}
