package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

// refusing is a journal that refuses the batches of one workspace while it is told to.
type refusing struct {
	persistence.Journal
	workspace string
	on        atomic.Bool
	refused   atomic.Int64
}

func (r *refusing) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) ([]persistence.Outcome, error) {
	outcomes := make([]persistence.Outcome, len(group))
	for i, b := range group {
		if b.Workspace == r.workspace && r.on.Load() {
			r.refused.Add(1)
			outcomes[i].Err = errors.New("refused")
			continue
		}
		one, err := r.Journal.Append(ctx, shard, epoch, now, group[i:i+1])
		if err != nil {
			return nil, err
		}
		outcomes[i] = one[0]
	}
	return outcomes, nil
}

// A workspace whose entries are refused is set aside: the entries of another workspace of the shard
// reach the journal, the server stays ready, a start sends the refused entries again, and the
// repair brings them in order.
func TestARefusedWorkspaceDoesNotStopItsShard(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	first, second := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(first, 100_000)
	w.deposit(second, 100_000)
	refused, free := w.mint(first, 90_000, 1_000), w.mint(second, 90_000, 1_000)
	journal := &refusing{Journal: w.journal, workspace: first}
	journal.on.Store(true)
	never := func(c *actors.Config) { c.Journal, c.AsideEvery = journal, 24*time.Hour }
	w.startAgain(never)
	clear := func(name string, card plastic) { w.submit(message(hold.Clearing, name, card, 10)) }
	clear("refused", refused)
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 1 }, comesWithin, lookEvery)
	for i := range 700 {
		clear(fmt.Sprint("free", i), free)
	}
	clear("refused again", refused)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 100_000-700*10, w.usd(second))
	require.EqualValues(t, 100_000, w.usd(first))
	require.NoError(t, w.system.Ready())
	require.Zero(t, w.engine.Backlog())
	require.Zero(t, w.engine.Relayed(slotOf(first).Shard()), "the log keeps the entries")
	h, err := w.system.Health()
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 2}, [2]int64{h.SetAside, h.SetAsideEntries})
	w.requireClean()

	w.startAgain(never)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.Equal(t, first, w.system.SetAside()[0].Workspace)
	require.ErrorContains(t, w.system.RetrySetAside(t.Context(), first), "refused")
	journal.on.Store(false)
	require.NoError(t, w.system.RetrySetAside(t.Context(), ""))
	require.Empty(t, w.system.SetAside())
	require.EqualValues(t, 99_980, w.usd(first))
	require.EqualValues(t, 702, w.engine.Relayed(slotOf(first).Shard()))
	clear("afterwards", refused)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_970, w.usd(first))
	w.requireClean()
}

// A workspace that is set aside comes back by itself when its entries are taken again.
func TestAWorkspaceThatIsSetAsideIsRetried(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	c := w.mint(ws, 90_000, 1_000)
	journal := &refusing{Journal: w.journal, workspace: ws}
	journal.on.Store(true)
	w.startAgain(func(c *actors.Config) { c.Journal, c.AsideEvery = journal, time.Millisecond })
	w.submit(message(hold.Clearing, "refused", c, 10))
	require.Eventually(t, func() bool { return journal.refused.Load() > 3 }, comesWithin, lookEvery)
	require.Len(t, w.system.SetAside(), 1)
	journal.on.Store(false)
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 0 }, comesWithin, lookEvery)
	require.EqualValues(t, 99_990, w.balance(ws).Snapshot.FiatUsdCents)
	w.requireClean()
}

// panicking is a balance of one workspace whose relay panics.
type panicking struct{ balance.State }

func (p *panicking) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if _, relay := command.(balance.Relay); relay && p.Workspace == panicsFor.Load() {
		panic("a bug of this test")
	}
	return p.State.Decide(m, command)
}

var panicsFor atomic.Value

// A balance that panics on its entries, or whose record does not decode, is set aside like one that
// refuses them.
func TestABrokenBalanceDoesNotStopItsShard(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	panics, garbled, whole := w.newWorkspace(9), w.newWorkspace(9), w.newWorkspace(9)
	var cards []plastic
	for _, ws := range []string{panics, garbled, whole} {
		w.deposit(ws, 100_000)
		cards = append(cards, w.mint(ws, 90_000, 1_000))
	}
	panicsFor.Store(panics)
	w.startAgain(func(c *actors.Config) {
		c.Journal = &garbling{Journal: w.journal, id: garbled}
		c.Kinds = actors.Kinds()
		for i := range c.Kinds {
			if c.Kinds[i].Name == "balance" {
				c.Kinds[i].New = func() actors.State { return new(panicking) }
			}
		}
	})
	for i, c := range cards {
		w.submit(message(hold.Clearing, fmt.Sprint("clearing", i), c, 10))
	}
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 2 }, comesWithin, lookEvery)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_990, w.usd(whole))
	w.startAgain(func(*actors.Config) {})
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_990, w.usd(panics))
	require.EqualValues(t, 99_990, w.usd(garbled))
	w.requireClean()
}

// garbling is a journal that shows a balance's state as something else.
type garbling struct {
	persistence.Journal
	id string
}

func (g *garbling) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	r, err := g.Journal.Record(ctx, slot, kind, id)
	if kind == "balance" && id == g.id {
		r.Document = json.RawMessage(`{"usdCents":"none"}`)
	}
	return r, err
}

// What is decided while the relay rests is shown at once to who waits for it.
func TestAReadingEndsTheRelaysRest(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	c := w.mint(ws, 90_000, 90_000)
	w.startAgain(func(c *actors.Config) { c.RelayEvery, c.RelayedWithin = 24*time.Hour, comesWithin })
	for i := range 5 {
		w.submit(message(hold.Clearing, fmt.Sprint("n", i), c, 10))
		w.system.WaitRelayed(t.Context(), ws)
		require.EqualValues(t, 100_000-10*(i+1), w.usd(ws))
	}
}

// The audit reads an allowlist back from the form in which the authorizer keeps it.
func TestAllowlistsAreTheSameInBothStores(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	c := w.mint(ws, 90_000, 1_000)
	mccs, merchants := []string{"0742", "5411"}, []string{"Corner  Shop", "plain", "ÉCOLE*"}
	w.must("card", c.id, ws, card.Update{AllowedMccs: card.Optional{Set: true, Value: &mccs},
		AllowedMerchants: card.Optional{Set: true, Value: &merchants}})
	w.requireClean()
	none := []string{}
	w.must("card", c.id, ws, card.Update{AllowedMccs: card.Optional{Set: true, Value: &none},
		AllowedMerchants: card.Optional{Set: true}})
	w.requireClean()
}
