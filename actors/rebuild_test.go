package actors_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

// interrupted is an authorizer whose relay is killed when it has carried every workspace's entries but one's.
type interrupted struct {
	*authorizer.Engine
	without ident.UUID
}

func (i *interrupted) ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error) {
	all, err := i.Engine.ReadLog(shard, after, limit)
	return slices.DeleteFunc(all, func(e hold.Entry) bool { return e.Workspace == i.without }), err
}

func (*interrupted) MarkRelayed(ident.Shard, uint64) error { return errors.New("killed here") }

// killedInMidRelay is a world, stopped, of two workspaces of one shard: a clearing of 10 cents of the first is decision 1 and not
// relayed, one of the second is decision 2 and is.
func killedInMidRelay(t *testing.T) (w *world, late plastic) {
	w = newWorld(t, vfs.NewMem(), worldOptions{})
	first, second := w.newWorkspace(9), w.newWorkspace(9)
	w.deposit(first, 100_000)
	w.deposit(second, 100_000)
	late, relayed := w.mint(first, 90_000, 1_000), w.mint(second, 90_000, 1_000)
	w.startAgain(func(c *actors.Config) { c.Authorizer = &interrupted{w.engine, mustParse(ident.Workspace, first)} })
	w.submit(message(hold.Clearing, "late", late, 10))
	w.submit(message(hold.Clearing, "relayed", relayed, 10))
	require.Eventually(t, func() bool { return w.usd(second) == 99_990 }, time.Minute, time.Millisecond)
	require.EqualValues(t, 100_000, w.usd(first))
	w.stop()
	return w, late
}

// usd is what the journal has for a workspace now.
func (w *world) usd(ws string) int64 {
	return w.must("balance", ws, ws, decision.Read{}).(balance.View).Snapshot.FiatUsdCents
}

func (w *world) openJournal() persistence.Journal {
	journal, err := openJournal(w.options.database, pebblejournal.Options{FS: w.fs, Dir: "journal", Entropy: rand.Reader,
		Fatal: w.options.fatal})
	require.NoError(w.t, err)
	return journal
}

// The old store stays in its place when a rebuild is interrupted, and all it has decided must still come to the journal.
func TestARebuildThatIsInterruptedChangesNothing(t *testing.T) {
	w, late := killedInMidRelay(t)
	journal := w.openJournal()
	_, err := w.rebuildInto("authorizer.new", journal)
	require.NoError(t, err)
	require.NoError(t, journal.Close())

	w.start()
	defer w.stop()
	require.EqualValues(t, 99_990, w.balance(late.ws).Snapshot.FiatUsdCents)
	w.submit(message(hold.Clearing, "another", late, 10))
	require.EqualValues(t, 99_980, w.balance(late.ws).Snapshot.FiatUsdCents)
	w.requireClean()
}

// A crash after the new store has taken the old one's place and before the journal is told of it.
func TestARebuiltStoreThatTheJournalWasNotToldOfIsRefused(t *testing.T) {
	w, _ := killedInMidRelay(t)
	journal := w.openJournal()
	_, err := w.rebuildInto("authorizer.new", journal)
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

// What was not relayed when the store was lost is lost with it: the audit says so and finds nothing wrong.
func TestARebuildNamesTheDecisionsThatAreLost(t *testing.T) {
	w, late := killedInMidRelay(t)
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	defer w.stop()
	require.EqualValues(t, 100_000, w.available(late.ws))
	w.submit(message(hold.Clearing, "late", late, 10)) // the network sends it again
	require.EqualValues(t, 99_990, w.balance(late.ws).Snapshot.FiatUsdCents)
	report := w.audit()
	require.Empty(t, report.Findings)
	require.Len(t, report.Lost, 1)
	lost := report.Lost[0]
	require.Equal(t, slotOf(late.ws).Shard(), lost.Shard)
	require.EqualValues(t, 1, lost.First)
	require.EqualValues(t, 1, lost.Last)
	require.Equal(t, w.clock.now(), lost.At.UTC())
}
