package wal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names of the files in a log's directory.
const (
	segmentSuffix    = ".wal"
	spareSuffix      = ".spare"      // a freed segment
	unfinishedSuffix = ".unfinished" // a file that becomes a segment; Open removes it
)

// maxSpares bounds the freed segments that are kept for later ones.
const maxSpares = 4

// segmentFiles manages the files of a directory. The writer takes the next segment from it, Free
// gives segments back, and a goroutine makes the next segment ready.
type segmentFiles struct {
	fs       vfs.FS
	dir      string
	store    [16]byte
	capacity int64 // logical bytes of a segment

	mu      sync.Mutex
	held    []heldSegment // oldest first; the last one is being written
	next    uint64        // number of the next segment
	highest uint64        // number in the names that Open found
	ready   vfs.File      // the next segment's file, under its name; nil: there is none
	spares  []string      // paths of freed segments
	blank   string        // path of a file of zeros that has no name of a segment yet, or ""
	taken   bool          // the writer begins the next segment
	making  bool
	closed  bool
	done    chan struct{} // closed with closed
	maker   sync.WaitGroup
}

// heldSegment is a segment in use.
type heldSegment struct {
	number, first uint64
}

func newSegmentFiles(fs vfs.FS, dir string, store [16]byte, capacity int64) *segmentFiles {
	return &segmentFiles{fs: fs, dir: dir, store: store, capacity: capacity, done: make(chan struct{})}
}

// FileBytes returns the length of the segments of a directory. One that cannot be read counts as
// empty: Open fails with the reason.
func FileBytes(fs vfs.FS, dir string) (n int64) {
	names, _ := fs.List(dir)
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && strings.HasSuffix(name, segmentSuffix) {
			n += info.Size()
		}
	}
	return n
}

// segmentPath returns the path of a segment's file.
func (s *segmentFiles) segmentPath(number uint64) string {
	return s.numberedPath(number, segmentSuffix)
}

func (s *segmentFiles) numberedPath(number uint64, suffix string) string {
	return s.fs.PathJoin(s.dir, fmt.Sprintf("%016d%s", number, suffix))
}

// listSegments returns the numbers of the directory's segments in order. It removes files that were
// not finished, and freed segments beyond maxSpares or of another length. It fails with the disk's
// error.
func (s *segmentFiles) listSegments() (numbers []uint64, err error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("wal: list %s: %w", s.dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		path := s.fs.PathJoin(s.dir, name)
		digits, suffix, _ := strings.Cut(name, ".")
		number, err := strconv.ParseUint(digits, 10, 64)
		if err == nil {
			s.highest = max(s.highest, number)
		}
		switch {
		case err == nil && "."+suffix == segmentSuffix:
			numbers = append(numbers, number)
			continue
		case err == nil && "."+suffix == spareSuffix:
			info, err := s.fs.Stat(path)
			if err == nil && info.Size() == fileBytes(s.capacity) && len(s.spares) < maxSpares {
				s.spares = append(s.spares, path)
				continue
			}
		case !strings.HasSuffix(name, unfinishedSuffix):
			continue
		}
		if err := s.fs.Remove(path); err != nil {
			return nil, fmt.Errorf("wal: remove %s: %w", path, err)
		}
	}
	return numbers, nil
}

// newSegment returns the segment of an open file, without records.
func (s *segmentFiles) newSegment(f vfs.File, number uint64) *segment {
	return &segment{file: f, path: s.segmentPath(number), store: s.store, key: newFrameKey(s.store, number),
		capacity: s.capacity, header: header{segment: number}}
}

// holdSegment adds the segment that is being written from now on.
func (s *segmentFiles) holdSegment(number, first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, heldSegment{number, first})
	s.next, s.taken = number+1, false
}

// freeThrough recycles the segments whose records all have numbers up to through, oldest first. The
// directory is synced after each, because a crash must not leave a gap between two segments.
func (s *segmentFiles) freeThrough(through uint64) error {
	for {
		more, err := s.freeOldest(through)
		if err != nil || !more {
			return err
		}
	}
}

func (s *segmentFiles) freeOldest(through uint64) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.held) < 2 || s.held[1].first > through+1 {
		return false, nil
	}
	if err := s.recycleFile(s.held[0].number); err != nil {
		return false, err
	}
	s.held = s.held[1:]
	return true, nil
}

// recycleFile turns a segment's file into a spare, or removes it when there are enough or its length is
// another. The file is a spare only once its old name is durably gone. It fails with the disk's
// error; a repeat then finds the file under either name, or none.
func (s *segmentFiles) recycleFile(number uint64) error {
	path, spare := s.segmentPath(number), s.numberedPath(number, spareSuffix)
	info, err := s.fs.Stat(path)
	switch {
	case errors.Is(err, errNotExist):
		err = nil
	case err != nil:
	case info.Size() == fileBytes(s.capacity) && len(s.spares) < maxSpares && !slices.Contains(s.spares, spare):
		err = s.fs.Rename(path, spare)
	default:
		err = s.fs.Remove(path)
	}
	if err == nil {
		err = s.syncDir()
	}
	if err != nil {
		return fmt.Errorf("wal: free %s: %w", path, err)
	}
	if _, err := s.fs.Stat(spare); err == nil && !slices.Contains(s.spares, spare) {
		s.spares = append(s.spares, spare)
	}
	return nil
}

// syncDir makes the names of the directory durable. It fails with the disk's error.
func (s *segmentFiles) syncDir() error {
	d, err := s.fs.OpenDir(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// closeFiles ends the making of a segment and closes the file of one that is ready.
func (s *segmentFiles) closeFiles() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.done)
	s.maker.Wait()
	if s.ready == nil {
		return nil
	}
	return s.ready.Close()
}
