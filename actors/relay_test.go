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
	"purser/actors/processes"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

// refusingJournal is a journal that refuses the batches of one workspace while refuses is set.
type refusingJournal struct {
	persistence.Journal
	workspace string
	refuses   atomic.Bool
	refusals  atomic.Int64
}

func (r *refusingJournal) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) ([]persistence.Outcome, error) {
	outcomes := make([]persistence.Outcome, len(group))
	for i, b := range group {
		if b.Workspace == r.workspace && r.refuses.Load() {
			r.refusals.Add(1)
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

// TestARefusedWorkspaceDoesNotStopItsShard: a workspace whose entries are refused is set aside. The
// entries of the shard's other workspace reach the journal, and the server stays ready. A start
// sends the refused entries again, and RetrySetAside sends them in order.
func TestARefusedWorkspaceDoesNotStopItsShard(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	first, second := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(first, 100_000)
	w.deposit(second, 100_000)
	refused, free := w.mintCard(first, 90_000, 1_000), w.mintCard(second, 90_000, 1_000)
	journal := &refusingJournal{Journal: w.journal, workspace: first}
	journal.refuses.Store(true)
	never := func(c *actors.Config) { c.Journal, c.AsideEvery = journal, 24*time.Hour }
	w.restartActors(never)
	clear := func(name string, card testCard) { w.submit(networkMessage(hold.Clearing, name, card, 10)) }
	clear("refused", refused)
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 1 }, eventuallyWithin, pollEvery)
	for i := range 700 {
		clear(fmt.Sprint("free", i), free)
	}
	clear("refused again", refused)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 100_000-700*10, w.ledgerCents(second))
	require.EqualValues(t, 100_000, w.ledgerCents(first))
	require.NoError(t, w.system.Ready())
	require.Zero(t, w.engine.Backlog())
	require.Zero(t, w.engine.Relayed(slotOf(first).Shard()), "the log keeps the entries")
	h, err := w.system.Health()
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 2}, [2]int64{h.SetAside, h.SetAsideEntries})
	w.requireCleanAudit()

	w.restartActors(never)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.Equal(t, first, w.system.SetAside()[0].Workspace)
	require.ErrorContains(t, w.system.RetrySetAside(t.Context(), first), "refused")
	journal.refuses.Store(false)
	require.NoError(t, w.system.RetrySetAside(t.Context(), ""))
	require.Empty(t, w.system.SetAside())
	require.EqualValues(t, 99_980, w.ledgerCents(first))
	require.EqualValues(t, 702, w.engine.Relayed(slotOf(first).Shard()))
	clear("afterwards", refused)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_970, w.ledgerCents(first))
	w.requireCleanAudit()
}

// TestAWorkspaceThatIsSetAsideIsRetried: the workspace rejoins the relay by itself once its entries
// are accepted.
func TestAWorkspaceThatIsSetAsideIsRetried(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	c := w.mintCard(ws, 90_000, 1_000)
	journal := &refusingJournal{Journal: w.journal, workspace: ws}
	journal.refuses.Store(true)
	w.restartActors(func(c *actors.Config) { c.Journal, c.AsideEvery = journal, time.Millisecond })
	w.submit(networkMessage(hold.Clearing, "refused", c, 10))
	require.Eventually(t, func() bool { return journal.refusals.Load() > 3 }, eventuallyWithin, pollEvery)
	require.Len(t, w.system.SetAside(), 1)
	journal.refuses.Store(false)
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 0 }, eventuallyWithin, pollEvery)
	require.EqualValues(t, 99_990, w.settledBalance(ws).Snapshot.FiatUsdCents)
	w.requireCleanAudit()
}

// panickingBalance is a balance that panics on relayed entries of panicWorkspace.
type panickingBalance struct{ balance.State }

func (p *panickingBalance) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if _, relay := command.(balance.Relay); relay && p.Workspace == panicWorkspace.Load() {
		panic("a bug of this test")
	}
	return p.State.Decide(m, command)
}

var panicWorkspace atomic.Value

// TestABrokenBalanceDoesNotStopItsShard: a balance that panics on its entries, or whose record does
// not decode, is set aside like one that refuses them.
func TestABrokenBalanceDoesNotStopItsShard(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	panics, garbled, whole := w.newWorkspace(9), w.newWorkspace(9), w.newWorkspace(9)
	var cards []testCard
	for _, ws := range []string{panics, garbled, whole} {
		w.deposit(ws, 100_000)
		cards = append(cards, w.mintCard(ws, 90_000, 1_000))
	}
	panicWorkspace.Store(panics)
	w.restartActors(func(c *actors.Config) {
		c.Journal = &garblingJournal{Journal: w.journal, id: garbled}
		c.Kinds = processes.Kinds()
		for i := range c.Kinds {
			if c.Kinds[i].Name == "balance" {
				c.Kinds[i].New = func() actors.State { return new(panickingBalance) }
			}
		}
	})
	for i, c := range cards {
		w.submit(networkMessage(hold.Clearing, fmt.Sprint("clearing", i), c, 10))
	}
	require.Eventually(t, func() bool { return len(w.system.SetAside()) == 2 }, eventuallyWithin, pollEvery)
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_990, w.ledgerCents(whole))
	w.restartActors(func(*actors.Config) {})
	require.NoError(t, w.system.RelayAll(t.Context()))
	require.EqualValues(t, 99_990, w.ledgerCents(panics))
	require.EqualValues(t, 99_990, w.ledgerCents(garbled))
	w.requireCleanAudit()
}

// garblingJournal is a journal that returns an undecodable state for one balance.
type garblingJournal struct {
	persistence.Journal
	id string
}

func (g *garblingJournal) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	r, err := g.Journal.Record(ctx, slot, kind, id)
	if kind == "balance" && id == g.id {
		r.Document = json.RawMessage(`{"usdCents":"none"}`)
	}
	return r, err
}

// TestAReadEndsTheRelayPause: a read that waits for a decision ends the relay's pause.
func TestAReadEndsTheRelayPause(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	c := w.mintCard(ws, 90_000, 90_000)
	w.restartActors(func(c *actors.Config) { c.RelayEvery, c.RelayedWithin = 24*time.Hour, eventuallyWithin })
	for i := range 5 {
		w.submit(networkMessage(hold.Clearing, fmt.Sprint("n", i), c, 10))
		w.system.WaitRelayed(t.Context(), ws)
		require.EqualValues(t, 100_000-10*(i+1), w.ledgerCents(ws))
	}
}

// TestPendingDecisionsAreTheRecordsToCome: what the journal lacks of a card reads as the records
// that its relay stores.
func TestPendingDecisionsAreTheRecordsToCome(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	w.deposit(ws, 100_000)
	c, other := w.mintCard(ws, 90_000, 90_000), w.mintCard(ws, 90_000, 90_000)
	w.restartActors(func(c *actors.Config) { c.RelayEvery, c.RelayedWithin = 24*time.Hour, eventuallyWithin })
	w.submit(networkMessage(hold.Authorization, "first", c, 10))
	w.system.WaitRelayed(t.Context(), ws) // the relay now pauses until it is asked
	w.submit(networkMessage(hold.Authorization, "second", c, 20))
	w.submit(networkMessage(hold.Authorization, "other", other, 30))
	w.submit(networkMessage(hold.Clearing, "posted", c, 40))
	pending, ok := w.system.PendingOfCard(c.id)
	require.True(t, ok)
	require.Len(t, pending, 2)
	w.system.WaitRelayed(t.Context(), ws)
	none, ok := w.system.PendingOfCard(c.id)
	require.True(t, ok)
	require.Empty(t, none)
	for _, p := range pending {
		require.True(t, p.Created)
		stored, err := w.system.Record(t.Context(), balance.RecordAuthorization, ws, p.Authorization.ID)
		require.NoError(t, err)
		encoded, err := decision.Encode(*p.Authorization)
		require.NoError(t, err)
		require.Equal(t, string(stored.Document), string(encoded))
	}
	stored, err := w.system.Record(t.Context(), balance.RecordCardSpend, ws, c.id)
	require.NoError(t, err)
	encoded, err := decision.Encode(pending[1].Spend)
	require.NoError(t, err)
	require.Equal(t, string(stored.Document), string(encoded))
}

// TestAllowlistsAreTheSameInBothStores: the audit compares allowlists in the authorizer's stored
// form.
func TestAllowlistsAreTheSameInBothStores(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(9)
	c := w.mintCard(ws, 90_000, 1_000)
	mccs, merchants := []string{"0742", "5411"}, []string{"Corner  Shop", "plain", "ÉCOLE*"}
	w.mustAsk("card", c.id, ws, card.Update{AllowedMccs: card.OptionalList{Set: true, Value: &mccs},
		AllowedMerchants: card.OptionalList{Set: true, Value: &merchants}})
	w.requireCleanAudit()
	none := []string{}
	w.mustAsk("card", c.id, ws, card.Update{AllowedMccs: card.OptionalList{Set: true, Value: &none},
		AllowedMerchants: card.OptionalList{Set: true}})
	w.requireCleanAudit()
}
