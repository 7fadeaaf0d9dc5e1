package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of a frame's parts, in bytes. The table of doc.go has the fields.
const (
	frameAlign   = 8
	frameHeader  = 40
	recordHeader = 4
	sealPayload  = 8
	sealBytes    = frameHeader + sealPayload
)

// A seal is aligned without padding.
const _ = uint(-(sealBytes % frameAlign))

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameKey computes the tags of one segment's frames. It is the CRC-32C of the store's identity and
// the segment's number.
type frameKey uint32

func newFrameKey(store [16]byte, segment uint64) frameKey {
	seed := binary.LittleEndian.AppendUint64(store[:], segment)
	return frameKey(crc32.Checksum(seed, castagnoli))
}

// tagAt returns the first field of a frame at a logical offset. A frame of another store, segment
// or place has another tag, and so have the payloads of records. It is crc32.Update with the
// offset's bytes, which would have to be allocated for the call.
func (k frameKey) tagAt(at int64) uint32 {
	crc := ^uint32(k)
	for range 8 {
		crc = castagnoli[byte(crc)^byte(at)] ^ crc>>8
		at >>= 8
	}
	return ^crc
}

// frame is the decoded header of a frame.
type frame struct {
	segment uint64
	first   uint64 // number of the first record
	synced  uint64 // every record up to this one was synced before the frame was written
	payload int    // bytes of the records
	records int    // 0 in a seal, whose payload is the number of the next segment
}

// bytes returns the length of the whole frame with its padding.
func (f frame) bytes() int { return alignUp(frameHeader + f.payload) }

func alignUp(n int) int { return (n + frameAlign - 1) / frameAlign * frameAlign }

// frameStart returns the place of the next frame behind a logical offset. The header of a frame
// lies in one page, so that its length is known before its other pages are read.
func frameStart(end int64) int64 {
	end = int64(alignUp(int(end)))
	if left := pageBytes - end%pageBytes; left < frameHeader {
		return end + left
	}
	return end
}

// encodeHeader writes the header of a frame whose other bytes are complete.
func (f frame) encodeHeader(k frameKey, at int64, b []byte) {
	binary.LittleEndian.PutUint32(b, k.tagAt(at))
	binary.LittleEndian.PutUint64(b[8:], f.segment)
	binary.LittleEndian.PutUint64(b[16:], f.first)
	binary.LittleEndian.PutUint64(b[24:], f.synced)
	binary.LittleEndian.PutUint32(b[32:], uint32(f.payload))
	binary.LittleEndian.PutUint32(b[36:], uint32(f.records))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:frameHeader+f.payload], castagnoli))
}

// newSeal returns the last frame of a segment.
func newSeal(k frameKey, at int64, f frame, successor uint64) []byte {
	b := make([]byte, sealBytes)
	binary.LittleEndian.PutUint64(b[frameHeader:], successor)
	f.payload, f.records = sealPayload, 0
	f.encodeHeader(k, at, b)
	return b
}

// parseFrame decodes the header of a frame. It returns false for bytes that are no header of the
// segment at this place. The checksum is not verified.
func (k frameKey) parseFrame(b []byte, at int64) (frame, bool) {
	if len(b) < frameHeader || binary.LittleEndian.Uint32(b) != k.tagAt(at) {
		return frame{}, false
	}
	payload, records := binary.LittleEndian.Uint32(b[32:]), binary.LittleEndian.Uint32(b[36:])
	if payload > maxGroupBytes || records > maxGroupBytes/recordHeader {
		return frame{}, false
	}
	return frame{
		segment: binary.LittleEndian.Uint64(b[8:]),
		first:   binary.LittleEndian.Uint64(b[16:]),
		synced:  binary.LittleEndian.Uint64(b[24:]),
		payload: int(payload),
		records: int(records),
	}, true
}

// verifyFrame reports whether b begins with the whole frame of a header. Its checksum is right, and
// its records fill the payload exactly.
func (f frame) verifyFrame(b []byte) bool {
	if len(b) < frameHeader+f.payload {
		return false
	}
	b = b[:frameHeader+f.payload]
	if binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return false
	}
	if f.records == 0 {
		return f.payload == sealPayload
	}
	complete := true
	rest := f.walkRecords(b, func(uint64, []byte) bool { return true }, &complete)
	return complete && rest == 0
}

// walkRecords visits the records of a frame in order until visit returns false. It returns the
// bytes behind the last visited record. It sets complete to false when the payload ends within a
// record.
func (f frame) walkRecords(b []byte, visit func(number uint64, record []byte) bool, complete *bool) int {
	rest := b[frameHeader : frameHeader+f.payload]
	for n := range f.records {
		if len(rest) < recordHeader {
			*complete = false
			return len(rest)
		}
		length := binary.LittleEndian.Uint32(rest)
		rest = rest[recordHeader:]
		if uint64(length) > uint64(len(rest)) {
			*complete = false
			return len(rest)
		}
		if !visit(f.first+uint64(n), rest[:length:length]) {
			return len(rest)
		}
		rest = rest[length:]
	}
	return len(rest)
}

// successor returns the number of the segment that a seal names.
func (f frame) successor(b []byte) uint64 { return binary.LittleEndian.Uint64(b[frameHeader:]) }
