// Package wal is a write-ahead log. It makes records durable in groups, with one write and one sync
// each, and replays them at the next start.
//
// # Contract
//
// A Log is the only user of its directory; the caller holds a lock on it. Records are bytes to the
// log. They are numbered 1, 2, 3 and so on without gaps. Append copies a record and never waits for
// the disk. A record is durable once its group is synced: Durable, Wait and Options.Durable report
// that in the order of the numbers. Records that arrive during a sync share the next one.
//
// A durable record survives a crash of the process or of the machine. Damage to one is refused by
// file and offset. A record that was never synced may survive too. After a crash the records are always 1 to
// some n, with n not below the last durable number.
//
// After the first failed write or sync nothing more is written. Every later group, Wait and Close
// reports that error. The caller stops, because records that are appended and not durable may be
// lost or not.
//
// Open replays the records behind the number from, which the caller's store has. Free gives up
// records, and their segments are used again. With Options.NoSync groups are written without a
// sync: a crash loses the last ones, and Open then starts behind from if the log ends before it.
//
// # Segments
//
// The log is a sequence of files, the segments, of a fixed length. Open makes the first one. A
// goroutine makes the file of the next one ready under its name, with its name synced, before it is
// needed: from a freed segment, or of zeros. The sync of a file that grows takes up to twice as
// long. When the file is not ready, or the disk has no room for one, the segment grows.
//
// A segment change takes these steps, each synced before the next: the header of the new segment,
// the seal of the old one, the first group of the new one. So a valid frame in a segment proves that
// the segments before it are whole.
//
// # Format
//
// Numbers are little-endian. A file begins with two header slots of 4 KiB, which are written in
// turn. Pages of 4 KiB follow. A group is one contiguous write of whole pages. The next group writes
// the last, unfilled page again, with the same bytes before its own: whichever sectors of it a crash
// leaves, the earlier group is whole.
//
//	header slot
//	 0  4  magic 0x5057414c
//	 4  4  CRC-32C of bytes 8 to 63
//	 8  4  format, 1
//	12  4  0
//	16 16  identity of the store
//	32  8  number of the segment
//	40  8  number of its first record
//	48  8  noted: logical bytes of the segment that were synced before the slot was written
//	56  8  counter; the slot with the greater one is the newer
//
//	frame: a group, or the seal of a segment
//	 0  4  tag: CRC-32C of the store's identity, the segment's number and the frame's logical offset
//	 4  4  CRC-32C of all that follows
//	 8  8  number of the segment
//	16  8  number of the first record
//	24  8  synced: every record up to this one was synced before the frame was written
//	32  4  length of the payload
//	36  4  count of the records; 0 in a seal
//	40     payload: each record with its length of 4 bytes; in a seal the next segment's number
//
// A frame begins at a multiple of 8 bytes, and its header lies in one page. The tag takes the place
// of a magic number. Old frames of a file that is used again, frames at another offset, and a
// payload that looks like a frame all have another tag.
//
// # Recovery
//
// The log ends at the first place without a valid frame.
//
// The end is damage (ErrDamaged, with file and offset) when a record behind it was synced:
//
//   - a valid frame of the segment lies further on and was written after the missing record was
//     synced,
//   - the end is before the noted length,
//   - the segment has no seal, and the next one has frames or begins with a later record.
//
// A missing segment between two, a missing successor of a sealed one, and a segment in use with two
// invalid header slots or a file shorter than them are damage too. The segments whose records all
// have numbers below from are not read, except for their headers. A read error of the disk fails
// the start.
//
// A crash never looks like damage. A group is written after the sync of the one before, so at most
// one group is torn, no valid frame lies behind it, and no note reaches it. The disk is expected to
// write a sector of 512 bytes whole, or not at all.
//
// Open writes the last frame of a segment again and syncs it, because the process before may have
// left it in the machine's memory, or failed to sync it.
//
// Damage that takes all groups from some place to the end looks like a crash, unless a note proves
// that they were synced. A busy log notes its length every 10 ms, and an idle one after 10 ms, at a
// segment's end and at Close. So groups of the last 10 ms can be lost to damage unnoticed, and
// without a crash none.
//
// # Files
//
//	log.go                      Options, Log: Append, Wait, Free, Close
//	group.go, writer.go         the groups that wait, the goroutine that writes them
//	frame.go, header.go         the format
//	segment.go                  writes frames, seals and notes to one file
//	files.go, spare.go          the directory: names, freed segments, the next segment's file
//	reader.go                   reads frames
//	recover.go, end.go          Open: replay, the end of the log
package wal
