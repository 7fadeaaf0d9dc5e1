package pebblegate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// On one processor other goroutines run while a table is written without pauses. Writers of a log
// or a backup do not yield.
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

// counted is a file that counts its writes and can fail them.
type counted struct {
	vfs.File
	writes int
	fail   error
}

func (c *counted) Write(p []byte) (int, error) {
	if c.fail != nil {
		return 0, c.fail
	}
	c.writes++
	return c.File.Write(p)
}

// TestATableIsWrittenInPieces finds every byte in the file after each call that promises it, and
// every failure returned.
func TestATableIsWrittenInPieces(t *testing.T) {
	for name, end := range map[string]func(*table) error{
		"sync":      (*table).Sync,
		"sync data": (*table).SyncData,
		"sync to":   func(t *table) error { _, err := t.SyncTo(1); return err },
		"close":     (*table).Close,
	} {
		fs := vfs.NewMem()
		f, err := fs.Create("000001.sst", "pebble-memtable-flush")
		require.NoError(t, err)
		below := &counted{File: f}
		written := newTable(below, "pebble-compaction", &gate{})
		var want []byte
		for i := range 3 * pieceBytes / 1000 {
			block := bytes.Repeat([]byte{byte(i)}, 1000)
			want = append(want, block...)
			n, err := written.Write(block)
			require.NoError(t, err)
			require.Equal(t, len(block), n)
			clear(block) // the writer may use it again
		}
		require.NoError(t, end(written))
		require.LessOrEqual(t, below.writes, 4, name)
		r, err := fs.Open("000001.sst")
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
		require.NoError(t, r.Close())

		f, err = fs.Create("000002.sst", "pebble-memtable-flush")
		require.NoError(t, err)
		below = &counted{File: f, fail: errors.New("full")}
		written = newTable(below, "pebble-compaction", &gate{})
		_, err = written.Write(make([]byte, pieceBytes+1))
		require.ErrorIs(t, err, below.fail)
		below.fail, err = nil, below.fail
		require.ErrorIs(t, end(written), err, "a piece is missing, though the disk takes more: %s", name)
	}
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

// The writer of a store's tables pauses after each piece while they keep up, and does not when
// memtables wait for them.
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
	for db.Metrics().MemTable.Count <= calmMemTables { // behind a flush that pauses for ever
		put(t, db, random)
	}
	require.Eventually(t, func() bool {
		g.written.Store(true) // the gate may have looked before the last memtable
		return !g.calm.Load()
	}, time.Minute, time.Millisecond)
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
