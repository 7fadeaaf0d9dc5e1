package wal

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// The warnings of thousands of damaged logs are not shown.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// smallSegment is the length of the segments of most tests: a few groups fill one.
const smallSegment = 4 * pageBytes

var testStore = [16]byte{1, 2, 3}

// rig is a log under test with the records that were appended to it, in order.
type rig struct {
	t       require.TestingT
	fs      vfs.FS
	log     *Log[uint64]
	records [][]byte // by number - 1
	random  *rand.Rand
	promise *promise // for the goroutines of the disk
	options Options[uint64]
	freed   uint64
}

// promise is the state of a log that a crash must keep. The disk's goroutines read it.
type promise struct {
	mu    sync.Mutex
	log   *Log[uint64]
	freed uint64
}

func (p *promise) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func newRig(t require.TestingT, fs vfs.FS, change ...func(*Options[uint64])) *rig {
	r := &rig{t: t, fs: fs, random: rand.New(rand.NewPCG(5, 6)), promise: &promise{},
		options: Options[uint64]{FS: fs, Dir: "log", SegmentBytes: smallSegment, Store: testStore}}
	for _, c := range change {
		c(&r.options)
	}
	return r
}

// open opens the log and requires its records to be a prefix of those that were appended, with all
// up to durable.
func (r *rig) open(durable uint64) {
	require.NoError(r.t, r.tryOpen(durable))
}

func (r *rig) tryOpen(durable uint64) error {
	next := r.freed + 1
	l, err := Open(r.options, r.freed, func(number uint64, payload []byte) error {
		require.Equal(r.t, next, number)
		require.LessOrEqual(r.t, number, uint64(len(r.records)), "a record that was not appended")
		require.True(r.t, bytes.Equal(r.records[number-1], payload), "record %d", number)
		next++
		return nil
	})
	if err != nil {
		return err
	}
	require.Equal(r.t, next-1, l.Durable())
	require.Equal(r.t, next-1, l.Appended())
	require.GreaterOrEqual(r.t, next-1, durable)
	r.log, r.records = l, slices.Clone(r.records[:next-1])
	r.promise.set(func() { r.promise.log = l })
	return nil
}

// payload returns random bytes of a length. They differ from those of every earlier record.
func (r *rig) payload(length int) []byte {
	b := make([]byte, length)
	for i := 0; i+8 <= length; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.random.Uint64())
	}
	return b
}

// append appends records of random lengths below a bound.
func (r *rig) append(count, below int) {
	for range count {
		p := r.payload(r.random.IntN(below))
		lent := slices.Clone(p)
		number, err := r.log.Append(lent, uint64(len(r.records)+1))
		require.NoError(r.t, err)
		clear(lent)
		r.records = append(r.records, p)
		require.EqualValues(r.t, len(r.records), number)
	}
}

// appendDurable appends records one by one, each in a group of its own.
func (r *rig) appendDurable(count, below int) {
	for range count {
		r.append(1, below)
		require.NoError(r.t, r.log.Wait(uint64(len(r.records))))
	}
}

func (r *rig) free(through uint64) {
	r.freed = max(r.freed, through)
	r.promise.set(func() { r.promise.freed = r.freed })
	require.NoError(r.t, r.log.Free(through))
}

// after returns a rig for the disk that a crash of this one left.
func (r *rig) after(fs vfs.FS) *rig {
	next := *r
	next.fs, next.options.FS, next.log, next.promise = fs, fs, nil, &promise{freed: r.freed}
	next.records = r.records[:len(r.records):len(r.records)]
	return &next
}
