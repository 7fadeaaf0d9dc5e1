package pebblegate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged marks a store with a file that differs from its synced content. The message names the
// file.
var ErrDamaged = errors.New("the store is damaged")

// integrityName is the file that describes the manifests and logs of its directory.
const integrityName = "INTEGRITY"

// The integrity file has two slots, each in disk sectors of its own, which are written in turn. So
// a write that a crash cuts off leaves the slot before it.
const (
	slotBytes      = 4096
	slots          = 2
	slotHeader     = 4 + 4 + 8 + 1 + 2 + 2
	integrityMagic = 0x50494e54
	manifestEntry  = 8 + 8 + 4
	logEntry       = 8 + 1
	// Bounds of what a slot lists. Pebble keeps two manifests, the logs of four memtables and five
	// logs for reuse.
	maxManifests = 16
	maxLogs      = 256
)

const _ = uint(slotBytes - slotHeader - maxManifests*manifestEntry - maxLogs*logEntry)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is a synced prefix of a file: its length and its CRC-32C.
type extent struct {
	bytes uint64
	sum   uint32
}

// logKind says how a write-ahead log is written.
type logKind byte

const (
	plainLog    logKind = iota // by an older program or a backup, as Pebble writes it
	mirroredLog                // with two copies of each page
)

// integrity is the state of the integrity file: the synced extent of each manifest, and the logs
// that hold synced records. It is written before the change that relies on it is acknowledged.
type integrity struct {
	fs   vfs.FS
	path string

	mu        sync.Mutex
	counter   uint64 // the newest slot's; 0 without a file
	opened    bool   // Pebble has opened the store, so it has a current manifest
	manifests map[uint64]extent
	logs      map[uint64]logKind
}

func newIntegrity(fs vfs.FS, dir string) *integrity {
	return &integrity{fs: fs, path: fs.PathJoin(dir, integrityName), manifests: map[uint64]extent{},
		logs: map[uint64]logKind{}}
}

// loadNewest reads the newest valid slot. It is false when there is no file.
func (i *integrity) loadNewest() (found bool, err error) {
	data, err := readFile(i.fs, i.path, slots*slotBytes)
	if isNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for n := range slots {
		if slot := data[min(n*slotBytes, len(data)):min((n+1)*slotBytes, len(data))]; len(slot) == slotBytes {
			i.decodeSlot(slot)
		}
	}
	if i.counter == 0 {
		return false, fmt.Errorf("%w: %s: no slot of it is valid", ErrDamaged, i.path)
	}
	return true, nil
}

// decodeSlot takes the state of a slot that is valid and newer than the present state.
func (i *integrity) decodeSlot(slot []byte) {
	if binary.LittleEndian.Uint32(slot) != integrityMagic ||
		binary.LittleEndian.Uint32(slot[4:]) != crc32.Checksum(slot[8:], castagnoli) {
		return
	}
	counter := binary.LittleEndian.Uint64(slot[8:])
	if counter <= i.counter {
		return
	}
	i.counter, i.opened = counter, slot[16] == 1
	manifests, logs := int(binary.LittleEndian.Uint16(slot[17:])), int(binary.LittleEndian.Uint16(slot[19:]))
	i.manifests, i.logs = make(map[uint64]extent, manifests), make(map[uint64]logKind, logs)
	at := slot[slotHeader:]
	for range manifests {
		i.manifests[binary.LittleEndian.Uint64(at)] = extent{binary.LittleEndian.Uint64(at[8:]),
			binary.LittleEndian.Uint32(at[16:])}
		at = at[manifestEntry:]
	}
	for range logs {
		i.logs[binary.LittleEndian.Uint64(at)] = logKind(at[8])
		at = at[logEntry:]
	}
}

func (i *integrity) encodeSlot() ([]byte, error) {
	if len(i.manifests) > maxManifests || len(i.logs) > maxLogs {
		return nil, fmt.Errorf("%s: %d manifests and %d logs, at most %d and %d", i.path, len(i.manifests), len(i.logs),
			maxManifests, maxLogs)
	}
	slot := make([]byte, slotHeader, slotBytes)
	binary.LittleEndian.PutUint32(slot, integrityMagic)
	binary.LittleEndian.PutUint64(slot[8:], i.counter)
	if i.opened {
		slot[16] = 1
	}
	binary.LittleEndian.PutUint16(slot[17:], uint16(len(i.manifests)))
	binary.LittleEndian.PutUint16(slot[19:], uint16(len(i.logs)))
	for _, n := range slices.Sorted(maps.Keys(i.manifests)) {
		slot = binary.LittleEndian.AppendUint64(slot, n)
		slot = binary.LittleEndian.AppendUint64(slot, i.manifests[n].bytes)
		slot = binary.LittleEndian.AppendUint32(slot, i.manifests[n].sum)
	}
	for _, n := range slices.Sorted(maps.Keys(i.logs)) {
		slot = append(binary.LittleEndian.AppendUint64(slot, n), byte(i.logs[n]))
	}
	slot = slot[:slotBytes]
	binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(slot[8:], castagnoli))
	return slot, nil
}

// changeDurably alters the state and returns when it is synced.
func (i *integrity) changeDurably(alter func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	alter()
	return i.saveNext()
}

func (i *integrity) saveNext() (err error) {
	i.counter++
	defer func() {
		if err != nil {
			i.counter-- // the next write takes the failed slot and spares the good one
		}
	}()
	slot, err := i.encodeSlot()
	if err != nil {
		return err
	}
	if i.counter == 1 {
		return i.createFile(slot)
	}
	f, err := i.fs.OpenReadWrite(i.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open %s: %w", i.path, err)
	}
	_, err = f.WriteAt(slot, int64(i.counter%slots)*slotBytes)
	if err == nil {
		err = f.SyncData()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", i.path, err)
	}
	return nil
}

// createFile makes the file whole under another name first.
func (i *integrity) createFile(slot []byte) error {
	unfinished := i.path + ".unfinished"
	f, err := i.fs.Create(unfinished, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make %s: %w", i.path, err)
	}
	for range slots {
		if _, err := f.Write(slices.Clone(slot)); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", i.path, err), f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", i.path, err)
	}
	if err := i.fs.Rename(unfinished, i.path); err != nil {
		return fmt.Errorf("make %s: %w", i.path, err)
	}
	if err := syncDir(i.fs, i.fs.PathDir(i.path)); err != nil {
		return fmt.Errorf("make %s: %w", i.path, err)
	}
	return nil
}

// kindOf returns the kind of a log, and whether the log is listed.
func (i *integrity) kindOf(log uint64) (logKind, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind, listed := i.logs[log]
	return kind, listed
}
