package pebblelog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/persistence/pebblegate/damagetest"
	"purser/persistence/pebblelog"
)

// quiet drops the messages of Pebble.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, _ ...any) {
	panic("pebble: " + f)
}

// segmentBytes makes several files of the few records of a test.
const segmentBytes = 64 << 10

func open(fs vfs.FS, dir string) (*pebblelog.Store, error) {
	return pebblelog.Open(pebblelog.Options{Dir: dir, SegmentBytes: segmentBytes, Entropy: rand.NewChaCha8([32]byte{}),
		Pebble: &pebble.Options{FS: fs, Logger: quiet{},
			EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}}})
}

// liveStore is a store under synced commits, with images of its disk as crashes would leave it.
type liveStore struct {
	t       *testing.T
	random  *rand.Rand
	disk    *vfs.MemFS
	store   *pebblelog.Store
	written map[string]string
	older   *vfs.MemFS
	images  []damagetest.Disk

	mu       sync.Mutex
	atTables func() // called once when a table is begun
}

func newLiveStore(t *testing.T, seed uint64) *liveStore {
	s := &liveStore{t: t, random: rand.New(rand.NewPCG(seed, 9)), disk: vfs.NewCrashableMem(),
		written: map[string]string{}}
	fs := errorfs.Wrap(s.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.atTables != nil {
				s.atTables()
				s.atTables = nil
			}
		}
		return nil
	}))
	var err error
	s.store, err = open(fs, "store")
	require.NoError(t, err)
	return s
}

// write commits n batches, each synced, of new and of known keys.
func (s *liveStore) write(n int) {
	for range n {
		b := s.store.DB.NewBatch()
		for range 1 + s.random.IntN(3) {
			key := string(binary.BigEndian.AppendUint32([]byte("key"), uint32(s.random.IntN(4000))))
			value := make([]byte, 20+s.random.IntN(400))
			for i := range value {
				value[i] = byte(s.random.Uint32())
			}
			require.NoError(s.t, b.Set([]byte(key), value, nil))
			s.written[key] = string(value)
		}
		require.NoError(s.t, s.store.Commit(b))
	}
}

// rest lasts until the log has noted its end: before, damage there looks like a crash.
func (s *liveStore) rest() { time.Sleep(time.Second) }

// image keeps a copy of the disk, with a percentage of the unsynced blocks, and the acknowledged
// values.
func (s *liveStore) image(name string, unsynced int) {
	acknowledged := map[string]string{}
	for k, v := range s.written {
		acknowledged[k] = v
	}
	s.images = append(s.images, damagetest.Disk{Name: name, Dir: "store", Older: s.older,
		FS: s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: s.random}),
		Open: func(fs *vfs.MemFS) (int, error) {
			store, err := open(fs, "store")
			if err != nil {
				return 0, err
			}
			lost, err := missing(store.DB, acknowledged)
			return lost, errors.Join(err, store.Close())
		}})
}

func missing(db *pebble.DB, want map[string]string) (lost int, err error) {
	for k, v := range want {
		got, closer, err := db.Get([]byte(k))
		if errors.Is(err, pebble.ErrNotFound) {
			lost++
			continue
		}
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(got, []byte(v)) {
			lost++
		}
		if err := closer.Close(); err != nil {
			return 0, err
		}
	}
	return lost, nil
}

func (s *liveStore) age() { s.older = s.disk.CrashClone(vfs.CrashCloneCfg{}) }

// run brings a store from young to old.
func (s *liveStore) run() []damagetest.Disk {
	s.write(60)
	s.age()
	s.write(60)
	s.rest()
	s.image("young", 100)
	unsynced := s.store.DB.NewBatch()
	require.NoError(s.t, unsynced.Set([]byte("unsynced"), bytes.Repeat([]byte("u"), 20_000), nil))
	_, err := s.store.Apply(unsynced)
	require.NoError(s.t, errors.Join(err, unsynced.Close()))
	s.rest()
	s.image("young, torn", 50)
	require.NoError(s.t, s.store.DB.Flush())
	s.write(40)
	s.age()
	s.write(40)
	require.NoError(s.t, s.store.DB.Flush())
	require.NoError(s.t, s.store.DB.Compact(s.t.Context(), []byte("a"), []byte("z"), false))
	s.write(40)
	s.rest()
	s.image("old", 100)
	s.mu.Lock()
	s.atTables = func() { s.image("old, flushing", 0) }
	s.mu.Unlock()
	require.NoError(s.t, s.store.DB.Flush())
	require.NoError(s.t, s.store.Close())
	s.image("closed", 100)
	return s.images
}

// TestAttackDamageIsRefusedOrNothingIsLost alters single places of every file of young and old
// stores. Every acknowledged value is there, or the start or the read that meets the damage fails.
func TestAttackDamageIsRefusedOrNothingIsLost(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var all damagetest.Outcome
	var disks []damagetest.Disk
	synctest.Test(t, func(t *testing.T) { disks = newLiveStore(t, 1).run() })
	for _, disk := range disks {
		o := damagetest.Sweep(t, disk, damagetest.Places(240, 3_000), random)
		t.Logf("%s: %d places, %d refused, %d whole, %d lost", disk.Name, o.Places, o.Refused, o.Whole, o.Lost)
		all.Add(o)
	}
	require.Zero(t, all.Lost, "of %d places: %s", all.Places, strings.Join(all.Losses[:min(20, len(all.Losses))], "\n"))
}
