package watch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/partner"
	"purser/actors/watch"
	"purser/actors/watch/watchtest"
)

// lyingChain is a chain whose node can claim, with a current time, that its head is a low block.
// Block 1 of the lie holds a transfer.
type lyingChain struct {
	*watchtest.Chain
	head uint64 // 0: the truth
	now  func() time.Time
}

func (c *lyingChain) block(n uint64) partner.Head {
	return partner.Head{Number: n, Hash: fmt.Sprint("lie ", n), At: c.now()}
}

// Head returns the claimed head.
func (c *lyingChain) Head(ctx context.Context) (partner.Head, error) {
	if c.head == 0 {
		return c.Chain.Head(ctx)
	}
	return c.block(c.head), nil
}

// Block returns a block of the lie.
func (c *lyingChain) Block(ctx context.Context, n uint64) (partner.Head, error) {
	switch {
	case c.head == 0:
		return c.Chain.Block(ctx, n)
	case n > c.head:
		return partner.Head{}, partner.ErrNoBlock
	}
	return c.block(n), nil
}

// Transfers returns the transfer of the lie.
func (c *lyingChain) Transfers(ctx context.Context, from, through uint64,
	to []string) ([]partner.Observation, error) {
	switch {
	case c.head == 0:
		return c.Chain.Transfers(ctx, from, through, to)
	case from > 1:
		return nil, nil
	}
	return []partner.Observation{{Chain: "ethereum", Asset: "USDC", Address: to[0], TxHash: "lie", Amount: "5", Block: 1,
		BlockHash: "lie 1", At: c.now()}}, nil
}

// storedSink is a PaymentSink whose content survives the watcher.
type storedSink struct {
	watching []watch.Address
	cursor   uint64
	saved    bool
	standing map[string]partner.Observation // by transaction
}

func (s *storedSink) Addresses(string) []watch.Address { return s.watching }

func (s *storedSink) Report(_ context.Context, o partner.Observation) error {
	if s.standing == nil {
		s.standing = make(map[string]partner.Observation)
	}
	if s.standing[o.TxHash] = o; o.Removed {
		delete(s.standing, o.TxHash)
	}
	return nil
}

func (s *storedSink) Unsettled(context.Context, string) (open []partner.Observation, _ error) {
	for _, o := range s.standing {
		if o.Confirmations < o.Threshold {
			open = append(open, o)
		}
	}
	return open, nil
}

func (s *storedSink) Cursor(context.Context, string) (uint64, bool, error) {
	return s.cursor, s.saved, nil
}

func (s *storedSink) SaveCursor(_ context.Context, _ string, block uint64) error {
	s.cursor, s.saved = block, true
	return nil
}

// A low head, for however long, moves no saved cursor. Each of its steps is a fault of the node.
// When the node is honest again, a payment is seen at once, after a restart too, and reports from
// false blocks that were not final are withdrawn.
func TestFalseLowHeadLeavesTheCursorAndDelaysNoPayment(t *testing.T) {
	const old, span, lookBack = 3_000, 26, 16
	rapid.Check(t, func(rt *rapid.T) {
		history := watchtest.NewHistory(old)
		chain := &lyingChain{Chain: &watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: span},
			now: history.Now}
		sink := &storedSink{watching: []watch.Address{{Address: "one", Since: history.Now()}}}
		w := watch.New(chain, sink)
		require.NoError(rt, w.Step(t.Context()))
		for range rapid.IntRange(0, 100).Draw(rt, "honest blocks") {
			history.Mine(nil)
			require.NoError(rt, w.Step(t.Context()))
		}
		before := sink.cursor
		for range rapid.IntRange(1, 3).Draw(rt, "lies") {
			chain.head = uint64(rapid.OneOf(rapid.IntRange(1, 2), rapid.IntRange(1, old-100)).Draw(rt, "false head"))
			for range rapid.IntRange(1, 30).Draw(rt, "steps of the lie") {
				faults := w.Progress().NodeFaults
				require.ErrorIs(rt, w.Step(t.Context()), watch.ErrNode)
				require.Equal(rt, faults+1, w.Progress().NodeFaults)
				if rapid.IntRange(0, 15).Draw(rt, "restart") == 0 {
					w = watch.New(chain, sink)
				}
			}
		}
		require.GreaterOrEqual(rt, sink.cursor, before)
		if rapid.Bool().Draw(rt, "restart after the lie") {
			w = watch.New(chain, sink)
		}
		chain.head = 0
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
		for range lookBack + 2 {
			require.NoError(rt, w.Step(t.Context()))
			require.GreaterOrEqual(rt, sink.cursor+lookBack*span, before)
		}
		require.Contains(rt, sink.standing, "1")
		history.Mine(nil)
		require.NoError(rt, w.Step(t.Context()))
		if o, standing := sink.standing["lie"]; standing {
			require.GreaterOrEqual(rt, o.Confirmations, o.Threshold, "what a node calls final stays")
		}
	})
}

// A false head just below the settled blocks, whose blocks were read, rewinds no further than any
// other lie.
func TestBlocksReadUnderAFalseHeadDeepenNoRewind(t *testing.T) {
	const old, low, span, lookBack = 3_000, 2_900, 26, 16
	history := watchtest.NewHistory(old)
	chain := &lyingChain{Chain: &watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: span},
		now: history.Now}
	sink := &storedSink{watching: []watch.Address{{Address: "one", Since: history.Now()}}}
	w := watch.New(chain, sink)
	require.NoError(t, w.Step(t.Context()))
	before := sink.cursor
	chain.head = low
	for range 12 {
		require.ErrorIs(t, w.Step(t.Context()), watch.ErrNode)
	}
	chain.head = 0
	for range lookBack + 2 {
		history.Mine(nil)
		require.NoError(t, w.Step(t.Context()))
		require.GreaterOrEqual(t, sink.cursor+lookBack*span, before)
	}
}

// Links that are newer than the newest block, as nearly always on bitcoin, do not keep a false
// cursor alive: one older link is enough. A restart finds payments made before it.
func TestNewLinksDoNotKeepAFalseCursor(t *testing.T) {
	const patience = 20
	history := watchtest.NewHistory(300)
	sink := &storedSink{cursor: 9_000_000, saved: true, watching: []watch.Address{{Address: "old",
		Since: history.Now()}}}
	chain := &watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: 26}
	for tx := 1; tx <= 3; tx++ {
		history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "old", Tx: tx, Amount: 5}})
		w := watch.New(chain, sink)
		for n := range patience {
			sink.watching = append(sink.watching, watch.Address{Address: fmt.Sprint(tx, "/", n),
				Since: history.Now().Add(time.Minute)})
			require.ErrorIs(t, w.Step(t.Context()), watch.ErrNode)
		}
		require.Contains(t, sink.standing, fmt.Sprint(tx))
	}
	require.EqualValues(t, 9_000_000, sink.cursor)
}

// ownChain is a chain that the process makes itself.
type ownChain struct{ *watchtest.Chain }

func (ownChain) IsLocal() bool { return true }

// A chain of the sandbox that began anew is followed, and its cursor with it.
func TestCursorFollowsALocalChainThatBeganAnew(t *testing.T) {
	const patience = 20
	history := watchtest.NewHistory(300)
	sink := &storedSink{cursor: 9_000_000, saved: true, watching: []watch.Address{{Address: "one",
		Since: history.Now()}}}
	w := watch.New(ownChain{&watchtest.Chain{Node: &watchtest.Node{History: history}, FinalDepth: 3, MaxSpan: 26}}, sink)
	history.Mine([]watchtest.Transfer{{Asset: "USDC", Address: "one", Tx: 1, Amount: 5}})
	for range patience {
		if err := w.Step(t.Context()); err != nil {
			require.ErrorIs(t, err, watch.ErrNode)
		}
	}
	require.NoError(t, w.Step(t.Context()))
	require.Contains(t, sink.standing, "1")
	require.Less(t, sink.cursor, uint64(len(history.Chain)))
}
