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

// aged is a world in which one store was put back to what it was before the other went on. meanwhile runs on the newer one.
func aged(t *testing.T, store string, meanwhile func(w *world, c plastic)) (*world, plastic) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000)
	c := w.mint(ws, 10_000, 10_000)
	w.requireClean()
	w.stop()
	copyDir(t, w.fs, store, "older")

	w.start()
	for i := range 20 {
		require.Equal(t, hold.Approved, w.submit(message(hold.Authorization, fmt.Sprint("s", i), c, 100)).Decision)
	}
	w.requireClean()
	meanwhile(w, c)
	w.stop()
	require.NoError(t, w.fs.RemoveAll(store))
	copyDir(t, w.fs, "older", store)
	return w, c
}

// refused is a start that names the command that repairs the stores.
func (w *world) refused() {
	w.t.Helper()
	require.ErrorContains(w.t, w.tryStart(), "rebuild-authorizer")
	require.NoError(w.t, w.engine.Close())
	require.NoError(w.t, w.journal.Close())
}

// A journal that is older than the authorizer believes (restored, or written without a sync) is sent what it misses.
func TestAJournalThatLostDecisionsIsSentThemAgain(t *testing.T) {
	w, c := aged(t, "journal", func(*world, plastic) {})
	w.start()
	require.EqualValues(t, 2_000, w.balance(c.ws).Balances[0].HeldCents)
	w.requireClean()
	w.stop()
}

// forgetful is an authorizer whose notes of what was relayed are lost, as a crash may lose them.
type forgetful struct{ *authorizer.Engine }

func (forgetful) MarkRelayed(ident.Shard, uint64) error { return nil }

// A start sends again what it cannot prove to have sent, so that the backlog comes to rest.
func TestALostNoteOfTheRelayLeavesNoBacklog(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), worldOptions{})
	w.startAgain(func(c *actors.Config) { c.Authorizer = forgetful{w.engine} })
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000)
	c := w.mint(ws, 10_000, 10_000)
	w.submit(message(hold.Authorization, "s", c, 100))
	require.EqualValues(t, 100, w.balance(ws).Balances[0].HeldCents)
	require.EqualValues(t, 1, w.engine.Backlog())

	w.restart()
	w.requireClean()
	require.Zero(t, w.engine.Backlog())
	w.stop()
}

// Once the log has dropped them, nothing can mend an older journal: the start must say so.
func TestAJournalBehindWhatWasTrimmedIsRefused(t *testing.T) {
	w, _ := aged(t, "journal", func(w *world, _ plastic) {
		w.clock.turn(9 * 24 * time.Hour)
		require.NoError(t, w.engine.Trim(w.clock.now()))
	})
	w.refused()
}

// A journal that has lost a credit the authorizer counts on is refused too.
func TestAJournalBehindWhatWasFollowedIsRefused(t *testing.T) {
	w, _ := aged(t, "journal", func(w *world, c plastic) { w.deposit(c.ws, 500) })
	w.refused()
}

// An authorizer that knows less than it told the journal would approve the same dollars twice.
func TestAnAuthorizerBehindTheJournalIsRefused(t *testing.T) {
	w, c := aged(t, "authorizer", func(*world, plastic) {})
	w.refused()
	require.NoError(t, w.fs.RemoveAll("authorizer"))
	require.NoError(t, w.rebuildAuthorizer())
	w.start()
	require.EqualValues(t, 8_000, w.available(c.ws))
	w.requireClean()
	w.stop()
}
