package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// A journal that is older than the authorizer believes (restored, or written without a sync) is sent what it misses.
func TestAJournalThatLostDecisionsIsSentThemAgain(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000)
	c := w.mint(ws, 10_000, 10_000)
	w.requireClean()
	w.stop()
	copyDir(t, w.fs, "journal", "older")

	w.start()
	for i := range 20 {
		require.Equal(t, hold.Approved, w.submit(message(hold.Authorization, fmt.Sprint("s", i), c, 100)).Decision)
	}
	w.requireClean()
	w.stop()
	require.NoError(t, w.fs.RemoveAll("journal"))
	copyDir(t, w.fs, "older", "journal")

	w.start()
	require.EqualValues(t, 2_000, w.balance(ws).Balances[0].HeldCents)
	w.requireClean()
	w.stop()
}

// Once the log has dropped them, nothing can mend an older journal: the start must say so.
func TestAJournalBehindWhatWasTrimmedIsRefused(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	ws := w.newWorkspace(22)
	w.deposit(ws, 10_000)
	c := w.mint(ws, 10_000, 10_000)
	w.requireClean()
	w.stop()
	copyDir(t, w.fs, "journal", "older")

	w.start()
	w.submit(message(hold.Authorization, "s", c, 100))
	w.requireClean()
	w.clock.turn(9 * 24 * time.Hour)
	require.NoError(t, w.engine.Trim(w.clock.now()))
	w.stop()
	require.NoError(t, w.fs.RemoveAll("journal"))
	copyDir(t, w.fs, "older", "journal")

	require.ErrorContains(t, w.tryStart(), "rebuild-authorizer")
	require.NoError(t, w.engine.Close())
	require.NoError(t, w.journal.Close())
}

// An authorizer that knows less than it told the journal would approve the same dollars twice.
func TestAnAuthorizerBehindTheJournalIsRefused(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	ws := w.newWorkspace(23)
	w.deposit(ws, 10_000)
	c := w.mint(ws, 10_000, 10_000)
	w.requireClean()
	w.stop()
	copyDir(t, w.fs, "authorizer", "older")

	w.start()
	w.submit(message(hold.Authorization, "s", c, 100))
	w.requireClean()
	w.stop()
	require.NoError(t, w.fs.RemoveAll("authorizer"))
	copyDir(t, w.fs, "older", "authorizer")

	require.ErrorContains(t, w.tryStart(), "rebuild-authorizer")
	require.NoError(t, w.engine.Close())
	require.NoError(t, w.journal.Close())
	require.NoError(t, w.fs.RemoveAll("authorizer"))
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	require.EqualValues(t, 9_900, w.available(ws))
	w.requireClean()
	w.stop()
}

// A journal older than what the authorizer has followed: its dollars would be spent and come again.
func TestAnAuthorizerAheadOfTheJournalIsRefused(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	ws := w.newWorkspace(23)
	w.requireClean()
	w.stop()
	copyDir(t, w.fs, "journal", "older")

	w.start()
	w.deposit(ws, 10_000)
	w.stop()
	require.NoError(t, w.fs.RemoveAll("journal"))
	copyDir(t, w.fs, "older", "journal")

	require.ErrorContains(t, w.tryStart(), "has followed the journal to position")
	require.NoError(t, w.engine.Close())
	require.NoError(t, w.journal.Close())
}
