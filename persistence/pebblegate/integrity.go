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

const (
	integrityMagic  = 0x50494e54
	integrityHeader = 1 + 2 + 2
	manifestEntry   = 8 + 8 + 4
	logEntry        = 8 + 1
	// Bounds of what a slot lists. Pebble keeps two manifests, the logs of four memtables and five
	// logs for reuse.
	maxManifests = 16
	maxLogs      = 256
)

const _ = uint(slotPayload - integrityHeader - maxManifests*manifestEntry - maxLogs*logEntry)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is a synced prefix of a file: its length and its CRC-32C.
type extent struct {
	bytes uint64
	sum   uint32
}

// logKind says how a write-ahead log is written.
type logKind byte

const (
	plainLog    logKind = iota // a backup's, as Pebble writes it
	mirroredLog                // has two copies of each page
)

// integrity is the state of the integrity file: the synced extent of each manifest, and the logs
// that hold synced records. It is written before the change that relies on it is acknowledged.
type integrity struct {
	mu        sync.Mutex
	file      slotFile
	opened    bool // Pebble has opened the store, so it has a current manifest
	manifests map[uint64]extent
	logs      map[uint64]logKind
}

func newIntegrity(fs vfs.FS, dir string) *integrity {
	return &integrity{file: slotFile{fs: fs, path: fs.PathJoin(dir, integrityName), magic: integrityMagic},
		manifests: map[uint64]extent{}, logs: map[uint64]logKind{}}
}

// loadNewest reads the newest valid slot. found is false when there is no file. It fails with
// ErrDamaged when no slot is valid, and with the disk's error.
func (i *integrity) loadNewest() (found bool, err error) {
	payload, err := i.file.loadNewest()
	if payload == nil || err != nil {
		return false, err
	}
	i.opened = payload[0] == 1
	manifests, logs := int(binary.LittleEndian.Uint16(payload[1:])), int(binary.LittleEndian.Uint16(payload[3:]))
	at := payload[integrityHeader:]
	for range manifests {
		i.manifests[binary.LittleEndian.Uint64(at)] = extent{binary.LittleEndian.Uint64(at[8:]),
			binary.LittleEndian.Uint32(at[16:])}
		at = at[manifestEntry:]
	}
	for range logs {
		i.logs[binary.LittleEndian.Uint64(at)] = logKind(at[8])
		at = at[logEntry:]
	}
	return true, nil
}

// encode returns the state as the payload of a slot. It fails only with more than maxManifests
// manifests or maxLogs logs.
func (i *integrity) encode() ([]byte, error) {
	if len(i.manifests) > maxManifests || len(i.logs) > maxLogs {
		return nil, fmt.Errorf("%s: %d manifests and %d logs, at most %d and %d", i.file.path, len(i.manifests),
			len(i.logs), maxManifests, maxLogs)
	}
	payload := make([]byte, integrityHeader, slotPayload)
	if i.opened {
		payload[0] = 1
	}
	binary.LittleEndian.PutUint16(payload[1:], uint16(len(i.manifests)))
	binary.LittleEndian.PutUint16(payload[3:], uint16(len(i.logs)))
	for _, n := range slices.Sorted(maps.Keys(i.manifests)) {
		payload = binary.LittleEndian.AppendUint64(payload, n)
		payload = binary.LittleEndian.AppendUint64(payload, i.manifests[n].bytes)
		payload = binary.LittleEndian.AppendUint32(payload, i.manifests[n].sum)
	}
	for _, n := range slices.Sorted(maps.Keys(i.logs)) {
		payload = append(binary.LittleEndian.AppendUint64(payload, n), byte(i.logs[n]))
	}
	return payload, nil
}

// changeDurably alters the state and returns when it is synced. It fails with the disk's error; the
// state in memory is then altered all the same. alter runs under i.mu.
func (i *integrity) changeDurably(alter func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	alter()
	payload, err := i.encode()
	if err != nil {
		return err
	}
	return i.file.saveNext(payload)
}

// kindOf returns the kind of a log, and whether the log is listed.
func (i *integrity) kindOf(log uint64) (logKind, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind, listed := i.logs[log]
	return kind, listed
}
