package wal

import (
	"errors"
	"fmt"
	"log/slog"
)

// checkEnd decides whether the log may end where the frames of a segment without a seal end. A
// write that a crash cut off ends a log. The end is damage when a record behind it was synced:
//
//   - a valid frame of the segment is behind it, and was written after the expected record was
//     synced,
//   - the header notes a greater synced length,
//   - the next segment has frames, or begins with a later record.
//
// A valid frame behind the end that was written before the expected record was synced is one of
// Options.NoSync. It is erased, because the log may later end in front of it.
func (r *recovery) checkEnd(i int) error {
	o := r.segments[i]
	at := frameStart(o.end.end)
	offset := placeInFile(at)
	if o.noted > o.end.end {
		return damageAt(o.path, offset, fmt.Sprintf("the log ends at logical byte %d of %d synced ones", o.end.end,
			o.noted))
	}
	behind := int64(-1)
	err := o.reader.findFrames(at, func(f frame, found int64) bool {
		if f.synced >= r.next {
			behind = found
			return false
		}
		o.reader.eraseTag(found)
		return true
	})
	if err != nil {
		return err
	}
	if behind >= 0 {
		return damageAt(o.path, offset, fmt.Sprintf("record %d is invalid, and a later one at byte %d is valid", r.next,
			placeInFile(behind)))
	}
	return r.checkUnused(i, offset)
}

// checkUnused fails unless the segment behind an unsealed one is the last file and has no records.
func (r *recovery) checkUnused(i int, offset int64) error {
	if i+1 == len(r.segments) {
		return nil
	}
	o, n := r.segments[i], r.segments[i+1]
	used, err := n.hasFrames()
	switch {
	case err != nil:
		return err
	case used || i+2 < len(r.segments):
		return damageAt(o.path, offset, fmt.Sprintf("the segment ends at record %d without a seal, and %s follows",
			r.next-1, n.path))
	case n.valid && n.first > r.next:
		return damageAt(o.path, offset, fmt.Sprintf("the segment ends at record %d, and %s begins with %d", r.next-1,
			n.path, n.first))
	}
	return nil
}

// eraseTag keeps the writes that make the frame at a place invalid.
func (r *segmentReader) eraseTag(at int64) {
	r.writes = append(r.writes, repair{placeInFile(at), make([]byte, frameAlign)})
}

// passEnd handles a log that ends before record from. Without Options.NoSync it fails, because the
// store has synced the lost records. Otherwise the log begins anew behind from.
func (r *recovery) passEnd(last int) (*segment, error) {
	o := r.segments[last]
	if !r.noSync {
		return nil, fmt.Errorf("%w: %s ends with record %d, and record %d is needed", ErrGap, o.path, r.next-1, r.from+1)
	}
	slog.Warn("the log lost records that were never synced, and begins behind those of the store", "file", o.path,
		"last", r.next-1, "next", r.from+1)
	for _, o := range r.segments {
		if err := r.files.recycleFile(o.number); err != nil {
			return nil, err
		}
	}
	return r.createLog()
}

// keepSegments makes the recovered frames durable and returns the last segment for the writer. A
// process may have left them in the machine's memory alone.
func (r *recovery) keepSegments(last int) (*segment, error) {
	for i, o := range r.segments[:last+1] {
		if o.end != nil {
			if err := o.repairSegment(r.files.store); err != nil {
				return nil, err
			}
		}
		first := o.first
		if i > 0 && first <= r.segments[i-1].first {
			return nil, damageAt(o.path, 0, fmt.Sprintf("its first record is %d, and so is that of the segment before", first))
		}
		r.files.held = append(r.files.held, heldSegment{o.number, first})
	}
	r.files.next = r.segments[last].number + 1
	if last+1 < len(r.segments) {
		r.files.ready = r.segments[last+1].file
	}
	return r.segments[last].end, nil
}

// repairSegment makes the frames of a segment durable. It fails with the disk's error.
//
// The last frame is written again, because its sync may have failed in the process before: Linux
// then takes the pages for written, and another sync would not write them. The frame's own header
// proves that the frames before it are synced.
func (o *openedSegment) repairSegment(store [16]byte) error {
	if o.damaged {
		older := o.header
		older.counter--
		o.reader.writes = append(o.reader.writes, repair{slotAt(older.counter), older.encodeSlot(store)})
	}
	if len(o.last) > 0 {
		o.reader.writes = append(o.reader.writes, repair{placeInFile(o.lastAt), o.last})
	}
	for _, fix := range o.reader.writes {
		if _, err := o.file.WriteAt(fix.data, fix.offset); err != nil {
			return fmt.Errorf("wal: repair %s: %w", o.path, err)
		}
	}
	return o.end.syncData()
}

// closeOthers closes the files that the log does not keep: all after a failure.
func (r *recovery) closeOthers(current *segment) (err error) {
	for _, o := range r.segments {
		if current == nil || o.file != current.file && o.file != r.files.ready {
			err = errors.Join(err, o.file.Close())
		}
	}
	if current == nil {
		r.files.ready = nil
	}
	return err
}
