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

// A mirrored log file begins with a page that Pebble does not see, the header. Then each page of
// the log comes twice, one copy behind the other. A write of Pebble's covers whole pages with both
// copies, so it is one write to consecutive blocks of the disk, and one sync covers it.
//
// A bit or a sector that is damaged later lies in one copy of a page. The other copy has every
// acknowledged byte, also that of the last write before a crash. A write that a crash cuts off
// leaves no valid chunk in either copy, or a whole one, which is kept.
//
// Two other designs cost more (BenchmarkMirroredSync, median sync on two cores). A copy at a place
// of its own in the same file took 1.2 to 1.35 times as long. A second file beside the log took 1.7
// times.
const (
	pageBytes   = 4096
	copies      = 2
	headerBytes = 24
	headerMagic = 0x50575243

	// LogBytes is the length of the file of a log with the records of a full memtable.
	LogBytes = pageBytes + copies*MemTableSize
)

// fileHeader is the header of a log's file: the log, and the log that used the file before.
type fileHeader struct {
	log, before uint64
}

// A log's file begins with a chunk that Pebble reads as a record too short for a batch: a program
// that does not know mirrors then refuses the store, where it would take a log without valid
// records for an empty one.
const (
	barrier  = "mirrored" // a batch has 12 bytes at least
	headerAt = 32
)

// encodeHeader returns the first page of a log's file.
func (h fileHeader) encodeHeader() []byte {
	b := make([]byte, pageBytes)
	binary.LittleEndian.PutUint16(b[4:], uint16(len(barrier)))
	b[6] = fullType
	binary.LittleEndian.PutUint32(b[plainHeader:], uint32(h.log))
	copy(b[numberedHeader:], barrier)
	binary.LittleEndian.PutUint32(b, maskedChecksum(b[6:numberedHeader+len(barrier)]))
	own := b[headerAt : headerAt+headerBytes]
	binary.LittleEndian.PutUint32(own, headerMagic)
	binary.LittleEndian.PutUint64(own[8:], h.log)
	binary.LittleEndian.PutUint64(own[16:], h.before)
	binary.LittleEndian.PutUint32(own[4:], crc32.Checksum(own[8:], castagnoli))
	return b
}

// readHeader reads the header of a log's file; ok is false when it has none or a damaged one. It
// fails with the disk's error.
func readHeader(f vfs.File) (h fileHeader, ok bool, err error) {
	b := make([]byte, headerAt+headerBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fileHeader{}, false, err
	}
	own := b[headerAt:]
	if n < len(b) || binary.LittleEndian.Uint32(own) != headerMagic ||
		binary.LittleEndian.Uint32(own[4:]) != crc32.Checksum(own[8:], castagnoli) {
		return fileHeader{}, false, nil
	}
	return fileHeader{binary.LittleEndian.Uint64(own[8:]), binary.LittleEndian.Uint64(own[16:])}, true, nil
}

// pageAt is the offset in the file of a copy of a page of the log.
func pageAt(page int64, copy int64) int64 { return pageBytes + (page*copies+copy)*pageBytes }

// logWriter is the file of a log that Pebble writes. Pebble writes and syncs it from one goroutine
// at a time.
type logWriter struct {
	vfs.File
	number uint64
	list   func() error // lists the log in the integrity file; called before the first sync returns
	notes  *syncedLogs
	roomy  func(bytes int64) bool

	end    atomic.Int64 // the written length of the log
	tail   []byte       // the bytes of the last, unfilled page of the log
	listed bool
	broken error
	buffer []byte
}

// newLogWriter writes the header of a log; the first sync makes it durable. It fails with the
// disk's error.
func newLogWriter(f vfs.File, number, before uint64, list func() error) (*logWriter, error) {
	w := &logWriter{File: f, number: number, list: list, tail: make([]byte, 0, pageBytes),
		buffer: make([]byte, 0, copies*(blockBytes+2*pageBytes))}
	_, err := f.WriteAt(fileHeader{number, before}.encodeHeader(), 0)
	return w, err
}

// Write implements vfs.File: it writes each page of the log twice. It fails with the disk's error,
// and then for every later call.
func (w *logWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		piece := p[n:min(n+blockBytes, len(p))]
		if err := w.writePiece(piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// writePiece writes at most a block: the page of the tail and those after it, each twice. It fails
// as Write does.
func (w *logWriter) writePiece(p []byte) error {
	if w.broken != nil {
		return w.broken
	}
	end := w.end.Load()
	w.buffer = w.buffer[:0]
	for rest := p; len(rest) > 0; {
		n := min(pageBytes-len(w.tail), len(rest))
		w.tail, rest = append(w.tail, rest[:n]...), rest[n:]
		for range copies {
			at := len(w.buffer)
			w.buffer = append(w.buffer, w.tail...)
			w.buffer = w.buffer[:at+pageBytes]
			clear(w.buffer[at+len(w.tail):])
		}
		if len(w.tail) == pageBytes {
			w.tail = w.tail[:0]
		}
	}
	if _, err := w.File.WriteAt(w.buffer, pageAt(end/pageBytes, 0)); err != nil {
		return w.failWith(err)
	}
	w.end.Store(end + int64(len(p)))
	return nil
}

// failWith keeps and returns the first failure, after which the file may end anywhere.
func (w *logWriter) failWith(err error) error {
	w.broken = fmt.Errorf("log %06d: %w", w.number, err)
	return w.broken
}

// Sync is vfs.File's.
func (w *logWriter) Sync() error { return w.syncBy(w.File.Sync) }

// SyncData is vfs.File's.
func (w *logWriter) SyncData() error { return w.syncBy(w.File.SyncData) }

// syncBy syncs the log, lists it in the integrity file at the first sync with records, and has its
// length noted. It fails with the disk's error, and then for every later call.
func (w *logWriter) syncBy(sync func() error) error {
	if w.broken != nil {
		return w.broken
	}
	end := w.end.Load()
	if err := sync(); err != nil {
		return w.failWith(err)
	}
	if !w.listed && end > 0 {
		if err := w.list(); err != nil {
			return w.failWith(err)
		}
		w.listed = true
	}
	if end > 0 {
		w.notes.advance(w.number, end)
	}
	return nil
}

// Close implements vfs.File. It notes the log's length, which is final. It fails with the disk's
// error.
func (w *logWriter) Close() error {
	if w.listed && w.broken == nil {
		w.notes.save()
	}
	return w.File.Close()
}

// SyncTo implements vfs.File: length counts the bytes of the log. It fails with the disk's error.
func (w *logWriter) SyncTo(length int64) (bool, error) {
	return w.File.SyncTo(pageBytes + copies*length)
}

// Preallocate implements vfs.File. On a disk with little room it does nothing, and the log grows
// page by page. It fails with the disk's error.
func (w *logWriter) Preallocate(offset, length int64) error {
	if !w.roomy(pageBytes + copies*length) {
		return nil
	}
	return w.File.Preallocate(copies*offset, pageBytes+copies*length)
}

// Read implements vfs.File and always fails: a log is read through a file of its own.
func (*logWriter) Read([]byte) (int, error) {
	return 0, errors.New("pebblegate: a log is open for writing")
}

// logReader shows the records of a mirrored log up to an end. Of the pages in second it shows the
// second copy.
type logReader struct {
	vfs.File
	at, end int64
	second  map[int64]bool
}

// Read implements vfs.File. It ends with io.EOF, and fails with the disk's error.
func (r *logReader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.at)
	r.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File: offset counts the bytes of the log. It ends with io.EOF, and fails
// with the disk's error.
func (r *logReader) ReadAt(p []byte, offset int64) (int, error) {
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		page, within := at/pageBytes, at%pageBytes
		size := min(int64(len(p)-n), pageBytes-within, r.end-at)
		if size <= 0 {
			return n, io.EOF
		}
		copy := int64(0)
		if r.second[page] {
			copy = 1
		}
		read, err := r.File.ReadAt(p[n:n+int(size)], pageAt(page, copy)+within)
		if n += read; err != nil {
			return n, err
		}
	}
	return n, nil
}
