package watch_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/watch"
	"purser/actors/watch/watchtest"
)

// A node that was on a fork of its own, for up to 16 spans of blocks, hides no payment of the chain
// that it returns to: not of the fork's first block, and not after restarts on the fork and behind
// it. A watcher that starts at the moment of the return takes the cursor for the chain's. The
// blocks are read again from the fork on, so within one step for each span if it does not restart.
func TestALongForkHidesNoPayment(t *testing.T) {
	const span, lookBack, before = 26, 16, 500
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(before)
		chain := &watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: span}
		sink := &storedSink{watching: []watch.Address{{Address: "one", Since: history.Now()}}}
		w := watch.New(chain, sink)
		step := func() {
			require.NoError(rt, w.Step(t.Context()))
			if rapid.IntRange(0, 40).Draw(rt, "restart") == 0 {
				w = watch.New(chain, sink)
			}
		}
		grow := func(blocks int) {
			for mined := 0; mined < blocks; {
				for range rapid.IntRange(1, 2*span).Draw(rt, "blocks") {
					history.Mine(nil)
					mined++
				}
				step()
			}
		}
		grow(rapid.IntRange(0, 5*span).Draw(rt, "common"))
		common := len(history.Chain)
		grow(rapid.IntRange(1, (lookBack-4)*span).Draw(rt, "fork"))
		for range 1 + 64/span { // the watcher of now has settled a block of the fork
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		forked := len(history.Chain) - common
		history.Drop(forked)
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		for range forked {
			history.Mine(nil)
		}
		restart := rapid.IntRange(0, 4*lookBack).Draw(rt, "restart behind the fork")
		for n := range 2 * (lookBack + 4) {
			require.NoError(rt, w.Step(t.Context()))
			if n == restart {
				w = watch.New(chain, sink)
			}
		}
		require.Contains(rt, sink.standing, "1", "in block %d of %d", common+1, len(history.Chain))
		require.GreaterOrEqual(rt, sink.cursor+(lookBack+1)*span, uint64(common))
	})
}
