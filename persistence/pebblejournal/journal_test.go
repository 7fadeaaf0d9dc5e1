package pebblejournal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

var deployment = ident.Derive(ident.SystemSlot, journaltest.Start, "deployment")

// TestJournal runs the contract over a store in memory, that is opened again from the same files.
func TestJournal(t *testing.T) {
	journaltest.Run(t, func(t journaltest.T) journaltest.Reopen {
		fs := vfs.NewMem()
		return func() persistence.Journal {
			j, err := pebblejournal.Open(pebblejournal.Options{FS: fs, Dir: "journal", Deployment: deployment,
				SegmentBytes: segmentBytes})
			require.NoError(t, err)
			return j
		}
	})
}
