package pebblegate

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncedName is the file that notes how far the logs of its directory are synced.
const syncedName = "SYNCED"

// The notes of a busy store follow each other after noteEvery, and on a slow disk after noteShare
// times as long as the last one took. Damage to both copies of pages that were synced since the
// last note looks like a crash.
const (
	noteEvery = 10 * time.Millisecond
	noteShare = 10
)

const (
	syncedMagic  = 0x5053594e
	syncedHeader = 2
	syncedEntry  = 8 + 8
	maxNoted     = 64 // logs in a note, the newest ones; a store keeps at most ten
)

const _ = uint(slotPayload - syncedHeader - maxNoted*syncedEntry)

// syncedLogs notes the synced length of each log outside the log. The log's own chunks show where a
// write was cut off, and not whether records behind that place were acknowledged. A note is written
// after the sync, so a noted length is never longer than the log.
//
// A sync does not wait for its note, which costs a sync of its own. A store that was idle notes a
// sync at once.
type syncedLogs struct {
	waiting chan struct{} // a sync that no note has; room for one

	mu   sync.Mutex
	ends map[uint64]int64 // by log

	saving  sync.Mutex
	file    slotFile
	failing bool // the last note failed
}

func newSyncedLogs(fs vfs.FS, dir string) *syncedLogs {
	return &syncedLogs{waiting: make(chan struct{}, 1), ends: map[uint64]int64{},
		file: slotFile{fs: fs, path: fs.PathJoin(dir, syncedName), magic: syncedMagic}}
}

// load reads the newest note. A store that is adopted gets an empty one. It fails with ErrDamaged
// when no slot of the file is valid, and with the disk's error.
func (s *syncedLogs) load(adopted bool) error {
	payload, err := s.file.loadNewest()
	switch {
	case payload == nil || err != nil:
		return err
	case adopted:
		return s.file.saveNext(s.encode())
	}
	at := payload[syncedHeader:]
	for range binary.LittleEndian.Uint16(payload) {
		s.ends[binary.LittleEndian.Uint64(at)] = int64(binary.LittleEndian.Uint64(at[8:]))
		at = at[syncedEntry:]
	}
	return nil
}

// encode returns the note as the payload of a slot.
func (s *syncedLogs) encode() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := slices.Sorted(maps.Keys(s.ends))
	logs = logs[max(0, len(logs)-maxNoted):]
	payload := binary.LittleEndian.AppendUint16(nil, uint16(len(logs)))
	for _, log := range logs {
		payload = binary.LittleEndian.AppendUint64(payload, log)
		payload = binary.LittleEndian.AppendUint64(payload, uint64(s.ends[log]))
	}
	return payload
}

// advance records that a log is synced up to a length; the next note has it. It never blocks on the
// disk.
func (s *syncedLogs) advance(log uint64, end int64) {
	s.mu.Lock()
	s.ends[log] = end
	s.mu.Unlock()
	select {
	case s.waiting <- struct{}{}:
	default:
	}
}

// forget drops a log that is removed.
func (s *syncedLogs) forget(log uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, log)
}

// endOf returns the noted length of a log, and 0 for one without a note.
func (s *syncedLogs) endOf(log uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[log]
}

// save writes the note and syncs it. The first of failures in a row is logged, and the next note
// repeats the content: without a note the logs are still whole.
func (s *syncedLogs) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	err := s.file.saveNext(s.encode())
	if err != nil && !s.failing {
		slog.Warn("the synced length of a write-ahead log is not noted", "err", err)
	}
	s.failing = err != nil
}

// run writes the notes until done is closed. The gate runs it while the store is open.
func (s *syncedLogs) run(done <-chan struct{}) {
	for {
		select {
		case <-s.waiting:
		case <-done:
			return
		}
		began := time.Now()
		s.save()
		select {
		case <-time.After(max(noteEvery, noteShare*time.Since(began))):
		case <-done:
			return
		}
	}
}

// checkEnd fails with ErrDamaged for a log that ends before its noted length.
func (s *syncedLogs) checkEnd(path string, log uint64, end int64) error {
	if noted := s.endOf(log); end < noted {
		return fmt.Errorf("%w: %s: its records end at byte %d of %d synced bytes", ErrDamaged, path, end, noted)
	}
	return nil
}
