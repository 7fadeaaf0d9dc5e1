package pgjournal_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

// openAndRaise opens a journal, raises a shard, and returns a channel of errors that were fatal.
func openAndRaise(t *testing.T, o pgjournal.Options, slot ident.Slot) (*pgjournal.Journal, persistence.Head, chan error) {
	t.Helper()
	fatal := make(chan error, 1)
	o.Fatal = func(err error) {
		select {
		case fatal <- err:
		default:
		}
	}
	j := open(t, o)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	heads, err := j.Raise(t.Context(), slot.Shard())
	require.NoError(t, err)
	return j, heads[0], fatal
}

func requireFatal(t *testing.T, fatal chan error, want error) {
	t.Helper()
	select {
	case err := <-fatal:
		require.ErrorIs(t, err, want)
	case <-time.After(bound):
		require.Fail(t, "nothing was fatal")
	}
}

// After a second process has raised a shard, the first learns of it without an append as well as by
// one, and does not raise it again.
func TestForeignEpochIsNotTakenBack(t *testing.T) {
	const slot = ident.Slot(0x30)
	url := databases.Database(t)
	first, head, fatal := openAndRaise(t, fastOptions(url), slot)
	require.NoError(t, appendOne(first, slot, head.Epoch, 1))
	second, taken, quiet := openAndRaise(t, fastOptions(url), slot)
	go func() { _ = journaltest.AwaitHead(t.Context(), first, slot.Shard(), 1) }()
	requireFatal(t, fatal, pgjournal.ErrTaken)
	require.ErrorIs(t, appendOne(first, slot, head.Epoch, 2), pgjournal.ErrTaken)
	requireFatal(t, fatal, pgjournal.ErrTaken)
	_, err := first.Raise(t.Context(), slot.Shard())
	require.ErrorIs(t, err, persistence.ErrFenced)
	require.NoError(t, appendOne(second, slot, taken.Epoch, 2))
	require.Empty(t, quiet)
}

// A failed Raise that changed nothing does not hide a later Raise of another process.
func TestFailedRaiseDoesNotHideForeignEpoch(t *testing.T) {
	const slot = ident.Slot(0x30)
	url := databases.Database(t)
	o := fastOptions(url)
	o.LockTimeout = 50 * time.Millisecond // the test waits for the Raise that fails
	first, _, fatal := openAndRaise(t, o, slot)
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), `BEGIN; SELECT FROM journal_shard FOR UPDATE`)
	require.NoError(t, err)
	_, err = first.Raise(t.Context(), slot.Shard())
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NoError(t, other.Close(context.Background()))
	_, _, quiet := openAndRaise(t, fastOptions(url), slot)
	_, err = first.Raise(t.Context(), slot.Shard())
	require.ErrorIs(t, err, pgjournal.ErrTaken)
	requireFatal(t, fatal, pgjournal.ErrTaken)
	require.Empty(t, quiet)
}

// Epochs that this process may have raised, although the answers were lost, are its own.
func TestAmbiguousRaisesAreNotForeign(t *testing.T) {
	const slot = ident.Slot(0x30)
	proxy, url := pgtest.StartProxy(t, databases.Database(t))
	j, _, fatal := openAndRaise(t, fastOptions(url), slot)
	proxy.OnCommit(func(c *pgtest.Commit) { c.LoseAnswer() })
	for range 3 {
		_, err := j.Raise(t.Context(), slot.Shard())
		require.Error(t, err)
	}
	proxy.OnCommit(nil)
	var heads []persistence.Head
	require.Eventually(t, func() (raised bool) {
		found, err := j.Raise(t.Context(), slot.Shard())
		heads = found
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, appendOne(j, slot, heads[0].Epoch, 1))
	require.Empty(t, fatal)
}

// A database without some committed events, such as a lagging standby that took over, is refused.
func TestDatabaseThatLostCommitsIsRefused(t *testing.T) {
	const slot = ident.Slot(0x30)
	url := databases.Database(t)
	j, head, fatal := openAndRaise(t, fastOptions(url), slot)
	require.NoError(t, appendOne(j, slot, head.Epoch, 1))
	executeSQL(t, url, `DELETE FROM journal_event; DELETE FROM journal_stream; DELETE FROM journal_record; UPDATE journal_shard SET head = 0`)
	go func() { _ = journaltest.AwaitHead(t.Context(), j, slot.Shard(), 1) }()
	requireFatal(t, fatal, pgjournal.ErrBehind) // without an append
	require.ErrorIs(t, appendOne(j, slot, head.Epoch, 1), pgjournal.ErrBehind)
	requireFatal(t, fatal, pgjournal.ErrBehind)
	_, err := j.Raise(t.Context(), slot.Shard())
	require.ErrorIs(t, err, persistence.ErrFenced)
}
