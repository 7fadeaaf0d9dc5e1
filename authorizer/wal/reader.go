package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// windowPages is how many logical pages a reader reads at once, unless a frame has more.
const windowPages = 128

// segmentReader reads the frames of a segment from both copies of its pages.
type segmentReader struct {
	file   vfs.File
	path   string
	key    frameKey
	number uint64
	pages  int64 // logical pages of the file; the copies of the last one may be cut off

	window  []byte // both copies of the pages from start on
	start   int64
	view    []byte // the frame in the combination of copies that is tried
	repairs []repair
}

// repair is a range of bytes to write into one copy of a page.
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
	length := max(0, info.Size()-headerBytes)
	return &segmentReader{file: f, path: path, key: newFrameKey(store, number), number: number,
		pages: (length + copies*pageBytes - 1) / (copies * pageBytes)}, nil
}

// loadPages reads the pages from first to last into the window, and zeros where the file ends before. It
// fails with the disk's error.
func (r *segmentReader) loadPages(first, last int64) error {
	loaded := int64(len(r.window)) / (copies * pageBytes)
	if first >= r.start && last < r.start+loaded {
		return nil
	}
	count := max(last-first+1, min(windowPages, r.pages-first))
	r.start = first
	r.window = slices.Grow(r.window[:0], int(count)*copies*pageBytes)[:count*copies*pageBytes]
	n, err := r.file.ReadAt(r.window, pageAt(first, 0))
	if err != nil && !errors.Is(err, io.EOF) {
		r.window = r.window[:0]
		return fmt.Errorf("wal: read %s: %w", r.path, err)
	}
	clear(r.window[n:])
	return nil
}

// copyOf returns a copy of a loaded page.
func (r *segmentReader) copyOf(page int64, copy int) []byte {
	at := ((page-r.start)*copies + int64(copy)) * pageBytes
	return r.window[at : at+pageBytes]
}

// part is the range of a page that a frame covers.
type part struct {
	page     int64
	from, to int
}

// partsOf returns the parts of pages of the bytes from at on.
func partsOf(at int64, length int) []part {
	parts := make([]part, 0, length/pageBytes+2)
	for end := at + int64(length); at < end; {
		page := at / pageBytes
		next := min(end, (page+1)*pageBytes)
		parts = append(parts, part{page: page, from: int(at - page*pageBytes), to: int(next - page*pageBytes)})
		at = next
	}
	return parts
}

// readFrame returns the frame at a place with its bytes, which are valid until the next call. It
// takes the first combination of copies in which the frame is valid: all first ones, all second
// ones, and each of these with the other copy of one page. It fails with the disk's error.
func (r *segmentReader) readFrame(at int64) (f frame, b []byte, found bool, err error) {
	page := at / pageBytes
	if page >= r.pages {
		return frame{}, nil, false, nil
	}
	var tried frame
	for copy := range copies {
		if err := r.loadPages(page, page); err != nil {
			return frame{}, nil, false, err
		}
		f, ok := r.key.parseFrame(r.copyOf(page, copy)[at%pageBytes:], at)
		if !ok || f == tried || f.segment != r.number || at+int64(f.bytes()) > r.pages*pageBytes {
			continue
		}
		tried = f
		if err := r.loadPages(page, (at+int64(f.bytes())-1)/pageBytes); err != nil {
			return frame{}, nil, false, err
		}
		if r.chooseCopies(f, at) {
			return f, r.view, true, nil
		}
	}
	return frame{}, nil, false, nil
}

// chooseCopies looks for a combination of copies in which a frame is valid, and leaves it in the
// view. A frame that was synced has at most one damaged page in each copy. A frame of a torn write
// may be valid in a combination that is not tried: it was never synced.
func (r *segmentReader) chooseCopies(f frame, at int64) bool {
	parts := partsOf(at, f.bytes())
	var differing []int
	for i, p := range parts {
		if !bytes.Equal(r.copyOf(p.page, 0)[p.from:p.to], r.copyOf(p.page, 1)[p.from:p.to]) {
			differing = append(differing, i)
		}
	}
	for _, flipped := range append([]int{-1}, differing...) {
		for base := range copies {
			if r.assembleView(parts, base, flipped); f.matches(r.key, r.view, at) {
				return true
			}
		}
	}
	return false
}

// matches reports whether b is the whole frame of a header at a place.
func (f frame) matches(k frameKey, b []byte, at int64) bool {
	parsed, ok := k.parseFrame(b, at)
	return ok && parsed == f && f.verifyFrame(b)
}

// assembleView fills the view from one copy of all parts but the flipped one.
func (r *segmentReader) assembleView(parts []part, base, flipped int) {
	r.view = r.view[:0]
	for i, p := range parts {
		copy := base
		if i == flipped {
			copy = 1 - base
		}
		r.view = append(r.view, r.copyOf(p.page, copy)[p.from:p.to]...)
	}
}

// repairFrame keeps the writes that make both copies of a frame in the view whole.
func (r *segmentReader) repairFrame(at int64) {
	rest := r.view
	for _, p := range partsOf(at, len(r.view)) {
		good := rest[:p.to-p.from]
		rest = rest[p.to-p.from:]
		for copy := range copies {
			if !bytes.Equal(r.copyOf(p.page, copy)[p.from:p.to], good) {
				r.repairs = append(r.repairs, repair{pageAt(p.page, copy) + int64(p.from), bytes.Clone(good)})
			}
		}
	}
}

// findFrames visits the valid frames from a place on, in both copies, until visit returns false. It
// fails with the disk's error.
func (r *segmentReader) findFrames(from int64, visit func(f frame, at int64) bool) error {
	for page := from / pageBytes; page < r.pages; page++ {
		for copy := range copies {
			for at := max(from, page*pageBytes); at%pageBytes <= pageBytes-frameHeader; at += frameAlign {
				if err := r.loadPages(page, page); err != nil {
					return err
				}
				tag := binary.LittleEndian.Uint32(r.copyOf(page, copy)[at%pageBytes:])
				if tag == 0 || tag != r.key.tagAt(at) {
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
		}
	}
	return nil
}
