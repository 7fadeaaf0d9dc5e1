package wal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/pebblegate/damagetest"
)

// image is a disk with a log of some segments, and the places of its frames.
type image struct {
	rig   *rig
	fs    *vfs.MemFS
	older *vfs.MemFS // the same disk, some groups before
	paths []string   // of the segments in use
	ends  []int64    // their logical ends
}

// newImage returns a log that a crash ended in a busy moment, without a note, or that was closed.
func newImage(t *testing.T, closed bool) (m image) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		r := newRig(t, disk)
		r.open(0)
		r.appendDurable(12, 2_500)
		m.older = disk.CrashClone(vfs.CrashCloneCfg{})
		synctest.Wait()
		r.appendDurable(18, 2_500)
		time.Sleep(noteAfter / 2) // the next segment gets ready
		if closed {
			require.NoError(t, r.log.Close())
		}
		m.rig, m.fs = r.after(disk), disk.CrashClone(vfs.CrashCloneCfg{})
		if !closed {
			require.NoError(t, r.log.Close())
		}
		for _, held := range r.log.segments.held {
			m.paths = append(m.paths, r.log.segments.segmentPath(held.number))
			m.ends = append(m.ends, smallSegment)
		}
		m.ends[len(m.ends)-1] = r.log.writer.segment.end
		require.Greater(t, len(m.paths), 2)
	})
	m.rig.t = t
	return m
}

// damaged returns a copy of the disk with a changed file.
func (m image) damaged(t testing.TB, path string, change func(data []byte) []byte) *vfs.MemFS {
	fs := clone(m.fs)
	writeFile(t, fs, path, change(readFile(t, fs, path)))
	return fs
}

func clone(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// tryOpen opens a copy of the disk and returns the number of its records.
func (m image) tryOpen(fs vfs.FS) (records int, err error) {
	r := m.rig.after(fs)
	if err := r.tryOpen(0); err != nil {
		return 0, err
	}
	return len(r.records), r.log.Close()
}

// Damage to one place of a file is refused, or is not of the log: a flipped bit, or a sector that is
// zeroed or older. After a crash in a busy moment the groups in the page of the last one look like
// those of a write that was not synced.
func TestDamageIsRefusedOrHarmless(t *testing.T) {
	for _, closed := range []bool{false, true} {
		m := newImage(t, closed)
		unproven := 0
		if page := m.lastFrame(t) / pageBytes * pageBytes; !closed {
			m.eachFrame(t, m.paths[len(m.paths)-1], func(at int64, f frame) {
				if at+int64(f.bytes()) > page {
					unproven += f.records
				}
			})
		}
		o := damagetest.Sweep(t, damagetest.Disk{Name: "log", FS: m.fs, Older: m.older, Dir: "log",
			Open: func(fs *vfs.MemFS) (int, error) {
				n, err := m.tryOpen(fs)
				return max(0, len(m.rig.records)-unproven-n), err
			}}, damagetest.Places(400, 50_000), rand.New(rand.NewPCG(1, 2)))
		require.Zero(t, o.Lost, "%v", o.Losses)
		require.Greater(t, o.Refused, o.Places/4)
	}
}

// A log that is never idle notes its length as well: when a crash ends it, the loss of more than the
// groups since the last note is damage.
func TestABusyLogNotesItsLength(t *testing.T) {
	var m image
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		r := newRig(t, disk)
		r.open(0)
		for range 100 {
			r.appendDurable(1, 200)
			time.Sleep(noteAfter / 10)
		}
		m.rig, m.fs = r.after(disk), disk.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, r.log.Close())
		for _, held := range r.log.segments.held {
			m.paths = append(m.paths, r.log.segments.segmentPath(held.number))
		}
	})
	m.rig.t = t
	path := m.paths[len(m.paths)-1]
	var places []int64
	m.eachFrame(t, path, func(at int64, _ frame) { places = append(places, at) })
	for lost := 1; lost < min(len(places), 40); lost++ {
		fs := m.damaged(t, path, func(data []byte) []byte {
			clear(data[placeInFile(places[len(places)-lost]):])
			return data
		})
		n, err := m.tryOpen(fs)
		if lost > 12 {
			require.ErrorIs(t, err, ErrDamaged, "the last %d groups", lost)
		} else if err == nil {
			require.GreaterOrEqual(t, n, len(m.rig.records)-lost)
		}
	}
}

// A header with one invalid slot gets it written again.
func TestAHeaderSlotIsRepaired(t *testing.T) {
	m := newImage(t, true)
	for slot := range headerSlots {
		fs := m.damaged(t, m.paths[0], func(data []byte) []byte { data[slot*slotBytes+40] ^= 1; return data })
		_, err := m.tryOpen(fs)
		require.NoError(t, err)
		data := readFile(t, fs, m.paths[0])
		data[(1-slot)*slotBytes+40] ^= 1
		writeFile(t, fs, m.paths[0], data)
		n, err := m.tryOpen(fs)
		require.NoError(t, err)
		require.Len(t, m.rig.records, n)
	}
}

// Damage to a synced group is refused by file and offset.
func TestDamageToAGroupIsRefused(t *testing.T) {
	for _, closed := range []bool{false, true} {
		m := newImage(t, closed)
		last := m.lastFrame(t)
		for i, path := range m.paths {
			for at := int64(0); at < m.ends[i]; at += 113 {
				fs := m.damaged(t, path, func(data []byte) []byte { data[placeInFile(at)] ^= 1; return data })
				n, err := m.tryOpen(fs)
				switch {
				case err != nil:
					require.ErrorIs(t, err, ErrDamaged)
					require.ErrorContains(t, err, path)
					require.ErrorContains(t, err, "byte ")
				case !closed && i == len(m.paths)-1 && at >= last:
					require.GreaterOrEqual(t, n, len(m.rig.records)-1)
				default:
					require.EqualValues(t, len(m.rig.records), n, "%s at %d", path, at)
					require.True(t, m.isPadding(t, path, at), "%s at %d", path, at)
				}
			}
		}
	}
}

// lastFrame returns the place of the last group.
func (m image) lastFrame(t *testing.T) (at int64) {
	m.eachFrame(t, m.paths[len(m.paths)-1], func(place int64, _ frame) { at = place })
	return at
}

// isPadding reports whether no byte of a frame is at a place.
func (m image) isPadding(t *testing.T, path string, at int64) bool {
	padding := true
	m.eachFrame(t, path, func(place int64, f frame) {
		if at >= place && at < place+frameHeader+int64(f.payload) {
			padding = false
		}
	})
	return padding
}

func (m image) eachFrame(t *testing.T, path string, visit func(at int64, f frame)) {
	f, err := m.fs.Open(path)
	require.NoError(t, err)
	number := uint64(slices.Index(m.paths, path) + 1)
	r, err := newSegmentReader(f, path, testStore, number)
	require.NoError(t, err)
	require.NoError(t, r.findFrames(0, func(f frame, at int64) bool { visit(at, f); return true }))
	require.NoError(t, f.Close())
}
