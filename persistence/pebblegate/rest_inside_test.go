package pebblegate

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// On one processor others run while a table is written in haste; who writes a log or a backup is let through.
func TestAWriterOfTablesYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fs := resting{vfs.NewMem(), &gate{}}
	written, err := fs.Create("000001.sst", "pebble-memtable-flush")
	require.NoError(t, err)
	log, err := fs.Create("000002.log", "pebble-wal")
	require.NoError(t, err)
	_, rests := log.(*table)
	require.False(t, rests)
	backup, err := fs.Create("backup.sst", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, rests = backup.(*table)
	require.False(t, rests)
	require.NoError(t, backup.Close())
	var ran atomic.Bool
	go ran.Store(true)
	for range 64 { // the runtime may give back the processor at once now and then
		_, err := written.Write(make([]byte, pieceBytes))
		require.NoError(t, err)
	}
	require.True(t, ran.Load())
	require.NoError(t, log.Close())
	require.NoError(t, written.Close())
}

// put writes 64 KiB that no compression makes smaller.
func put(t *testing.T, db *pebble.DB, random *rand.Rand) {
	t.Helper()
	value := make([]byte, 64<<10)
	for i := 0; i < len(value); i += 8 {
		binary.LittleEndian.PutUint64(value[i:], random.Uint64())
	}
	require.NoError(t, db.Set(value[:16], value, pebble.NoSync))
}

// Who writes the tables of a store rests after each piece while they keep up, and no more when memtables wait for them.
func TestTablesAreWrittenWithRestsUntilTheyAreBehind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	db, g, err := closed("store", &pebble.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	var rests atomic.Int64
	var held atomic.Bool
	leave := make(chan struct{})
	g.sleep = func(d time.Duration) {
		rests.Add(1)
		if held.Load() {
			<-leave
		}
	}
	put(t, db, random)
	require.NoError(t, db.Flush())
	require.Zero(t, rests.Load(), "a store that is being opened rested")

	g.open(db.Metrics)
	require.Eventually(t, g.calm.Load, time.Minute, time.Millisecond)
	put(t, db, random)
	require.NoError(t, db.Flush())
	require.NotZero(t, rests.Load(), "a flush beside which nothing waits did not rest")

	held.Store(true)
	for db.Metrics().MemTable.Count <= calmMemTables { // behind a flush that rests for ever
		put(t, db, random)
	}
	require.Eventually(t, func() bool { return !g.calm.Load() }, time.Minute, time.Millisecond)
	held.Store(false)
	close(leave)
	require.NoError(t, db.Flush())
	require.Eventually(t, g.calm.Load, time.Minute, time.Millisecond)
	require.NoError(t, db.Close())
	require.False(t, g.calm.Load(), "a store that closes waits for rests")
}

func TestNobodyRestsWhoIsBehind(t *testing.T) {
	rests := 0
	g := &gate{sleep: func(d time.Duration) {
		require.Equal(t, pieceRest, d)
		rests++
	}}
	g.rest()
	require.Zero(t, rests)
	g.calm.Store(true)
	g.rest()
	require.Equal(t, 1, rests)
}

func TestAStoreIsBehindByMemTablesOrByItsTopLevel(t *testing.T) {
	for _, c := range []struct {
		memTables int64
		sublevels int32
		keepsUp   bool
	}{{1, 0, true}, {calmMemTables, calmL0, true}, {calmMemTables + 1, 0, false}, {1, calmL0 + 1, false}} {
		m := &pebble.Metrics{}
		m.MemTable.Count, m.Levels[0].Sublevels = c.memTables, c.sublevels
		require.Equal(t, c.keepsUp, keepsUp(m), "%+v", c)
	}
}
