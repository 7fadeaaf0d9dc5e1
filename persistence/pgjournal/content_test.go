package pgjournal_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

func emptyPostgres(t journaltest.T) journaltest.Reopen {
	o := fastOptions(databases.Database(t.(pgtest.T)))
	return func() persistence.Journal { return open(t, o) }
}

func loadPostgres(t journaltest.T, identity persistence.Identity, content persistence.Content) (journaltest.Reopen, error) {
	o := fastOptions(databases.Database(t.(pgtest.T)))
	return func() persistence.Journal { return open(t, o) }, pgjournal.Load(context.Background(), o, identity, content)
}

func reopenPebble(t journaltest.T, o pebblejournal.Options) journaltest.Reopen {
	return func() persistence.Journal {
		j, err := pebblejournal.Open(o)
		require.NoError(t, err)
		return j
	}
}

func emptyPebble(t journaltest.T) journaltest.Reopen {
	return reopenPebble(t, pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", SegmentBytes: 256 << 10})
}

func loadPebble(t journaltest.T, identity persistence.Identity, content persistence.Content) (journaltest.Reopen, error) {
	o := pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", SegmentBytes: 256 << 10}
	return reopenPebble(t, o), pebblejournal.Load(context.Background(), o, identity, content)
}

// Each kind of journal makes the same bytes of the other one's content.
func TestLoadBetweenPostgresAndPebble(t *testing.T) {
	t.Run("Postgres to Postgres", func(t *testing.T) { journaltest.RunLoad(t, emptyPostgres, loadPostgres) })
	t.Run("embedded to Postgres", func(t *testing.T) { journaltest.RunLoad(t, emptyPebble, loadPostgres) })
	t.Run("Postgres to embedded", func(t *testing.T) { journaltest.RunLoad(t, emptyPostgres, loadPebble) })
}

// A failed load leaves an empty database, and a load refuses a database with a journal.
func TestLoadIsWholeOrNothing(t *testing.T) {
	o := fastOptions(databases.Database(t))
	source := emptyPebble(t)()
	epochs, err := source.Raise(t.Context(), 1)
	require.NoError(t, err)
	for version := uint64(1); version <= 20; version++ { // some blocks
		_, err := source.Append(t.Context(), 1, epochs[0].Epoch, time.Now(), []*persistence.Batch{{Workspace: "ws", Slot: 16,
			Events: []persistence.Event{{ID: "e", Kind: "k", Stream: "s", Version: version, Type: "t", At: time.Now(),
				Payload: append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 100_000)...), '"')}}}})
		require.NoError(t, err)
	}
	dump := journaltest.Dump(t, source)
	require.NoError(t, source.Close())
	load := func(b []byte) error {
		r, err := archive.NewReader(bytes.NewReader(b))
		require.NoError(t, err)
		return pgjournal.Load(t.Context(), o, r.Identity(), r.Content())
	}
	require.ErrorIs(t, load(dump[:len(dump)-1]), archive.ErrDamaged)
	require.NoError(t, load(dump))
	require.ErrorIs(t, load(dump), pgjournal.ErrNotEmpty)
	j := open(t, o)
	defer func() { require.NoError(t, j.Close()) }()
	require.True(t, bytes.Equal(dump, journaltest.Dump(t, j)))
}
