package wal

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/pebblegate"
)

// recovery opens the segments of a directory and replays their records.
type recovery struct {
	files  *segmentFiles
	from   uint64
	replay func(number uint64, payload []byte) error
	noSync bool

	next     uint64 // number of the record that is expected
	segments []*openedSegment
}

// openedSegment is a segment's file while it is recovered.
type openedSegment struct {
	slotPair
	number uint64
	path   string
	file   vfs.File
	reader *segmentReader
	end    *segment // where the frames end
	lastAt int64    // place of the last frame
	last   []byte   // its bytes
	sealed uint64   // the successor, 0 without a seal
}

// openLog returns the segment that the writer continues. It fails as Open does.
func (r *recovery) openLog() (current *segment, err error) {
	if err := pebblegate.MakeDir(r.files.fs, r.files.dir); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	numbers, err := r.files.listSegments()
	if err == nil {
		// A name that a process left in memory alone must not vanish after its file is used.
		err = r.files.syncDir()
	}
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		if r.from > 0 && !r.noSync {
			return nil, fmt.Errorf("%w: %s has no segment, and record %d is needed", ErrGap, r.files.dir, r.from+1)
		}
		return r.createLog()
	}
	defer func() { err = errors.Join(err, r.closeOthers(current)) }()
	if err := r.openSegments(numbers); err != nil {
		return nil, err
	}
	last, err := r.replaySegments()
	if err != nil {
		return nil, err
	}
	if r.next <= r.from {
		return r.passEnd(last)
	}
	return r.keepSegments(last)
}

// createLog makes the first segment of a log whose records begin behind from. No file of the
// directory ever had its number, so a spare has no frames of it.
func (r *recovery) createLog() (*segment, error) {
	s := r.files
	s.next, r.next = s.highest+2, r.from+1
	number := s.next - 1
	blank, err := s.blankFile(0)
	if blank == "" {
		slog.Warn("the first segment of the log will grow", "dir", s.dir, "err", err)
		blank, err = s.createBlank("grows", 0, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	h := header{segment: number, first: r.next, counter: headerSlots}
	f, err := s.nameSegment(blank, number, h.encodeBoth(s.store))
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	current := s.newSegment(f, number)
	current.header = h
	s.held = []heldSegment{{number, r.next}}
	return current, nil
}

// openSegments opens the files and reads their headers. Only the last segment may lack one.
func (r *recovery) openSegments(numbers []uint64) error {
	for i, number := range numbers {
		if i > 0 && number != numbers[i-1]+1 {
			return damageAt(r.files.segmentPath(numbers[i-1]+1), 0, fmt.Sprintf("segment %d is missing, and %d is there",
				numbers[i-1]+1, number))
		}
		o := &openedSegment{number: number, path: r.files.segmentPath(number)}
		var err error
		if o.file, err = r.files.fs.OpenReadWrite(o.path, vfs.WriteCategoryUnspecified); err != nil {
			return fmt.Errorf("wal: open %s: %w", o.path, err)
		}
		r.segments = append(r.segments, o)
		// Records that a process left in memory alone must not be lost after their replay.
		if err := o.file.Sync(); err != nil {
			return fmt.Errorf("wal: sync %s: %w", o.path, err)
		}
		if o.slotPair, err = readSlots(o.file, o.path, r.files.store, number); err != nil {
			return err
		}
		if o.reader, err = newSegmentReader(o.file, o.path, r.files.store, number); err != nil {
			return err
		}
		if !o.valid && (i < len(numbers)-1 || i == 0) {
			return damageAt(o.path, 0, "both header slots are invalid")
		}
		if o.damaged {
			slog.Warn("one header slot of a log's segment is invalid, the other is used", "file", o.path)
		}
	}
	return nil
}

// replaySegments replays the records from the segment on that may have record from, and returns the
// index of the segment in which the log ends.
func (r *recovery) replaySegments() (last int, err error) {
	i, err := r.findStart()
	if err != nil {
		return 0, err
	}
	r.next = r.segments[i].first
	if r.next > r.from+1 {
		return 0, fmt.Errorf("%w: the first record in %s is %d, and record %d is needed", ErrGap, r.segments[i].path,
			r.next, r.from+1)
	}
	for {
		o := r.segments[i]
		if err := r.replaySegment(o); err != nil {
			return 0, err
		}
		if o.sealed == 0 {
			return i, r.checkEnd(i)
		}
		if err := r.checkSuccessor(i); err != nil {
			return 0, err
		}
		i++
	}
}

// findStart returns the index of the last segment that begins at record from or before, and of the
// oldest one if there is none. The last file counts only if its first frame is valid: it may have
// been made ready, or begun, and never used.
func (r *recovery) findStart() (int, error) {
	i := len(r.segments) - 1
	if i > 0 {
		used, err := r.segments[i].hasFrames()
		if err != nil {
			return 0, err
		}
		switch {
		case !used:
			i--
		case !r.segments[i].valid:
			return 0, damageAt(r.segments[i].path, 0, "both header slots are invalid")
		}
	}
	for i > 0 && r.segments[i].first > r.from {
		i--
	}
	return i, nil
}

// hasFrames reports whether the segment's first frame is valid. The first frame is synced before
// the second one is written.
func (o *openedSegment) hasFrames() (bool, error) {
	_, _, found, err := o.reader.readFrame(0)
	return found, err
}

// checkSuccessor fails unless the segment behind a sealed one is there and begins with the record
// that is expected.
func (r *recovery) checkSuccessor(i int) error {
	o := r.segments[i]
	at := placeInFile(o.end.end)
	if i+1 == len(r.segments) || r.segments[i+1].number != o.sealed {
		return damageAt(r.files.segmentPath(o.sealed), 0, fmt.Sprintf("the segment is missing; %s, byte %d, names it",
			o.path, at))
	}
	switch n := r.segments[i+1]; {
	case !n.valid:
		return damageAt(n.path, 0, "both header slots are invalid")
	case n.first != r.next:
		return damageAt(n.path, 0, fmt.Sprintf("its first record is %d, and %s ends before %d", n.first, o.path, r.next))
	}
	return nil
}

// replaySegment follows the frames of a segment to its seal, or to the first place without a valid
// frame.
func (r *recovery) replaySegment(o *openedSegment) error {
	o.end = r.files.newSegment(o.file, o.number)
	o.end.header = o.header
	for {
		at := frameStart(o.end.end)
		f, b, found, err := o.reader.readFrame(at)
		if err != nil || !found {
			return err
		}
		if f.first != r.next {
			return damageAt(o.path, placeInFile(at), fmt.Sprintf("record %d follows record %d", f.first, r.next-1))
		}
		if err := r.replayFrame(f, b); err != nil {
			return err
		}
		o.end.extendTail(at, b)
		o.lastAt, o.last = at, append(o.last[:0], b...)
		if f.records == 0 {
			o.sealed = f.successor(b)
			return nil
		}
	}
}

// replayFrame passes the records behind from to replay.
func (r *recovery) replayFrame(f frame, b []byte) (err error) {
	if f.records == 0 {
		return nil
	}
	complete := true
	f.walkRecords(b, func(number uint64, record []byte) bool {
		if number > r.from {
			err = r.replay(number, record)
		}
		return err == nil
	}, &complete)
	r.next = f.first + uint64(f.records)
	return err
}
