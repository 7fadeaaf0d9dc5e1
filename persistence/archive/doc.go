// Package archive is the portable form of a journal: one stream of bytes that is the same whichever journal wrote it, and that
// any journal can be made of. `purser backup` keeps it in a file, `purser migrate-journal` compares two journals by its checksum.
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
// A Writer refuses what is out of order, and a Reader what is out of order, damaged, cut short, followed by anything, or of
// another form: each with ErrDamaged or ErrForm and what is wrong. Both hold one block in memory. A reader hands out no part of a
// block whose crc differs, but it has compared the SHA-256 only when the parts have ended without an error: who must not act on a
// part of a damaged archive reads it twice.
//
// It does not compress, encrypt, or know what a payload means.
package archive
