//go:build !race

package wal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// A group allocates nothing while its segment lasts. The race detector allocates by itself.
func TestAGroupAllocatesNothing(t *testing.T) {
	reported := 0
	l, err := Open(Options[*int]{FS: vfs.NewMem(), Dir: "log", SegmentBytes: 256 * pageBytes, NoSync: false,
		Durable: func(owners []*int, err error) { reported += len(owners) }}, 0, nil)
	require.NoError(t, err)
	record, owner := make([]byte, benchRecord), new(int)
	appendOne := func() {
		number, err := l.Append(record, owner)
		if err == nil {
			err = l.Wait(number)
		}
		require.NoError(t, err)
	}
	appendOne()
	require.Zero(t, testing.AllocsPerRun(1_000, appendOne))
	require.NoError(t, l.Close())
	require.Positive(t, reported)
}
