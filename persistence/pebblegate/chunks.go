package pebblegate

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Bounds of the files without an extent or second copies that are read whole.
const (
	maxPlainManifest = 512 << 20
	maxPlainLog      = 8 << 30
)

// The format of Pebble's logs and manifests: blocks with chunks, see its package record. Each chunk
// has a checksum, a length and a type. Chunks of a log also have the log's number, and those of the
// newest types the synced length of the log.
const (
	blockBytes = 32 << 10

	plainHeader    = 7  // types 1 to 4
	numberedHeader = 11 // types 5 to 8
	syncHeader     = 19 // types 9 to 12

	// fullType is the type of a whole record. A closed log ends with an empty chunk of this type,
	// with the next log's number and no checksum.
	fullType = 5
)

// chunk is one chunk of a block.
type chunk struct {
	bytes    int
	synced   uint64 // 0 unless says
	says     bool   // the type of the chunk carries a synced length
	trailer  bool   // the log ends here
	skipRest bool   // nothing more is in the block
}

// scanRecords fails for a file with a valid chunk behind an invalid one. After a crash the first
// invalid chunk is the end of a file. The scan serves files with neither an extent nor copies, and
// finds no damage to their last chunk. log is 0 for a manifest.
func scanRecords(data []byte, log uint32) error {
	invalid := -1
	for block := 0; block < len(data); block += blockBytes {
		b := data[block:min(block+blockBytes, len(data))]
		for at := 0; at < len(b); {
			c, ok := parseChunk(b[at:], log)
			switch {
			case ok && c.trailer && invalid < 0:
				return nil
			case ok && c.skipRest:
				at = len(b)
			case !ok:
				if invalid < 0 {
					invalid = block + at
				}
				at++
			case invalid >= 0 && !c.trailer && (!c.says || c.synced > uint64(invalid)):
				return fmt.Errorf("it is damaged at byte %d: what follows at %d is valid", invalid, block+at)
			default:
				at += c.bytes
			}
		}
	}
	return nil
}

// parseChunk reads the chunk at the beginning of the rest of a block. It returns false for bytes
// that are no valid chunk of the log (0: of a manifest).
func parseChunk(b []byte, log uint32) (chunk, bool) {
	if len(b) < plainHeader {
		return chunk{skipRest: true}, true
	}
	length, kind := int(binary.LittleEndian.Uint16(b[4:])), b[6]
	if kind == 0 && length == 0 && binary.LittleEndian.Uint32(b) == 0 && len(b) < syncHeader {
		return chunk{skipRest: true}, true
	}
	header := plainHeader
	switch {
	case kind == 0 || kind > 12:
		return chunk{}, false
	case kind > 8:
		header = syncHeader
	case kind > 4:
		header = numberedHeader
	}
	if (header == plainHeader) != (log == 0) || header+length > len(b) {
		return chunk{}, false
	}
	c := chunk{bytes: header + length}
	if header > plainHeader {
		switch number := binary.LittleEndian.Uint32(b[plainHeader:]); {
		case number == log:
		case number == log+1 && kind == fullType && length == 0 && binary.LittleEndian.Uint32(b) == 0:
			c.trailer = true
			return c, true
		default:
			return chunk{}, false
		}
	}
	if header == syncHeader {
		c.says, c.synced = true, binary.LittleEndian.Uint64(b[numberedHeader:])
	}
	return c, binary.LittleEndian.Uint32(b) == maskedChecksum(b[6:c.bytes])
}

// maskedChecksum is the checksum of a chunk, as Pebble masks it.
func maskedChecksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
