package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// newStackWithOldStore returns a stopped stack in which one store was restored to an older copy.
// meanwhile runs on the stack between the copy and the restore.
func newStackWithOldStore(t *testing.T, store string, meanwhile func(w *testStack, c testCard)) (*testStack, testCard) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000)
	c := w.mintCard(ws, 10_000, 10_000)
	w.requireCleanAudit()
	w.stop()
	copyDir(t, w.fs, store, "older")

	w.start()
	for i := range 20 {
		require.Equal(t, hold.Approved, w.submit(networkMessage(hold.Authorization, fmt.Sprint("s", i), c,
			100)).Decision)
	}
	w.requireCleanAudit()
	meanwhile(w, c)
	w.stop()
	require.NoError(t, w.fs.RemoveAll(store))
	copyDir(t, w.fs, "older", store)
	return w, c
}

// requireStartRefused requires that a start fails and names the command that repairs the stores.
func (w *testStack) requireStartRefused() {
	w.t.Helper()
	require.ErrorContains(w.t, w.tryStart(), "rebuild-authorizer")
	require.NoError(w.t, w.engine.Close())
	require.NoError(w.t, w.journal.Close())
}

// TestAJournalThatLostDecisionsGetsThemAgain restores an older journal: the relay sends the missing
// decisions again.
func TestAJournalThatLostDecisionsGetsThemAgain(t *testing.T) {
	w, c := newStackWithOldStore(t, "journal", func(*testStack, testCard) {})
	w.start()
	require.EqualValues(t, 2_000, w.settledBalance(c.ws).Balances[0].HeldCents)
	w.requireCleanAudit()
	w.stop()
}

// relayMarkLosingAuthorizer is an authorizer that loses its relay marks, as a crash may.
type relayMarkLosingAuthorizer struct{ *authorizer.Engine }

func (relayMarkLosingAuthorizer) MarkRelayed(ident.Shard, uint64) error { return nil }

// TestALostRelayMarkLeavesNoBacklog: after a restart the relay sends again every decision without a
// relay mark, so the backlog ends at zero.
func TestALostRelayMarkLeavesNoBacklog(t *testing.T) {
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	w.restartActors(func(c *actors.Config) { c.Authorizer = relayMarkLosingAuthorizer{w.engine} })
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000)
	c := w.mintCard(ws, 10_000, 10_000)
	w.submit(networkMessage(hold.Authorization, "s", c, 100))
	require.EqualValues(t, 100, w.settledBalance(ws).Balances[0].HeldCents)
	require.EqualValues(t, 1, w.engine.Backlog())

	w.restart()
	w.requireCleanAudit()
	require.Zero(t, w.engine.Backlog())
	w.stop()
}

// TestAJournalOlderThanTheTrimmedLogIsRefused: once the decision log is trimmed, an older journal
// cannot be completed, and the start says so.
func TestAJournalOlderThanTheTrimmedLogIsRefused(t *testing.T) {
	w, _ := newStackWithOldStore(t, "journal", func(w *testStack, _ testCard) {
		w.clock.turn(9 * 24 * time.Hour)
		require.NoError(t, w.engine.Trim(w.clock.now()))
	})
	w.requireStartRefused()
}

// TestAJournalOlderThanTheFollowedPositionIsRefused restores a journal that lacks a credit which
// the authorizer has applied.
func TestAJournalOlderThanTheFollowedPositionIsRefused(t *testing.T) {
	w, _ := newStackWithOldStore(t, "journal", func(w *testStack, c testCard) { w.deposit(c.ws, 500) })
	w.requireStartRefused()
}

// TestAJournalThatLostAnEventIsRefused restores a journal that lacks an event which the authorizer
// does not apply: a new workspace. It was answered before the end, or before a crash.
func TestAJournalThatLostAnEventIsRefused(t *testing.T) {
	for name, meanwhile := range map[string]func(*testStack, testCard){
		"end": func(w *testStack, _ testCard) { w.newWorkspace(22) },
		"crash": func(w *testStack, _ testCard) {
			before, err := w.engine.RequiredJournal()
			require.NoError(t, err)
			ws := w.newWorkspace(22)
			slot, err := ident.SlotOf(ws)
			require.NoError(t, err)
			shard := slot.Shard()
			require.Eventually(t, func() bool {
				after, err := w.engine.RequiredJournal()
				return err == nil && after[shard] > before[shard]
			}, time.Minute, time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newStackWithOldStore(t, "journal", meanwhile)
			w.requireStartRefused()
			require.NoError(t, w.fs.RemoveAll("authorizer"))
			require.NoError(t, w.rebuildAuthorizer())
			w.start()
			w.requireCleanAudit()
			w.stop()
		})
	}
}

// TestAnAuthorizerBehindTheJournalIsRefused restores an older authorizer, which would approve the
// same dollars twice.
func TestAnAuthorizerBehindTheJournalIsRefused(t *testing.T) {
	w, c := newStackWithOldStore(t, "authorizer", func(*testStack, testCard) {})
	w.requireStartRefused()
	require.NoError(t, w.fs.RemoveAll("authorizer"))
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	require.EqualValues(t, 8_000, w.availableCents(c.ws))
	w.requireCleanAudit()
	w.stop()
}

// TestRefusedStoresTakeNoShard: the start of a stale copy is refused before it fences the owner of
// the shards.
func TestRefusedStoresTakeNoShard(t *testing.T) {
	epochs := func(w *testStack) (all [ident.Shards]uint64) {
		for shard := range all {
			all[shard] = w.journal.Head(ident.Shard(shard)).Epoch
		}
		return all
	}
	var owned [ident.Shards]uint64
	w, _ := newStackWithOldStore(t, "authorizer", func(w *testStack, _ testCard) { owned = epochs(w) })
	require.ErrorContains(t, w.tryStart(), "rebuild-authorizer")
	require.Equal(t, owned, epochs(w))
	require.NoError(t, w.engine.Close())
	require.NoError(t, w.journal.Close())
}
