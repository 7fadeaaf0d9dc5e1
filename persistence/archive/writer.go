package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"purser/persistence"
)

// Errors of reading. Every other error comes from the underlying reader.
var (
	// ErrDamaged: the archive is altered, out of order or truncated.
	ErrDamaged = errors.New("damaged journal archive")
	// ErrForm: the file is not an archive, or one of another format.
	ErrForm = errors.New("not a journal archive of this format")
)

// Sizes in bytes.
const (
	blockBytes  = 256 << 10                                    // a block of this size is flushed
	MaxBlock    = blockBytes + persistence.MaxPayload + 16<<10 // plus one part
	magic       = "PURSERJ1"                                   // the digit is the format
	headerBytes = len(magic) + 16 + 16
	frameBytes  = 1 + 4 + 4
)

const (
	frameBlock = 'b'
	frameEnd   = 'z'
)

func castagnoliTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Sum is the end of an archive: the counts of its parts and its checksum.
type Sum struct {
	Counts persistence.Counts
	SHA256 [sha256.Size]byte // SHA-256 of the header and the blocks
}

// Write writes content to w and returns the archive's sum. It does not sync w. It fails with
// ErrDamaged for content out of order, with ErrTooLarge for a part over MaxBlock, and with the
// errors of content and w.
func Write(w io.Writer, identity persistence.Identity, content persistence.Content) (Sum, error) {
	a := &writer{to: w, sum: sha256.New(), block: make([]byte, frameBytes, frameBytes+blockBytes)}
	if err := a.writeHeader(identity); err != nil {
		return Sum{}, err
	}
	for part, err := range content {
		if err == nil {
			err = a.addPart(part)
		}
		if err != nil {
			return Sum{}, err
		}
	}
	return a.writeEndFrame()
}

type writer struct {
	to     io.Writer
	sum    hash.Hash
	block  []byte // frame header and parts
	order  order
	counts persistence.Counts
}

func (a *writer) writeHeader(identity persistence.Identity) error {
	h := append([]byte(magic), identity.Deployment[:]...)
	h = append(h, identity.Store[:]...)
	return a.writeBytes(binary.BigEndian.AppendUint32(h, crc32.Checksum(h, castagnoliTable())))
}

// addPart adds a part to the block, and writes the block when it is full. It fails with ErrDamaged
// for a part out of order, with ErrTooLarge for a part over MaxBlock, and with the writer's error.
func (a *writer) addPart(p persistence.Part) error {
	if err := a.order.checkNext(p); err != nil {
		return err
	}
	a.counts.Add(p)
	a.block = appendPart(a.block, p)
	if len(a.block)-frameBytes > MaxBlock {
		return fmt.Errorf("%w: a part of %d bytes", persistence.ErrTooLarge, len(a.block))
	}
	if len(a.block)-frameBytes < blockBytes {
		return nil
	}
	return a.flushBlock(frameBlock)
}

// flushBlock writes the block with its frame and empties it. letter is frameBlock or frameEnd. It
// fails with the writer's error.
func (a *writer) flushBlock(letter byte) error {
	frame := a.block[:frameBytes]
	frame[0] = letter
	binary.BigEndian.PutUint32(frame[1:], uint32(len(a.block)-frameBytes))
	binary.BigEndian.PutUint32(frame[5:], frameCRC(frame, a.block[frameBytes:]))
	err := a.writeBytes(a.block)
	a.block = a.block[:frameBytes]
	return err
}

func frameCRC(frame, contents []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:5], castagnoliTable()), castagnoliTable(), contents)
}

func (a *writer) writeBytes(b []byte) error {
	a.sum.Write(b)
	_, err := a.to.Write(b)
	return err
}

// writeEndFrame writes the last block and the frame with the archive's sum. It fails when shards or
// events are missing, and with the writer's error.
func (a *writer) writeEndFrame() (Sum, error) {
	if err := a.order.requireAllShards(); err != nil {
		return Sum{}, err
	}
	if len(a.block) > frameBytes {
		if err := a.flushBlock(frameBlock); err != nil {
			return Sum{}, err
		}
	}
	s := Sum{Counts: a.counts, SHA256: [sha256.Size]byte(a.sum.Sum(nil))}
	a.block = appendSum(a.block, s)
	return s, a.flushBlock(frameEnd)
}

func appendSum(dst []byte, s Sum) []byte {
	c := s.Counts
	return append(appendNumbers(dst, c.Events, c.Records, c.Onces, c.Timers, c.Cursors), s.SHA256[:]...)
}
