package wal

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// pageBytes is the unit of a write: a group begins with the page that the one before left unfilled.
const pageBytes = 4096

// placeInFile returns the offset in the file of a logical byte.
func placeInFile(at int64) int64 { return headerBytes + at }

// fileBytes returns the length of the file of a segment of so many logical bytes.
func fileBytes(capacity int64) int64 { return placeInFile(capacity) }

// segment is the file that the writer appends to. One goroutine uses it.
type segment struct {
	file     vfs.File
	path     string
	store    [16]byte
	key      frameKey
	capacity int64 // logical bytes
	header         // as it was last written

	end    int64  // logical end of the written frames
	tail   []byte // bytes of the last, unfilled page
	buffer []byte // of the next write
}

// fits reports whether a frame of so many bytes fits, with the seal behind it.
func (s *segment) fits(bytes int) bool {
	end := frameStart(s.end) + int64(bytes)
	return frameStart(end)+sealBytes <= s.capacity
}

// beginSegment writes both header slots with the number of the first record, and syncs them. No
// frame of the segment is written before. It fails with the disk's error.
func (s *segment) beginSegment(first uint64) error {
	s.header = header{segment: s.segment, first: first, counter: headerSlots}
	if _, err := s.file.WriteAt(s.encodeBoth(s.store), 0); err != nil {
		return fmt.Errorf("wal: write the header of %s: %w", s.path, err)
	}
	return s.syncData()
}

// writeFrame writes a frame at frameStart of the end, with the bytes of its first page before it
// and zeros to the end of its last. It fails with the disk's error.
func (s *segment) writeFrame(b []byte) error {
	at := frameStart(s.end)
	page := at / pageBytes * pageBytes
	if at == page {
		s.tail = s.tail[:0]
	}
	s.buffer = append(append(s.buffer[:0], s.tail...), zeroPage[:at-page-int64(len(s.tail))]...)
	s.buffer = append(s.buffer, b...)
	if rest := len(s.buffer) % pageBytes; rest > 0 {
		s.buffer = append(s.buffer, zeroPage[rest:]...)
	}
	if _, err := s.file.WriteAt(s.buffer, placeInFile(page)); err != nil {
		return fmt.Errorf("wal: write %s: %w", s.path, err)
	}
	s.extendTail(at, b)
	return nil
}

var zeroPage [pageBytes]byte

// extendTail moves the end behind a frame at a place, and keeps the bytes of the last page.
func (s *segment) extendTail(at int64, b []byte) {
	s.end = at + int64(len(b))
	page := s.end / pageBytes * pageBytes
	switch {
	case at < page:
		s.tail = append(s.tail[:0], b[page-at:]...)
	case at == page:
		s.tail = append(s.tail[:0], b...)
	default:
		s.tail = append(s.tail, b...)
	}
}

// syncData makes the written frames durable. It fails with the disk's error.
func (s *segment) syncData() error {
	if err := s.file.SyncData(); err != nil {
		return fmt.Errorf("wal: sync %s: %w", s.path, err)
	}
	return nil
}

// writeNote writes into the older header slot that the segment is synced up to its end. It fails
// with the disk's error.
func (s *segment) writeNote() error {
	h := s.header
	h.noted, h.counter = s.end, h.counter+1
	if _, err := s.file.WriteAt(h.encodeSlot(s.store), slotAt(h.counter)); err != nil {
		return fmt.Errorf("wal: write the header of %s: %w", s.path, err)
	}
	s.header = h
	return nil
}

// sealSegment ends a segment whose frames are synced with a frame that names the next one. It
// returns when the seal is durable, and fails with the disk's error.
func (s *segment) sealSegment(successor, next uint64) error {
	if err := s.writeNote(); err != nil {
		return err
	}
	at := frameStart(s.end)
	seal := newSeal(s.key, at, frame{segment: s.segment, first: next, synced: next - 1}, successor)
	if err := s.writeFrame(seal); err != nil {
		return err
	}
	return s.syncData()
}
