package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/card"
	"purser/actors/ident"
	"purser/authorizer/hold"
	"purser/persistence"
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

// The relay of a shard goes no further than what all of its workspaces have taken, and what one has not is sent again.
func TestTheRelayDoesNotPassWhatAWorkspaceHasNotTaken(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	defer w.stop()
	first, second := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(first, 100_000)
	w.deposit(second, 100_000)
	stuck, free := w.mint(first, 90_000, 1_000), w.mint(second, 90_000, 1_000)
	journal := &refusing{Journal: w.journal, workspace: first}
	journal.on.Store(true)
	w.startAgain(func(c *actors.Config) { c.Journal = journal })
	w.submit(message(hold.Clearing, "stuck", stuck, 10))
	w.submit(message(hold.Clearing, "free", free, 10))
	require.Eventually(t, func() bool { return journal.refused.Load() >= 2 && w.usd(second) == 99_990 }, comesWithin,
		lookEvery)
	require.Zero(t, w.engine.Relayed(slotOf(first).Shard()))
	require.EqualValues(t, 100_000, w.usd(first))
	journal.on.Store(false)
	require.EqualValues(t, 99_990, w.balance(first).Snapshot.FiatUsdCents)
	w.requireClean()
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
