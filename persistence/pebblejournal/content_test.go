package pebblejournal_test

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

// inMemory makes a store in memory that is opened again from the same files.
func inMemory(journaltest.T) (pebblejournal.Options, journaltest.Reopen) {
	o := pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", SegmentBytes: segmentBytes}
	return o, func() persistence.Journal {
		j, err := pebblejournal.Open(o)
		if err != nil {
			panic(err)
		}
		return j
	}
}

func TestLoad(t *testing.T) {
	journaltest.RunLoad(t,
		func(t journaltest.T) journaltest.Reopen { _, reopen := inMemory(t); return reopen },
		func(t journaltest.T, identity persistence.Identity, content persistence.Content) (journaltest.Reopen, error) {
			o, reopen := inMemory(t)
			return reopen, pebblejournal.Load(context.Background(), o, identity, content)
		})
}

// An interrupted load leaves no journal, and a journal is not loaded over.
func TestLoadNeedsAnEmptyStore(t *testing.T) {
	o, reopen := inMemory(t)
	j := reopen()
	s, err := j.(persistence.Archiver).Snapshot(t.Context())
	require.NoError(t, err)
	whole := s.Content(t.Context())
	half := func(yield func(persistence.Part, error) bool) {
		for part := range whole {
			if h, ok := part.(*persistence.ShardHead); ok {
				h.Epoch = 1
				if h.Shard == 100 {
					yield(nil, context.Canceled)
					return
				}
			}
			yield(part, nil)
		}
	}
	cut := pebblejournal.Options{FS: o.FS, Dir: "cut", SegmentBytes: segmentBytes}
	require.ErrorIs(t, pebblejournal.Load(t.Context(), cut, j.Identity(), half), context.Canceled)
	require.NoError(t, pebblejournal.Load(t.Context(), cut, j.Identity(), whole), "an error applies nothing of what it has read")
	require.ErrorIs(t, pebblejournal.Load(t.Context(), cut, j.Identity(), whole), pebblejournal.ErrNotEmpty)
	require.NoError(t, s.Close())
	require.NoError(t, j.Close())
}

func TestAJournalThatHasMovedIsNotOpened(t *testing.T) {
	o, reopen := inMemory(t)
	j := reopen().(*pebblejournal.Journal)
	require.NoError(t, j.MarkMoved(t.Context(), "Postgres db at host"))
	require.NoError(t, j.Close())
	_, err := pebblejournal.Open(o)
	require.ErrorIs(t, err, pebblejournal.ErrMoved)
	require.ErrorContains(t, err, "the journal was moved to Postgres db at host")
}
