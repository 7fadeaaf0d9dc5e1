package pebblegate

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const pagesPerBlock = blockBytes / pageBytes

func isNotExist(err error) bool { return oserror.IsNotExist(err) }

// recoverLog opens a mirrored log of an earlier start. It follows the chunks, and shows the second
// copy of a page where that yields more valid chunks than the first. It follows them to the first
// chunk that is valid in neither, which is where the log ends, or where Pebble refuses it. It
// returns that length of the log, which is math.MaxInt64 for a closed one. It fails only with the
// disk's error.
func recoverLog(path string, f vfs.File, number uint64) (r *logReader, valid int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	length := max(0, info.Size()-pageBytes)
	r = &logReader{File: f, second: map[int64]bool{}}
	// A crash can cut the file off within the copies of the last page. A last page without a
	// second copy is read all the same. One without a whole first copy is read as far as that
	// copy goes.
	whole, rest := length/(copies*pageBytes), length%(copies*pageBytes)
	r.end = whole*pageBytes + min(rest, pageBytes)
	b := mirroredBlock{log: uint32(number), physical: make([]byte, copies*blockBytes)}
	for block := int64(0); block*blockBytes < r.end; block++ {
		n, err := f.ReadAt(b.physical, pageAt(block*pagesPerBlock, 0))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, fmt.Errorf("read %s: %w", path, err)
		}
		clear(b.physical[n:])
		end, more := b.chooseCopies()
		for page, second := range b.second {
			if second {
				r.second[block*pagesPerBlock+int64(page)] = true
				slog.Warn("a damaged page of a write-ahead log is read from its second copy", "file", path,
					"offset", pageAt(block*pagesPerBlock+int64(page), 0))
			}
		}
		valid = block*blockBytes + int64(end)
		switch {
		case end == closedLog:
			return r, math.MaxInt64, nil
		case !more:
			return r, valid, nil
		}
	}
	return r, valid, nil
}

// mirroredBlock is one block of a log with both copies of its pages.
type mirroredBlock struct {
	log      uint32
	physical []byte
	second   [pagesPerBlock]bool
	view     [blockBytes]byte
}

func (b *mirroredBlock) copyOf(page int, second bool) []byte {
	at := page * copies * pageBytes
	if second {
		at += pageBytes
	}
	return b.physical[at : at+pageBytes]
}

// closedLog is the length of a block with the trailer that ends a log.
const closedLog = -1

// chooseCopies decides which copy of each page is shown. It returns the length of the valid chunks,
// or closedLog, and whether the log continues behind the block. It changes the copy of one page at
// a time as long as that makes the valid part longer: an acknowledged chunk has at most one damaged
// page, in one copy.
func (b *mirroredBlock) chooseCopies() (end int, more bool) {
	b.second = [pagesPerBlock]bool{}
	var differ []int
	for page := range b.second {
		if !bytes.Equal(b.copyOf(page, false), b.copyOf(page, true)) {
			differ = append(differ, page)
		}
	}
	best := b.validLength()
	for improved := true; improved; {
		improved = false
		for _, page := range differ {
			b.second[page] = !b.second[page]
			if n := b.validLength(); n > best {
				best, improved = n, true
			} else {
				b.second[page] = !b.second[page]
			}
		}
	}
	more = best >= 2*blockBytes-1
	if !more && best%2 == 1 {
		return closedLog, false
	}
	return (best + 1) / 2, more
}

// validLength returns twice the length of the valid chunks at the beginning of the chosen
// copies. A trailer after them counts one more. A block that ends with unused bytes counts as
// whole, or one less when the two copies of its last page differ.
func (b *mirroredBlock) validLength() int {
	for page, second := range b.second {
		copy(b.view[page*pageBytes:], b.copyOf(page, second))
	}
	for at := 0; at < blockBytes; {
		c, ok := parseChunk(b.view[at:], b.log)
		switch {
		case !ok:
			return 2 * at
		case c.trailer:
			return 2*at + 1
		case c.skipRest:
			if bytes.Equal(b.copyOf(pagesPerBlock-1, false), b.copyOf(pagesPerBlock-1, true)) {
				return 2 * blockBytes
			}
			return 2*blockBytes - 1
		}
		at += c.bytes
	}
	return 2 * blockBytes
}

// verifyExtent compares a prefix of a file with its extent. It fails for a file that is shorter or
// differs, and with the reader's error.
func verifyExtent(r io.Reader, want extent) error {
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, io.LimitReader(r, int64(want.bytes)), make([]byte, 256<<10))
	switch {
	case err != nil:
		return err
	case uint64(n) < want.bytes:
		return fmt.Errorf("the file ends at byte %d of %d synced bytes", n, want.bytes)
	case sum.Sum32() != want.sum:
		return fmt.Errorf("the first %d bytes differ from the synced ones", want.bytes)
	}
	return nil
}

// readFile reads at most limit bytes of a file. It fails with the disk's error.
func readFile(fs vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}
