package pebblegate

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// On one processor others run while a table is written; a log's writer is let through.
func TestAWriterOfTablesYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fs := yielding{vfs.NewMem()}
	written, err := fs.Create("000001.sst", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	log, err := fs.Create("000002.log", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, yields := log.(*table)
	require.False(t, yields)
	var ran atomic.Bool
	go ran.Store(true)
	for range 64 { // the runtime may give back the processor at once now and then
		_, err := written.Write(make([]byte, yieldEvery))
		require.NoError(t, err)
	}
	require.True(t, ran.Load())
	require.NoError(t, log.Close())
	require.NoError(t, written.Close())
}
