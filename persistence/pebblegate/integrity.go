package pebblegate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged marks a store with a file that differs from its synced content. The message names the
// file.
var ErrDamaged = errors.New("the store is damaged")

// integrityName is the file that describes the manifests of its directory.
const integrityName = "INTEGRITY"

const (
	integrityMagic  = 0x50494e55
	loggedMagic     = 0x50494e54 // a store whose changes were in a log of Pebble's
	integrityHeader = 1 + 2
	manifestEntry   = 8 + 8 + 4
	maxManifests    = 16 // in a slot; Pebble keeps two
)

const _ = uint(slotPayload - integrityHeader - maxManifests*manifestEntry)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is a synced prefix of a file: its length and its CRC-32C.
type extent struct {
	bytes uint64
	sum   uint32
}

// integrity is the state of the integrity file: the synced extent of each manifest. It is written
// before the change that relies on it is acknowledged.
type integrity struct {
	mu        sync.Mutex
	file      slotFile
	opened    bool // Pebble has opened the store, so it has a current manifest
	manifests map[uint64]extent
}

func newIntegrity(fs vfs.FS, dir string) *integrity {
	return &integrity{file: slotFile{fs: fs, path: fs.PathJoin(dir, integrityName), magic: integrityMagic},
		manifests: map[uint64]extent{}}
}

// loadNewest reads the newest valid slot. found is false when there is no file. It fails with
// ErrDamaged when no slot is valid, and with the disk's error.
func (i *integrity) loadNewest() (found bool, err error) {
	payload, err := i.file.loadNewest()
	if payload == nil || err != nil {
		return false, err
	}
	i.opened = payload[0] == 1
	at := payload[integrityHeader:]
	for range binary.LittleEndian.Uint16(payload[1:]) {
		i.manifests[binary.LittleEndian.Uint64(at)] = extent{binary.LittleEndian.Uint64(at[8:]),
			binary.LittleEndian.Uint32(at[16:])}
		at = at[manifestEntry:]
	}
	return true, nil
}

// encode returns the state as the payload of a slot. It fails only with more than maxManifests
// manifests.
func (i *integrity) encode() ([]byte, error) {
	if len(i.manifests) > maxManifests {
		return nil, fmt.Errorf("%s: %d manifests, at most %d", i.file.path, len(i.manifests), maxManifests)
	}
	payload := make([]byte, integrityHeader, slotPayload)
	if i.opened {
		payload[0] = 1
	}
	binary.LittleEndian.PutUint16(payload[1:], uint16(len(i.manifests)))
	for _, n := range slices.Sorted(maps.Keys(i.manifests)) {
		payload = binary.LittleEndian.AppendUint64(payload, n)
		payload = binary.LittleEndian.AppendUint64(payload, i.manifests[n].bytes)
		payload = binary.LittleEndian.AppendUint32(payload, i.manifests[n].sum)
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

// verifyExtent compares a prefix of a file with its extent. It fails for a file that is shorter
// or differs, and with the reader's error.
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

// readFile reads at most limit bytes of a file. It fails with the disk's error.
func readFile(fs vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}

func isNotExist(err error) bool { return oserror.IsNotExist(err) }
