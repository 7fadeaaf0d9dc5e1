package sandbox

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/persistence/ident"
	"purser/persistence/pebblelog"
)

// ErrForeign means that a store belongs to another deployment.
var ErrForeign = errors.New("sandbox: the store belongs to another deployment")

// Sizes of a store: its tables that are kept open, and the length of its log's files.
const (
	openTables   = 64
	segmentBytes = 1 << 20
)

// ownerKey holds the 16 bytes of the deployment that owns a store.
var ownerKey = []byte("\x00deployment")

// Prefixes of the keys of each partner. order_store.go has the rest of the bank's and the ramp's
// keys, chain_store.go that of the chains'.
const (
	bankPrefix   = "bank/"
	rampPrefix   = "ramp/"
	chainsPrefix = "chains/"
)

// Store is the store of all simulated partners. It is safe for concurrent use.
type Store struct{ log *pebblelog.Store }

// OpenStore opens the store of a directory, or makes it. A nil fs is the disk. It fails when
// another process has the store open, when it is damaged, and with the disk's error.
func OpenStore(fs vfs.FS, dir string) (*Store, error) {
	log, err := pebblelog.Open(pebblelog.Options{Dir: dir, SegmentBytes: segmentBytes, Entropy: rand.Reader,
		Pebble: &pebble.Options{FS: diskIfNil(fs), MaxOpenFiles: openTables, Logger: silentLogger{}}})
	if err != nil {
		return nil, fmt.Errorf("sandbox store: %w", err)
	}
	return &Store{log}, nil
}

func diskIfNil(fs vfs.FS) vfs.FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}

// Close closes the store. No partner may be used afterwards, and no Run may be under way.
func (s *Store) Close() error { return s.log.Close() }

// Claim compares the owner of the store with a deployment. A store without an owner, such as a new
// one, is given the deployment, synced. It fails with ErrForeign for another owner, and with the
// store's error.
func (s *Store) Claim(deployment ident.UUID) error {
	owner, closer, err := s.log.DB.Get(ownerKey)
	if errors.Is(err, pebble.ErrNotFound) {
		if err := s.log.Set(ownerKey, deployment[:]); err != nil {
			return fmt.Errorf("sandbox: claim the store: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: owner of the store: %w", err)
	}
	if !bytes.Equal(owner, deployment[:]) {
		err = fmt.Errorf("%w: %x, not %x", ErrForeign, owner, deployment[:])
	}
	return errors.Join(err, closer.Close())
}

// silentLogger drops the store's log; the calls of the store return its errors.
type silentLogger struct{}

func (silentLogger) Infof(string, ...any)  {}
func (silentLogger) Errorf(string, ...any) {}
func (silentLogger) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("sandbox store: "+format, args...))
}
