package actors_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblejournal"
)

// relayInterruptedAuthorizer is an authorizer whose relay dies after it has sent the entries of
// every workspace but one.
type relayInterruptedAuthorizer struct {
	*authorizer.Engine
	without ident.UUID
}

func (i *relayInterruptedAuthorizer) ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error) {
	all, err := i.Engine.ReadLog(shard, after, limit)
	return slices.DeleteFunc(all, func(e hold.Entry) bool { return e.Workspace == i.without }), err
}

func (*relayInterruptedAuthorizer) MarkRelayed(ident.Shard, uint64) error {
	return errors.New("killed here")
}

// newStackKilledDuringRelay returns a stopped stack of two workspaces in one shard. Decision 1, a
// clearing of 10 cents of the first workspace, is not relayed; decision 2, of the second, is.
func newStackKilledDuringRelay(t *testing.T) (w *testStack, late testCard) {
	w = newTestStack(t, vfs.NewMem(), stackOptions{})
	first, second := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(first, 100_000)
	w.deposit(second, 100_000)
	late, relayed := w.mintCard(first, 90_000, 1_000), w.mintCard(second, 90_000, 1_000)
	w.restartActors(func(c *actors.Config) {
		c.Authorizer = &relayInterruptedAuthorizer{w.engine, mustParse(ident.Workspace, first)}
	})
	w.submit(networkMessage(hold.Clearing, "late", late, 10))
	w.submit(networkMessage(hold.Clearing, "relayed", relayed, 10))
	require.Eventually(t, func() bool { return w.ledgerCents(second) == 99_990 }, eventuallyWithin, pollEvery)
	require.EqualValues(t, 100_000, w.ledgerCents(first))
	w.stop()
	return w, late
}

// ledgerCents returns the dollars of a workspace by the journal, without waiting for the relay.
func (w *testStack) ledgerCents(ws string) money.Cents {
	return w.mustAsk("balance", ws, ws, decision.Read{}).(balance.View).Snapshot.FiatUsdCents
}

func (w *testStack) openJournal() persistence.Journal {
	journal, err := openJournal(w.options.database, pebblejournal.Options{FS: w.fs, Dir: "journal",
		Entropy: rand.Reader,
		Fatal:   w.options.fatal})
	require.NoError(w.t, err)
	return journal
}

// TestARebuildThatIsInterruptedChangesNothing: the old store stays in place, and its unrelayed
// decisions still reach the journal.
func TestARebuildThatIsInterruptedChangesNothing(t *testing.T) {
	w, late := newStackKilledDuringRelay(t)
	journal := w.openJournal()
	_, err := w.rebuildAuthorizerIn("authorizer.new", journal)
	require.NoError(t, err)
	require.NoError(t, journal.Close())

	w.start()
	defer w.stop()
	require.EqualValues(t, 99_990, w.settledBalance(late.ws).Snapshot.FiatUsdCents)
	w.submit(networkMessage(hold.Clearing, "another", late, 10))
	require.EqualValues(t, 99_980, w.settledBalance(late.ws).Snapshot.FiatUsdCents)
	w.requireCleanAudit()
}

// TestARebuiltStoreWithoutItsRelayCursorIsRefused crashes after the new store has replaced the old
// one and before the journal's relay cursor is saved.
func TestARebuiltStoreWithoutItsRelayCursorIsRefused(t *testing.T) {
	w, _ := newStackKilledDuringRelay(t)
	journal := w.openJournal()
	_, err := w.rebuildAuthorizerIn("authorizer.new", journal)
	require.NoError(t, err)
	require.NoError(t, journal.Close())
	require.NoError(t, w.fs.RemoveAll("authorizer"))
	require.NoError(t, w.fs.Rename("authorizer.new", "authorizer"))

	require.ErrorContains(t, w.tryStart(), "purser rebuild-authorizer --yes")
	require.NoError(t, errors.Join(w.engine.Close(), w.journal.Close()))
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	w.stop()
}

// TestARebuildReportsLostDecisions: decisions that were not relayed are lost with the store. The
// audit lists them and has no findings.
func TestARebuildReportsLostDecisions(t *testing.T) {
	w, late := newStackKilledDuringRelay(t)
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	defer w.stop()
	require.EqualValues(t, 100_000, w.availableCents(late.ws))
	w.submit(networkMessage(hold.Clearing, "late", late, 10)) // the network sends it again
	require.EqualValues(t, 99_990, w.settledBalance(late.ws).Snapshot.FiatUsdCents)
	report := w.runAudit()
	require.Empty(t, report.Findings)
	require.Len(t, report.Lost, 1)
	lost := report.Lost[0]
	require.Equal(t, slotOf(late.ws).Shard(), lost.Shard)
	require.EqualValues(t, 1, lost.First)
	require.EqualValues(t, 1, lost.Last)
	require.Equal(t, w.clock.now(), lost.At.UTC())
}
