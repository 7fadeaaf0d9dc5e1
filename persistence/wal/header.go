package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/dataformat"
)

// A segment's file begins with two header slots, each in a page of its own. They are written in
// turn, so a write that a crash cuts off leaves the slot before it.
const (
	slotBytes    = pageBytes
	headerSlots  = 2
	headerBytes  = headerSlots * slotBytes
	slotContent  = 64
	headerMagic  = 0x5057414c
	formatNumber = 1
)

// header is the content of a slot.
type header struct {
	segment uint64
	first   uint64 // number of the segment's first record
	noted   int64  // logical bytes of the segment that were synced before the slot was written
	counter uint64 // the newer slot has the greater one
}

// slotAt returns the offset in the file of the slot that a counter belongs to.
func slotAt(counter uint64) int64 { return int64(counter%headerSlots) * slotBytes }

// encodeSlot returns the page of a slot.
func (h header) encodeSlot(store [16]byte) []byte {
	b := make([]byte, slotBytes)
	binary.LittleEndian.PutUint32(b, headerMagic)
	binary.LittleEndian.PutUint32(b[8:], formatNumber)
	copy(b[16:], store[:])
	binary.LittleEndian.PutUint64(b[32:], h.segment)
	binary.LittleEndian.PutUint64(b[40:], h.first)
	binary.LittleEndian.PutUint64(b[48:], uint64(h.noted))
	binary.LittleEndian.PutUint64(b[56:], h.counter)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:slotContent], castagnoli))
	return b
}

// encodeBoth returns both slots of a segment without records. The header's counter is the newer
// one.
func (h header) encodeBoth(store [16]byte) []byte {
	older := h
	older.counter--
	b := make([]byte, headerBytes)
	copy(b[slotAt(h.counter):], h.encodeSlot(store))
	copy(b[slotAt(older.counter):], older.encodeSlot(store))
	return b
}

// slotPair is the header of a file as it was read.
type slotPair struct {
	header
	valid   bool // at least one slot
	damaged bool // one slot of the two is invalid
}

// readSlots reads the header of a segment's file. It fails with ErrForeign for another store's
// segment or another format, with ErrDamaged for a file under the name of another segment, and with
// the disk's error.
func readSlots(f vfs.File, path string, store [16]byte, number uint64) (slotPair, error) {
	b := make([]byte, headerBytes)
	if n, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return slotPair{}, fmt.Errorf("wal: read %s: %w", path, err)
	} else if n < headerBytes {
		return slotPair{}, nil // a segment gets its name with both slots, so the file is cut off
	}
	var p slotPair
	invalid := 0
	for at := 0; at < headerBytes; at += slotBytes {
		slot := b[at:][:slotContent]
		if binary.LittleEndian.Uint32(slot) != headerMagic ||
			binary.LittleEndian.Uint32(slot[4:]) != crc32.Checksum(slot[8:], castagnoli) {
			invalid++
			continue
		}
		err := dataformat.Require("its format", int64(binary.LittleEndian.Uint32(slot[8:])), formatNumber,
			"start with an empty directory")
		if err != nil {
			return slotPair{}, fmt.Errorf("%w: %s: %w", ErrForeign, path, err)
		}
		if [16]byte(slot[16:32]) != store {
			return slotPair{}, fmt.Errorf("%w: %s belongs to store %x, not %x", ErrForeign, path, slot[16:32], store)
		}
		if segment := binary.LittleEndian.Uint64(slot[32:]); segment != number {
			return slotPair{}, damageAt(path, int64(at), fmt.Sprintf("the header is that of segment %d", segment))
		}
		if counter := binary.LittleEndian.Uint64(slot[56:]); !p.valid || counter > p.counter {
			p.valid = true
			p.header = header{segment: number, first: binary.LittleEndian.Uint64(slot[40:]),
				noted: int64(binary.LittleEndian.Uint64(slot[48:])), counter: counter}
		}
	}
	p.damaged = invalid == 1
	return p, nil
}

// damageAt returns an ErrDamaged that names the file, the offset in it and the finding.
func damageAt(path string, offset int64, finding string) error {
	return fmt.Errorf("%w: %s, byte %d: %s", ErrDamaged, path, offset, finding)
}
