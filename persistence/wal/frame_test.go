package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// encodeGroup returns the frame of some records.
func encodeGroup(k frameKey, at int64, segment, first uint64, records ...[]byte) []byte {
	g := newGroup[int]()
	for i, record := range records {
		g.addRecord(first+uint64(i), record, 0)
	}
	return g.finishFrame(k, at, segment, first-1)
}

// FuzzFrame decodes arbitrary bytes, with the right tag and checksum if fixed. A frame that is
// valid encodes to the same bytes.
func FuzzFrame(f *testing.F) {
	key := newFrameKey(testStore, 1)
	group := encodeGroup(key, 64, 1, 7, []byte("one"), nil, []byte("three"))
	f.Add(group, int64(64), false)
	f.Add(group, int64(64), true)
	f.Add(group[:len(group)-9], int64(64), true)
	f.Add(newSeal(key, 0, frame{segment: 1, first: 9, synced: 8}, 2), int64(0), false)
	f.Add(make([]byte, frameHeader), int64(8), true)
	f.Add([]byte{}, int64(0), false)
	f.Fuzz(func(t *testing.T, b []byte, at int64, fixed bool) {
		b = bytes.Clone(b)
		if fixed && len(b) >= frameHeader {
			binary.LittleEndian.PutUint32(b, key.tagAt(at))
			if end := uint64(frameHeader) + uint64(binary.LittleEndian.Uint32(b[32:])); end <= uint64(len(b)) {
				binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:end], castagnoli))
			}
		}
		head, ok := key.parseFrame(b, at)
		if !ok || !head.verifyFrame(b) {
			return
		}
		used := b[:frameHeader+head.payload]
		if head.records == 0 {
			require.Equal(t, used, newSeal(key, at, head, head.successor(b)))
			return
		}
		var records [][]byte
		complete := true
		rest := head.walkRecords(b, func(number uint64, record []byte) bool {
			require.Equal(t, head.first+uint64(len(records)), number)
			records = append(records, record)
			return true
		}, &complete)
		require.True(t, complete)
		require.Zero(t, rest)
		again := newGroup[int]()
		for i, record := range records {
			again.addRecord(head.first+uint64(i), record, 0)
		}
		require.Equal(t, used, again.finishFrame(key, at, head.segment, head.synced)[:len(used)])
	})
}

// FuzzOpen opens a log after arbitrary bytes were written over a segment's file. Its records are a
// prefix of those that were appended, or Open fails.
func FuzzOpen(f *testing.F) {
	disk := vfs.NewCrashableMem()
	r := newRig(f, disk)
	r.open(0)
	r.appendDurable(6, 1_500)
	fs := clone(disk)
	if err := r.log.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{1}, uint32(headerBytes))
	f.Add(make([]byte, pageBytes), uint32(headerBytes+pageBytes))
	f.Add(make([]byte, headerBytes), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint32) {
		m := image{rig: r.after(fs), fs: fs}
		m.rig.t = t
		_, _ = m.tryOpen(m.damaged(t, "log/0000000000000001.wal", func(data []byte) []byte {
			copy(data[min(int(at), len(data)):], b)
			return data
		}))
	})
}

// A frame is valid for its store, its segment and its place alone.
func TestAFrameBelongsToItsPlace(t *testing.T) {
	key := newFrameKey(testStore, 3)
	b := encodeGroup(key, 4096, 3, 1, []byte("record"))
	valid := func(k frameKey, at int64, b []byte) bool {
		f, ok := k.parseFrame(b, at)
		return ok && f.verifyFrame(b)
	}
	require.True(t, valid(key, 4096, b))
	tag := crc32.Update(uint32(key), castagnoli, []byte{0, 16, 0, 0, 0, 0, 0, 0})
	require.Equal(t, tag, key.tagAt(4096))
	require.False(t, valid(key, 4104, b))
	require.False(t, valid(newFrameKey(testStore, 4), 4096, b))
	require.False(t, valid(newFrameKey([16]byte{9}, 3), 4096, b))
	for i := range frameHeader + recordHeader + len("record") {
		for bit := range 8 {
			b[i] ^= 1 << bit
			require.False(t, valid(key, 4096, b), "byte %d", i)
			b[i] ^= 1 << bit
		}
	}
}

// The header of a frame lies in one page.
func TestAFrameBeginsInOnePage(t *testing.T) {
	for end := int64(0); end < 3*pageBytes; end += 3 {
		at := frameStart(end)
		require.GreaterOrEqual(t, at, end)
		require.Less(t, at-end, int64(frameHeader+frameAlign))
		require.Zero(t, at%frameAlign)
		require.Equal(t, at/pageBytes, (at+frameHeader-1)/pageBytes)
		require.Equal(t, at, frameStart(at))
	}
}
