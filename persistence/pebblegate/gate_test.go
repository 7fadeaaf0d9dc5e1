package pebblegate

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// A store that wants compacting is opened before the first compaction begins, and is compacted after.
func TestCompactionsRunAfterOpenAndNotDuringIt(t *testing.T) {
	fs := vfs.NewMem()
	db, err := Open("store", &pebble.Options{FS: fs, L0CompactionThreshold: 1000})
	require.NoError(t, err)
	for round := range 4 {
		for i := range 1000 {
			require.NoError(t, db.Set(binary.BigEndian.AppendUint64(nil, uint64(i)), []byte{byte(round)}, pebble.NoSync))
		}
		require.NoError(t, db.Flush())
	}
	require.NoError(t, db.Close())

	var begun atomic.Int64
	db, gate, err := closed("store", &pebble.Options{FS: fs, L0CompactionThreshold: 1,
		EventListener: &pebble.EventListener{CompactionBegin: func(pebble.CompactionInfo) {
			begun.Add(1)
		}}})
	require.NoError(t, err)
	require.Zero(t, begun.Load(), "a compaction began while the store was being opened")
	gate.open(db.Metrics)
	require.Eventually(t, func() bool { return begun.Load() > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, db.Close())
}

func TestAnOpenThatFailsLeavesNothingRunning(t *testing.T) {
	_, err := Open("none", &pebble.Options{FS: vfs.NewMem(), ErrorIfNotExists: true})
	require.Error(t, err)
}
