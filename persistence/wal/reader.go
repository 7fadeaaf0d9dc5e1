package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// windowBytes is how much of a segment a reader reads at once, unless a frame has more.
const windowBytes = 512 << 10

// segmentReader reads the frames of a segment.
type segmentReader struct {
	file   vfs.File
	path   string
	key    frameKey
	number uint64
	end    int64 // logical bytes of the file

	window []byte // the bytes from start on
	start  int64
	writes []repair
}

// repair is a range of bytes to write into the file.
type repair struct {
	offset int64 // in the file
	data   []byte
}

// newSegmentReader returns a reader of an open file. It fails with the disk's error.
func newSegmentReader(f vfs.File, path string, store [16]byte, number uint64) (*segmentReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("wal: read %s: %w", path, err)
	}
	return &segmentReader{file: f, path: path, key: newFrameKey(store, number), number: number,
		end: max(0, info.Size()-headerBytes)}, nil
}

// loadBytes returns the bytes from a place on, with zeros where the file ends before. They are valid
// until the next call. It fails with the disk's error.
func (r *segmentReader) loadBytes(at int64, length int) ([]byte, error) {
	if skip := at - r.start; skip >= 0 && skip+int64(length) <= int64(len(r.window)) {
		return r.window[skip:][:length], nil
	}
	count := max(length, int(min(windowBytes, r.end-at)))
	r.start, r.window = at, slices.Grow(r.window[:0], count)[:count]
	n, err := r.file.ReadAt(r.window, placeInFile(at))
	if err != nil && !errors.Is(err, io.EOF) {
		r.window = r.window[:0]
		return nil, fmt.Errorf("wal: read %s: %w", r.path, err)
	}
	clear(r.window[n:])
	return r.window[:length], nil
}

// readFrame returns the valid frame at a place with its bytes, which are valid until the next call.
// It fails with the disk's error.
func (r *segmentReader) readFrame(at int64) (f frame, b []byte, found bool, err error) {
	if at+frameHeader > r.end {
		return frame{}, nil, false, nil
	}
	if b, err = r.loadBytes(at, frameHeader); err != nil {
		return frame{}, nil, false, err
	}
	f, found = r.key.parseFrame(b, at)
	if !found || f.segment != r.number || at+int64(f.bytes()) > r.end {
		return frame{}, nil, false, nil
	}
	if b, err = r.loadBytes(at, f.bytes()); err != nil || !f.verifyFrame(b) {
		return frame{}, nil, false, err
	}
	return f, b, true, nil
}

// findFrames visits the valid frames from a place on, until visit returns false. It fails with the
// disk's error.
func (r *segmentReader) findFrames(from int64, visit func(f frame, at int64) bool) error {
	for at := from; at+frameHeader <= r.end; at += frameAlign {
		b, err := r.loadBytes(at, frameHeader)
		if err != nil {
			return err
		}
		if tag := binary.LittleEndian.Uint32(b); tag == 0 || tag != r.key.tagAt(at) {
			continue
		}
		f, _, found, err := r.readFrame(at)
		if err != nil {
			return err
		}
		if found && !visit(f, at) {
			return nil
		}
	}
	return nil
}
