// Package archive defines the portable form of a journal: one byte stream, equal for every store
// with the same content. Every store can load it. `purser backup` writes it to a file, and `purser
// migrate-journal` compares two journals by its checksum.
//
// # Form
//
// Numbers are big-endian; "uv" is a uvarint, "lp" bytes after their length as uv, a time is microseconds since 1970 as a signed
// varint.
//
//	header   "PURSERJ1" deployment:16 store:16 crc:4
//	block    'b' length:4 crc:4 and so many bytes of parts: whole parts, at most MaxBlock
//	end      'z' length:4 crc:4 and five uv, the counts of parts, then the SHA-256 of everything before the end
//
// A crc is CRC-32C: of the header, and of a block's or the end's first five bytes with its contents. A part begins with a letter:
//
//	h  shard:1 uv position, uv epoch, uv ordinal
//	e  time, uv version, lp id, workspace, kind, stream, type, payload; its position is one more than the event before has
//	r  uv slot, version, position, ordinal, lp kind, id, workspace, parent, document
//	o  time of expiry (that of the zero time: for ever), hash:32, fingerprint:32, lp scope, answer
//	t  time due, uv slot, lp kind, stream, key, workspace
//	c  uv position, lp name
//
// All 256 shards are there, each with its parts in the order of the letters; events are gapless up to the head; within a shard
// the keys (kind, id), (scope, hash), (kind, stream, key) and name ascend, where a string that is not the last of its key is
// compared with its length as uv before it.
//
// # Contract
//
// Write refuses parts that are out of order. A Reader also refuses an archive that is damaged,
// truncated, followed by other bytes, or of another form. The error wraps ErrDamaged or ErrForm and
// names the fault. Both hold one block in memory. A Reader returns no part of a block whose crc
// differs. It compares the SHA-256 only after the last part: a caller that must not act on a part
// of a damaged archive reads the archive twice.
//
// It does not compress, encrypt, or know what a payload means.
package archive
