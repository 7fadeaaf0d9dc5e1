package pebblegate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func isNotExist(err error) bool { return oserror.IsNotExist(err) }

// mirror holds the decoded mirror of a log's file.
type mirror struct {
	bytes  int64   // its length; 0 of a plain log and of another log's file
	before uint64  // the log that used the file before
	frames []frame // of this log, in the order in which they were written
}

// readMirror reads the head of a log's file. A file that has no mirror yields the zero mirror.
func readMirror(f vfs.File, log uint64) (mirror, error) {
	head := make([]byte, MirrorBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return mirror{}, err
	}
	head = head[:n]
	var m mirror
	if h, ok := decodeHeader(head); ok && h.log == log {
		m.bytes, m.before = int64(h.mirror), h.before
	} else if ok {
		m.before = h.log
	}
	if m.bytes > 0 {
		head = head[:min(int64(len(head)), m.bytes)]
	}
	for at := mirrorHeader; at < len(head); at += frameAlign {
		if f, ok := decodeFrame(head[at:]); ok && f.log == log {
			m.bytes = int64(f.mirror)
			m.frames = append(m.frames, f)
		}
	}
	slices.SortFunc(m.frames, func(a, b frame) int { return cmp.Compare(a.seq, b.seq) })
	return m, nil
}

// provenExtent returns the synced prefix of the log that the newest frame proves.
func (m *mirror) provenExtent() extent {
	if len(m.frames) == 0 {
		return extent{}
	}
	last := &m.frames[len(m.frames)-1]
	return extent{last.synced, last.syncedSum}
}

// verifyLog checks the synced part of a mirrored log, and repairs later writes from their frames.
func verifyLog(fs vfs.FS, path string, f vfs.File, m *mirror) error {
	proven := m.provenExtent()
	if err := verifyExtent(io.NewSectionReader(f, m.bytes, int64(proven.bytes)), proven); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	var damaged []frame
	for _, frame := range m.frames {
		if frame.end() <= proven.bytes {
			continue
		}
		got := make([]byte, len(frame.payload))
		n, err := f.ReadAt(got, m.bytes+int64(frame.from))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if n < len(got) || !bytes.Equal(got, frame.payload) {
			damaged = append(damaged, frame)
		}
	}
	if len(damaged) == 0 {
		return nil
	}
	slog.Warn("the end of a write-ahead log is repaired from its mirror", "file", path, "offset", damaged[0].from)
	return m.repairLog(fs, path, damaged)
}

func (m *mirror) repairLog(fs vfs.FS, path string, from []frame) error {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("repair %s: %w", path, err)
	}
	for _, frame := range from {
		if _, err := f.WriteAt(frame.payload, m.bytes+int64(frame.from)); err != nil {
			return errors.Join(fmt.Errorf("repair %s: %w", path, err), f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("repair %s: %w", path, err)
	}
	return nil
}

// verifyExtent reads a prefix of a file and compares it with its extent.
func verifyExtent(r io.Reader, want extent) error {
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, io.LimitReader(r, int64(want.bytes)), make([]byte, 256<<10))
	switch {
	case err != nil:
		return err
	case uint64(n) < want.bytes:
		return fmt.Errorf("the file ends at byte %d of %d synced bytes", n, want.bytes)
	case sum.Sum32() != want.sum:
		return fmt.Errorf("the first %d bytes differ from the synced ones", want.bytes)
	}
	return nil
}

// readFile reads at most limit bytes of a file.
func readFile(fs vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}
