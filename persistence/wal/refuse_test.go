package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// A missing segment is refused, except for the one that is made ready.
func TestAMissingSegmentIsRefused(t *testing.T) {
	for _, closed := range []bool{false, true} {
		m := newImage(t, closed)
		for i, path := range m.paths {
			fs := clone(m.fs)
			require.NoError(t, fs.Remove(path))
			_, err := m.tryOpen(fs)
			if i == 1 { // a segment that no replay reads
				unread := m.rig.after(clone(fs))
				unread.freed = uint64(len(m.rig.records))
				require.ErrorIs(t, unread.tryOpen(0), ErrDamaged)
			}
			if want := ErrDamaged; i > 0 {
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, path)
			} else {
				require.ErrorIs(t, err, ErrGap)
				require.ErrorContains(t, err, m.paths[1])
			}
		}
		fs := clone(m.fs)
		require.NoError(t, fs.Remove(m.readyPath()))
		n, err := m.tryOpen(fs)
		require.NoError(t, err)
		require.EqualValues(t, len(m.rig.records), n)
	}
}

// readyPath returns the path of the segment that is ready and not in use.
func (m image) readyPath() string {
	files := newSegmentFiles(m.fs, "log", testStore, smallSegment)
	return files.segmentPath(uint64(len(m.paths) + 1))
}

// A segment that is cut off is refused, or has all its records.
func TestACutOffSegmentIsRefused(t *testing.T) {
	m := newImage(t, true)
	for i, path := range append(m.paths, m.readyPath()) {
		refused := 0
		for length := 0; length < int(fileBytes(smallSegment)); length += 509 {
			n, err := m.tryOpen(m.damaged(t, path, func(data []byte) []byte { return data[:min(length, len(data))] }))
			if err != nil {
				refused++
				require.ErrorIs(t, err, ErrDamaged)
				require.ErrorContains(t, err, path)
				continue
			}
			require.EqualValues(t, len(m.rig.records), n)
		}
		require.Equal(t, i < len(m.paths), refused > 5)
	}
}

// Two invalid header slots are damage in a segment in use, and nothing in one that is ready.
func TestAHeaderWithoutAValidSlotIsRefused(t *testing.T) {
	m := newImage(t, true)
	for _, path := range append(m.paths, m.readyPath()) {
		n, err := m.tryOpen(m.damaged(t, path, func(data []byte) []byte {
			data[20] ^= 1
			data[slotBytes+20] ^= 1
			return data
		}))
		if path == m.readyPath() {
			require.NoError(t, err)
			require.EqualValues(t, len(m.rig.records), n)
			continue
		}
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "both header slots")
	}
}

// A segment under another's name, one of another store, and one of another format are refused by
// name.
func TestAForeignSegmentIsRefused(t *testing.T) {
	m := newImage(t, true)
	for i, path := range m.paths {
		other := m.paths[(i+1)%len(m.paths)]
		_, err := m.tryOpen(m.damaged(t, path, func([]byte) []byte { return readFile(t, m.fs, other) }))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, path)
		for field, value := range map[int]byte{16: 77, 8: 2} {
			_, err = m.tryOpen(m.damaged(t, path, func(data []byte) []byte {
				for slot := range headerSlots {
					b := data[slot*slotBytes:]
					b[field] = value
					binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:slotContent], castagnoli))
				}
				return data
			}))
			require.ErrorIs(t, err, ErrForeign)
			require.ErrorContains(t, err, path)
		}
	}
	foreign := m.rig.after(clone(m.fs))
	foreign.options.Store = [16]byte{9}
	require.ErrorIs(t, foreign.tryOpen(0), ErrForeign)
}

// The pages of a segment in another segment's file, or at another place of their own, are no part
// of the log.
func TestAMisplacedPageIsRefused(t *testing.T) {
	m := newImage(t, true)
	page := func(data []byte, n int64) []byte { return data[placeInFile(n*pageBytes):placeInFile((n+1)*pageBytes)] }
	for _, from := range []string{m.paths[0], m.paths[1]} {
		_, err := m.tryOpen(m.damaged(t, m.paths[1], func(data []byte) []byte {
			source := page(readFile(t, m.fs, from), 0)
			if from == m.paths[1] {
				copy(page(data, 1), source)
			} else {
				copy(page(data, 0), source)
			}
			return data
		}))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, m.paths[1])
	}
}

// Open refuses a number that is before the first record or behind the last one, and a log that is
// not there.
func TestAGapIsRefused(t *testing.T) {
	m := newImage(t, true)
	r := m.rig.after(clone(m.fs))
	r.open(0)
	r.free(r.log.Durable())
	require.NoError(t, r.log.Close())
	nothing := func(uint64, []byte) error { return errors.New("unexpected record") }
	_, err := Open(r.options, 0, nothing)
	require.ErrorIs(t, err, ErrGap)
	_, err = Open(r.options, uint64(len(r.records)+1), nothing)
	require.ErrorIs(t, err, ErrGap)
	empty := r.after(vfs.NewMem())
	_, err = Open(empty.options, 5, nothing)
	require.ErrorIs(t, err, ErrGap)
	l, err := Open(r.options, uint64(len(r.records)), nothing)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// The error of replay ends Open, and the log opens again later.
func TestAnErrorOfReplayEndsOpen(t *testing.T) {
	m := newImage(t, true)
	r := m.rig.after(clone(m.fs))
	failure := errors.New("replay")
	for number := range uint64(len(r.records)) {
		last := uint64(0)
		_, err := Open(r.options, 0, func(n uint64, _ []byte) error {
			if last = n; n == number+1 {
				return failure
			}
			return nil
		})
		require.ErrorIs(t, err, failure)
		require.Equal(t, number+1, last)
	}
	r.open(uint64(len(r.records)))
	require.NoError(t, r.log.Close())
}

// A segment that begins behind the records of the one before shows that records are lost, although
// the crash came before the seal.
func TestABegunSegmentShowsLostRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		var sealing atomic.Bool
		r := newRig(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if sealing.Load() && op.Kind == errorfs.OpFileWriteAt && op.Offset >= headerBytes {
				return errorfs.ErrInjected
			}
			return nil
		})))
		r.open(0)
		for range 3 {
			r.appendPayload(r.payload(pageBytes))
			require.NoError(t, r.log.Wait(uint64(len(r.records))))
		}
		time.Sleep(noteAfter / 2)
		sealing.Store(true)
		lost := r.current().end - alignUp64(frameHeader+recordHeader+pageBytes)
		_, err := r.log.Append(make([]byte, pageBytes), 0)
		require.NoError(t, err)
		require.ErrorIs(t, r.log.Wait(4), errorfs.ErrInjected)
		require.ErrorIs(t, r.log.Close(), errorfs.ErrInjected)
		m := image{rig: r.after(disk), fs: disk}
		n, err := m.tryOpen(clone(disk))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		_, err = m.tryOpen(m.damaged(t, r.log.segments.segmentPath(1), func(data []byte) []byte {
			clear(data[slotBytes:headerBytes]) // the note that was written before the seal
			data[placeInFile(lost)] ^= 1
			return data
		}))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "begins with 4")
	})
}

func alignUp64(n int) int64 { return int64(alignUp(n)) }

// A log without syncs that lost a group in its middle ends there, and the groups behind it never
// come back.
func TestALogWithoutSyncsEndsAtItsFirstLostGroup(t *testing.T) {
	fs := vfs.NewMem()
	r := newRig(t, fs, func(o *Options[uint64]) { o.NoSync = true })
	r.open(0)
	page := pageBytes - frameHeader - recordHeader // a record whose group fills a page
	for range 3 {
		r.appendPayload(r.payload(page))
		require.NoError(t, r.log.Wait(uint64(len(r.records))))
	}
	require.NoError(t, r.log.Close())
	path := r.log.segments.segmentPath(1)
	data := readFile(t, fs, path)
	clear(data[placeInFile(pageBytes):placeInFile(2*pageBytes)])
	writeFile(t, fs, path, data)
	r.open(1)
	require.Len(t, r.records, 1)
	r.appendPayload(r.payload(page))
	require.NoError(t, r.log.Close())
	r.open(2)
	require.Equal(t, 2, len(r.records))
	require.NoError(t, r.log.Close())
}

// A log that begins anew takes no number of an earlier segment, whose file it may use.
func TestALogThatBeginsAnewTakesANewNumber(t *testing.T) {
	fs := vfs.NewMem()
	r := newRig(t, fs, func(o *Options[uint64]) { o.NoSync = true })
	r.open(0)
	r.appendDurable(3, 300)
	require.NoError(t, r.log.Close())
	require.NoError(t, fs.RemoveAll(r.log.segments.segmentPath(2)))
	for range 2 {
		l, err := Open(r.options, 1_000, func(uint64, []byte) error { return errors.New("an old record") })
		require.NoError(t, err)
		require.EqualValues(t, 1_000, l.Durable())
		require.NoError(t, l.Close())
	}
}

// A log without syncs that lost records which the store has begins anew behind them.
func TestALogWithoutSyncsBeginsBehindItsStore(t *testing.T) {
	m := newImage(t, true)
	for _, fs := range []vfs.FS{clone(m.fs), vfs.NewMem()} {
		r := m.rig.after(fs)
		r.options.NoSync = true
		const from = 1_000
		for again := range uint64(3) {
			replayed := []uint64{}
			l, err := Open(r.options, from, func(number uint64, _ []byte) error {
				replayed = append(replayed, number)
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, from+again, l.Durable())
			require.Len(t, replayed, int(again))
			number, err := l.Append([]byte("record"), 0)
			require.NoError(t, err)
			require.Equal(t, from+again+1, number)
			require.NoError(t, l.Close())
			require.True(t, slices.IsSorted(replayed))
		}
	}
}
