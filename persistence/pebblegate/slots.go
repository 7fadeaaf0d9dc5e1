package pebblegate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A slot file has two slots, each in disk sectors of its own, which are written in turn. So a write
// that a crash cuts off leaves the slot before it.
const (
	slotBytes   = 4096
	slots       = 2
	slotHeader  = 4 + 4 + 8
	slotPayload = slotBytes - slotHeader
)

// slotFile is a small file that is replaced as a whole: the integrity file and the note of the
// synced logs. Its users have a lock of their own.
type slotFile struct {
	fs      vfs.FS
	path    string
	magic   uint32
	counter uint64 // the newest slot's; 0 without a file
}

// loadNewest returns the payload of the newest valid slot, or nil when there is no file. It fails
// with ErrDamaged when no slot is valid, and with the disk's error.
func (s *slotFile) loadNewest() (payload []byte, err error) {
	data, err := readFile(s.fs, s.path, slots*slotBytes)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for n := range slots {
		slot := data[min(n*slotBytes, len(data)):min((n+1)*slotBytes, len(data))]
		if len(slot) < slotBytes || binary.LittleEndian.Uint32(slot) != s.magic ||
			binary.LittleEndian.Uint32(slot[4:]) != crc32.Checksum(slot[8:], castagnoli) {
			continue
		}
		if counter := binary.LittleEndian.Uint64(slot[8:]); counter > s.counter {
			s.counter, payload = counter, slot[slotHeader:]
		}
	}
	if s.counter == 0 {
		return nil, fmt.Errorf("%w: %s: no slot of it is valid", ErrDamaged, s.path)
	}
	return payload, nil
}

// saveNext writes a payload of at most slotPayload bytes to the older of the two slots and syncs
// it. The first write makes the file. It fails with the disk's error, and the newer slot is then
// still whole.
func (s *slotFile) saveNext(payload []byte) (err error) {
	s.counter++
	defer func() {
		if err != nil {
			s.counter-- // the next write takes the failed slot and spares the good one
		}
	}()
	slot := make([]byte, slotBytes)
	binary.LittleEndian.PutUint32(slot, s.magic)
	binary.LittleEndian.PutUint64(slot[8:], s.counter)
	copy(slot[slotHeader:], payload)
	binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(slot[8:], castagnoli))
	if s.counter == 1 {
		return s.createFile(slot)
	}
	f, err := s.fs.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	_, err = f.WriteAt(slot, int64(s.counter%slots)*slotBytes)
	if err == nil {
		err = f.SyncData()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return nil
}

// createFile writes the file under another name, syncs it and renames it, so that a crash leaves no
// file or a whole one. It fails with the disk's error.
func (s *slotFile) createFile(slot []byte) error {
	unfinished := s.path + ".unfinished"
	f, err := s.fs.Create(unfinished, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make %s: %w", s.path, err)
	}
	for range slots {
		if _, err := f.Write(slices.Clone(slot)); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", s.path, err), f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	if err := s.fs.Rename(unfinished, s.path); err != nil {
		return fmt.Errorf("make %s: %w", s.path, err)
	}
	if err := syncDir(s.fs, s.fs.PathDir(s.path)); err != nil {
		return fmt.Errorf("make %s: %w", s.path, err)
	}
	return nil
}
