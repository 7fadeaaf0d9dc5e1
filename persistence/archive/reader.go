package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"purser/persistence"
	"purser/persistence/dataformat"
)

// Reader reads one archive, once.
type Reader struct {
	from     io.Reader
	sum      hash.Hash // hashes the header and the blocks
	identity persistence.Identity
	block    []byte
	order    order
	counts   persistence.Counts
	ended    Sum
}

// NewReader reads the header. The reader does not close r. It fails with ErrForm for a file of
// another form, with ErrDamaged for a damaged header, and with r's error.
func NewReader(r io.Reader) (*Reader, error) {
	a := &Reader{from: r, sum: sha256.New()}
	header := make([]byte, headerBytes+4)
	if err := a.readFull(header); err != nil {
		return nil, err
	}
	digit := header[len(magic)-1]
	if !bytes.HasPrefix(header, []byte(magic[:len(magic)-1])) || digit < '0' || digit > '9' {
		return nil, fmt.Errorf("%w: it begins with %q", ErrForm, header[:len(magic)])
	}
	err := dataformat.Require("its format", int64(digit-'0'), int64(magic[len(magic)-1]-'0'),
		"read it with the program that wrote it")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if binary.BigEndian.Uint32(header[headerBytes:]) != crc32.Checksum(header[:headerBytes], castagnoliTable()) {
		return nil, fmt.Errorf("%w: the header's checksum differs", ErrDamaged)
	}
	a.sum.Write(header)
	copy(a.identity.Deployment[:], header[len(magic):])
	copy(a.identity.Store[:], header[len(magic)+16:])
	return a, nil
}

// Identity returns the identity of the journal that was archived.
func (a *Reader) Identity() persistence.Identity { return a.identity }

// Sum returns what the archive ended with, once the content has ended without an error.
func (a *Reader) Sum() Sum { return a.ended }

// readFull fills b. An archive that ends before is ErrDamaged; other failures are the underlying
// reader's.
func (a *Reader) readFull(b []byte) error {
	_, err := io.ReadFull(a.from, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut short after %s", ErrDamaged, a.counts)
	}
	return err
}

// Content reads the parts, and compares the sum at the end with them. It can be iterated once. It
// ends with ErrDamaged for an altered or truncated archive, or with the underlying reader's error.
// Parts that were yielded before such an error cannot be trusted.
func (a *Reader) Content() persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		for {
			last, err := a.readFrame()
			if err == nil && last {
				err = a.checkEndFrame()
			} else if err == nil {
				if err = a.yieldParts(yield); errors.Is(err, errEnough) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if last {
				return
			}
		}
	}
}

// errEnough: the caller has stopped the iteration.
var errEnough = errors.New("enough")

// readFrame reads a frame and its contents into block, and reports whether it is the end frame. It
// fails with ErrDamaged for a frame that is cut off or whose checksum differs, and with the
// underlying reader's error.
func (a *Reader) readFrame() (last bool, err error) {
	var frame [frameBytes]byte
	if err := a.readFull(frame[:]); err != nil {
		return false, err
	}
	size := binary.BigEndian.Uint32(frame[1:])
	if frame[0] != frameBlock && frame[0] != frameEnd || size > MaxBlock {
		return false, fmt.Errorf("%w: no block after %s", ErrDamaged, a.counts)
	}
	if uint32(cap(a.block)) < size {
		a.block = make([]byte, size)
	}
	a.block = a.block[:size]
	if err := a.readFull(a.block); err != nil {
		return false, err
	}
	if binary.BigEndian.Uint32(frame[5:]) != frameCRC(frame[:], a.block) {
		return false, fmt.Errorf("%w: the checksum of the block after %s differs", ErrDamaged, a.counts)
	}
	if frame[0] == frameEnd {
		return true, nil
	}
	a.sum.Write(frame[:])
	a.sum.Write(a.block)
	return false, nil
}

// yieldParts yields the parts of the current block in order. It fails with ErrDamaged for a part
// that cannot be read or is out of order, and with errEnough when the caller wants no more.
func (a *Reader) yieldParts(yield func(persistence.Part, error) bool) error {
	c := cutter{rest: a.block}
	for len(c.rest) > 0 {
		p := c.readPart()
		if c.bad {
			return fmt.Errorf("%w: no part after %s", ErrDamaged, a.counts)
		}
		if e, ok := p.(*persistence.Event); ok {
			e.Position = a.order.position + 1
		}
		if err := a.order.checkNext(p); err != nil {
			return err
		}
		a.counts.Add(p)
		if !yield(p, nil) {
			return errEnough
		}
	}
	return nil
}

// checkEndFrame compares the end frame with the counts and the hash of the parts. It fails with
// ErrDamaged when they differ, when shards are missing, and for trailing bytes.
func (a *Reader) checkEndFrame() error {
	if err := a.order.requireAllShards(); err != nil {
		return err
	}
	read := Sum{Counts: a.counts, SHA256: [sha256.Size]byte(a.sum.Sum(nil))}
	if !bytes.Equal(appendSum(nil, read), a.block) {
		return fmt.Errorf("%w: the sums at its end are not those of its content", ErrDamaged)
	}
	if n, err := io.ReadFull(a.from, make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	a.ended = read
	return nil
}
