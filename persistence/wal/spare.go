package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/pebblegate"
)

// How the next segment's file is filled beside groups: after each piece the disk is theirs for a
// while.
const (
	zeroPiece = 256 << 10
	zeroPause = 2 * time.Millisecond
)

var (
	errNotExist = fs.ErrNotExist
	errStopped  = errors.New("the log is closed")
)

// prepareNext makes the next segment's file ready in the background: a spare, or a file of zeros. A
// sync of a file that grows takes up to twice as long as one over blocks that are there. When a
// segment is needed before its file is ready, the file grows: no fault of a spare is a fault of the
// log.
func (s *segmentFiles) prepareNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.making || s.ready != nil {
		return
	}
	s.making = true
	s.maker.Go(func() {
		if err := s.makeReady(zeroPause); err != nil && !errors.Is(err, errStopped) {
			slog.Warn("no file is ready for the next segment of the log, which will grow", "dir", s.dir, "err", err)
		}
	})
}

// makeReady makes the next segment's file ready. While the writer begins a segment, the file of the
// one behind it gets no name yet: a segment without a header is the last one, or damaged. The disk
// having little room is no error.
func (s *segmentFiles) makeReady(pause time.Duration) error {
	blank, err := s.blankFile(pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = false
	if err != nil || blank == "" {
		return err
	}
	if s.closed || s.taken {
		s.blank = blank
		return nil
	}
	s.ready, err = s.nameSegment(blank, s.next, make([]byte, headerBytes))
	return err
}

// blankFile returns the path of a file of full length, or "" when the disk has no room for one.
func (s *segmentFiles) blankFile(pause time.Duration) (string, error) {
	if path := s.takeBlank(); path != "" {
		return path, nil
	}
	if !pebblegate.HasRoom(s.fs, s.dir, fileBytes(s.capacity)) {
		return "", nil
	}
	return s.createBlank("zeros", fileBytes(s.capacity), pause)
}

// takeBlank returns the path of a blank file or a spare that is there, or "".
func (s *segmentFiles) takeBlank() (path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, s.blank = s.blank, ""
	if n := len(s.spares); path == "" && n > 0 {
		path = s.spares[n-1]
		s.spares = s.spares[:n-1]
	}
	return path
}

// createBlank makes a file of zeros. The zeros are synced piece by piece, so that the syncs of
// groups have little to wait for. It fails with the disk's error, and with errStopped once the log
// closes.
func (s *segmentFiles) createBlank(name string, length int64, pause time.Duration) (path string, err error) {
	path = s.fs.PathJoin(s.dir, name+unfinishedSuffix)
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: zeroPiece})
	if err = errors.Join(s.fillZeros(f, length, pause), f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("fill %s: %w", path, err), s.fs.Remove(path))
	}
	return path, nil
}

func (s *segmentFiles) fillZeros(f vfs.File, left int64, pause time.Duration) error {
	zeros := make([]byte, min(left, zeroPiece))
	for ; left > 0; left -= int64(len(zeros)) {
		zeros = zeros[:min(left, int64(len(zeros)))]
		clear(zeros) // vfs.File allows Write to alter them
		if _, err := f.Write(zeros); err != nil {
			return err
		}
		if pause == 0 {
			continue
		}
		select {
		case <-s.done:
			return errStopped
		case <-time.After(pause):
		}
	}
	return f.Sync()
}

// nameSegment gives a blank file the name of a segment. The header slots replace those of the
// segment that used the file before: zeros, until the segment begins. Both are durable when it
// returns. It fails with the disk's error, and then removes the file. Its callers hold the lock.
func (s *segmentFiles) nameSegment(blank string, number uint64, slots []byte) (f vfs.File, err error) {
	path := s.segmentPath(number)
	if f, err = s.fs.OpenReadWrite(blank, vfs.WriteCategoryUnspecified); err != nil {
		return nil, fmt.Errorf("open %s: %w", blank, err)
	}
	if _, err = f.WriteAt(slots, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.fs.Rename(blank, path)
	}
	if err == nil {
		if err = s.syncDir(); err == nil {
			return f, nil
		}
		blank = path
	}
	return nil, errors.Join(fmt.Errorf("make %s: %w", path, err), f.Close(), s.fs.Remove(blank))
}

// takeNext returns the next segment, without a header, until holdSegment. Its file is the one that
// is ready, or else a new one that grows. It fails with the disk's error.
func (s *segmentFiles) takeNext() (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.ready
	if s.ready = nil; f == nil {
		blank, err := s.createBlank("grows", 0, 0)
		if err == nil {
			f, err = s.nameSegment(blank, s.next, make([]byte, headerBytes))
		}
		if err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
	}
	s.taken = true
	return s.newSegment(f, s.next), nil
}
