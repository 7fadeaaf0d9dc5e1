package pebblejournal

import "time"

// Bounds of the memory that a group's cache keeps for the next group.
const (
	keepKeys  = 1 << 10   // keys of each map
	keepBytes = 256 << 10 // bytes of the buffer
)

// Keys of a group's lookups, within its shard.
type (
	stream   struct{ kind, id string }
	document struct{ kind, id string }
	alarm    struct{ kind, stream, key string }
	claim    struct {
		scope string
		hash  [32]byte
	}
)

// groupCache holds the lookups of a group in its shard and the writes that it has staged since its
// last commit. The shard's lock excludes other writers of these tables: Sweep takes it too, and
// SaveCursor, which does not, writes none of them. The first lookup with the staged writes over it
// is therefore current, and the Pebble batch needs no index.
type groupCache struct {
	versions map[stream]uint64
	records  map[document]place
	onces    map[claim][]byte // nil: no such once-key
	timers   map[alarm]time.Time

	value []byte // buffer for one encoded value; Pebble copies it
}

func newGroupCache() *groupCache {
	return &groupCache{versions: map[stream]uint64{}, records: map[document]place{}, onces: map[claim][]byte{},
		timers: map[alarm]time.Time{}}
}

// forget empties the cache. It keeps the memory up to keepKeys and keepBytes.
func (k *groupCache) forget() {
	if max(len(k.versions), len(k.records), len(k.onces), len(k.timers)) > keepKeys {
		*k = *newGroupCache()
		return
	}
	clear(k.versions)
	clear(k.records)
	clear(k.onces)
	clear(k.timers)
	if cap(k.value) > keepBytes {
		k.value = nil
	}
}

// recycle returns the cache of a finished group to the pool.
func (j *Journal) recycle(k *groupCache) {
	k.forget()
	j.known.Put(k)
}
