package pebblegate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A mirrored log file begins with a mirror that Pebble does not see: a header and a ring of frames.
// Each write to the log is written twice, at its place in the log and as a frame of the ring. One
// sync covers both. A frame also holds the synced length of the log before it, and the checksum of
// the log up to there.
//
// The newest frame proves the log up to the last sync but one. Later writes have frames, from which
// they are repaired. A torn write that was never acknowledged has no whole copy and is dropped. The
// obvious design, a second file with the synced length, costs a second sync and cannot tell a torn
// write from damage to the last one.
const (
	// MirrorBytes is the length of the mirror of a log on a disk.
	MirrorBytes = 1 << 20
	// memoryMirrorBytes is the length in memory, where a sync costs nothing and a long file costs
	// copies.
	memoryMirrorBytes = 64 << 10

	mirrorHeader = 4096
	headerBytes  = 28
	frameHeader  = 48
	frameAlign   = 64
	blocksOfRing = 16 // a frame takes at most this part of the mirror, and one of Pebble's blocks

	headerMagic = 0x50575243
	frameMagic  = 0x50574d46
)

// geometry holds the bounds that follow from the length of a mirror.
type geometry struct {
	mirror  int64
	payload int // the most of a frame
	// unsynced bounds the frames since the last sync. A write past it syncs first, and so spares the
	// frames of the last sync.
	unsynced int64
}

func geometryOf(mirror int64) geometry {
	g := geometry{mirror: mirror, payload: int(min(blockBytes, mirror/blocksOfRing))}
	g.unsynced = (mirror-mirrorHeader)/2 - int64(frameHeader+g.payload+frameAlign)
	return g
}

// mirrorFor returns how long the mirror of a new log is.
func mirrorFor(f vfs.File) int64 {
	if f.Fd() == vfs.InvalidFd {
		return memoryMirrorBytes
	}
	return MirrorBytes
}

// validMirror is true of a length that this program writes.
func validMirror(n uint32) bool { return n == MirrorBytes || n == memoryMirrorBytes }

// frame is one write to a log.
type frame struct {
	log, seq  uint64
	from      uint64 // the payload's offset in the log
	synced    uint64 // the synced length of the log before the frame
	syncedSum uint32 // the CRC-32C of that prefix
	mirror    uint32 // the length of the mirror
	payload   []byte
}

func (f *frame) end() uint64 { return f.from + uint64(len(f.payload)) }

// appendTo encodes the frame, padded to frameAlign.
func (f *frame) appendTo(dst []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, frameMagic)
	dst = binary.LittleEndian.AppendUint32(dst, 0) // the sum, below
	dst = binary.LittleEndian.AppendUint64(dst, f.log)
	dst = binary.LittleEndian.AppendUint64(dst, f.seq)
	dst = binary.LittleEndian.AppendUint64(dst, f.from)
	dst = binary.LittleEndian.AppendUint64(dst, f.synced)
	dst = binary.LittleEndian.AppendUint32(dst, f.syncedSum)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.payload))<<1|shortMirror(f.mirror))
	dst = append(dst, f.payload...)
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(dst[at+8:], castagnoli))
	for len(dst)%frameAlign != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// shortMirror is the bit beside a payload's length that says that the mirror is one of memory.
func shortMirror(mirror uint32) uint32 {
	if mirror == memoryMirrorBytes {
		return 1
	}
	return 0
}

// decodeFrame returns the frame at the beginning of b. Its payload is part of b.
func decodeFrame(b []byte) (frame, bool) {
	if len(b) < frameHeader || binary.LittleEndian.Uint32(b) != frameMagic {
		return frame{}, false
	}
	n := binary.LittleEndian.Uint32(b[44:])
	mirror := uint32(MirrorBytes)
	if n&1 == 1 {
		mirror = memoryMirrorBytes
	}
	n >>= 1
	if n > blockBytes || int(n) > len(b)-frameHeader ||
		binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:frameHeader+n], castagnoli) {
		return frame{}, false
	}
	return frame{log: binary.LittleEndian.Uint64(b[8:]), seq: binary.LittleEndian.Uint64(b[16:]),
		from: binary.LittleEndian.Uint64(b[24:]), synced: binary.LittleEndian.Uint64(b[32:]),
		syncedSum: binary.LittleEndian.Uint32(b[40:]), mirror: mirror, payload: b[frameHeader : frameHeader+n]}, true
}

// fileHeader is the header of a log's file: the log, the log whose file it was before, and the
// length of the mirror.
type fileHeader struct {
	log, before uint64
	mirror      uint32
}

// A log's file begins with a chunk that Pebble reads as a record too short for a batch: a program
// that does not know mirrors then refuses the store, where it would take a log without valid
// records for an empty one.
const (
	barrier  = "mirrored" // a batch has 12 bytes at least
	headerAt = 32
)

func (h fileHeader) encodeHeader() []byte {
	b := make([]byte, headerAt+headerBytes)
	binary.LittleEndian.PutUint16(b[4:], uint16(len(barrier)))
	b[6] = fullType
	binary.LittleEndian.PutUint32(b[plainHeader:], uint32(h.log))
	copy(b[numberedHeader:], barrier)
	binary.LittleEndian.PutUint32(b, maskedChecksum(b[6:numberedHeader+len(barrier)]))
	own := b[headerAt:]
	binary.LittleEndian.PutUint32(own, headerMagic)
	binary.LittleEndian.PutUint64(own[8:], h.log)
	binary.LittleEndian.PutUint64(own[16:], h.before)
	binary.LittleEndian.PutUint32(own[24:], h.mirror)
	binary.LittleEndian.PutUint32(own[4:], crc32.Checksum(own[8:], castagnoli))
	return b
}

// decodeHeader reads the header of a log's file.
func decodeHeader(b []byte) (h fileHeader, ok bool) {
	if len(b) < headerAt+headerBytes {
		return fileHeader{}, false
	}
	own := b[headerAt : headerAt+headerBytes]
	if binary.LittleEndian.Uint32(own) != headerMagic ||
		binary.LittleEndian.Uint32(own[4:]) != crc32.Checksum(own[8:], castagnoli) {
		return fileHeader{}, false
	}
	h = fileHeader{log: binary.LittleEndian.Uint64(own[8:]), before: binary.LittleEndian.Uint64(own[16:]),
		mirror: binary.LittleEndian.Uint32(own[24:])}
	return h, validMirror(h.mirror)
}

// logWriter is the file of a log that Pebble writes. Pebble writes and syncs it from one goroutine
// at a time.
type logWriter struct {
	vfs.File
	geometry
	number uint64
	list   func() error // lists the log in the integrity file; called before the first sync returns

	end       atomic.Uint64 // the written length of the log
	seq       uint64
	sum       uint32 // the CRC-32C of the log up to end
	synced    uint64
	syncedSum uint32
	ring      int64 // the next frame's offset in the file
	pending   int64 // bytes of frames since the last sync
	listed    bool
	broken    error
	buffer    []byte
}

// newLogWriter writes the header; the first sync makes it durable.
func newLogWriter(f vfs.File, number, before uint64, list func() error) (*logWriter, error) {
	g := geometryOf(mirrorFor(f))
	w := &logWriter{File: f, geometry: g, number: number, list: list, ring: mirrorHeader,
		buffer: make([]byte, 0, frameHeader+g.payload+frameAlign)}
	_, err := f.WriteAt(fileHeader{number, before, uint32(g.mirror)}.encodeHeader(), 0)
	return w, err
}

// Write is vfs.File's.
func (w *logWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		piece := p[n:min(n+w.payload, len(p))]
		if err := w.writePiece(piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func (w *logWriter) writePiece(p []byte) error {
	if w.broken != nil {
		return w.broken
	}
	if w.pending > w.unsynced {
		if err := w.SyncData(); err != nil {
			return err
		}
	}
	end := w.end.Load()
	w.seq++
	f := frame{log: w.number, seq: w.seq, from: end, synced: w.synced, syncedSum: w.syncedSum,
		mirror: uint32(w.mirror), payload: p}
	w.buffer = f.appendTo(w.buffer[:0])
	if w.ring+int64(len(w.buffer)) > w.mirror {
		w.ring = mirrorHeader
	}
	w.sum = crc32.Update(w.sum, castagnoli, p)
	if _, err := w.File.WriteAt(w.buffer, w.ring); err != nil {
		return w.failWith(err)
	}
	if _, err := w.File.WriteAt(p, w.mirror+int64(end)); err != nil {
		return w.failWith(err)
	}
	w.ring += int64(len(w.buffer))
	w.pending += int64(len(w.buffer))
	w.end.Store(end + uint64(len(p)))
	return nil
}

// failWith keeps the first failure, after which file and frames may differ.
func (w *logWriter) failWith(err error) error {
	w.broken = fmt.Errorf("log %06d: %w", w.number, err)
	return w.broken
}

// Sync is vfs.File's.
func (w *logWriter) Sync() error { return w.syncBy(w.File.Sync) }

// SyncData is vfs.File's.
func (w *logWriter) SyncData() error { return w.syncBy(w.File.SyncData) }

func (w *logWriter) syncBy(sync func() error) error {
	if w.broken != nil {
		return w.broken
	}
	if err := sync(); err != nil {
		return w.failWith(err)
	}
	if !w.listed && w.end.Load() > 0 {
		if err := w.list(); err != nil {
			return w.failWith(err)
		}
		w.listed = true
	}
	w.synced, w.syncedSum, w.pending = w.end.Load(), w.sum, 0
	return nil
}

// SyncTo is vfs.File's: length counts the bytes of the log.
func (w *logWriter) SyncTo(length int64) (bool, error) { return w.File.SyncTo(length + w.mirror) }

// Preallocate is vfs.File's.
func (w *logWriter) Preallocate(offset, length int64) error {
	if offset == 0 {
		return w.File.Preallocate(0, length+w.mirror)
	}
	return w.File.Preallocate(offset+w.mirror, length)
}

// Read is vfs.File's; a log is read through a file of its own.
func (*logWriter) Read([]byte) (int, error) {
	return 0, errors.New("pebblegate: a log is open for writing")
}

// logReader shows the records of a mirrored log up to an end.
type logReader struct {
	vfs.File
	mirror, at, end int64
}

// Read is vfs.File's.
func (r *logReader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.at)
	r.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt is vfs.File's.
func (r *logReader) ReadAt(p []byte, offset int64) (int, error) {
	left := r.end - offset
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := r.File.ReadAt(p[:min(int64(len(p)), left)], offset+r.mirror)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}
