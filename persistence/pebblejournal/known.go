package pebblejournal

import "time"

// Bounds of what is kept of a group's memory for the next group.
const (
	keepKeys  = 1 << 10   // of each map
	keepBytes = 256 << 10 // of the buffer
)

// Names of what a group looks up, within its shard.
type (
	stream   struct{ kind, id string }
	document struct{ kind, id string }
	alarm    struct{ kind, stream, key string }
	claim    struct {
		scope string
		hash  [32]byte
	}
)

// known is what a group has looked up in its shard and what it has staged since its last commit. Nobody else writes these tables
// of the shard while the group has its lock: a sweep takes the lock too, and a cursor, which is saved without, is not among them.
// So the store as it was at the first look, and over it what is staged, is the truth, and needs no batch that can be read.
type known struct {
	versions map[stream]uint64
	records  map[document]place
	onces    map[claim][]byte // nil: there is none
	timers   map[alarm]time.Time

	value []byte // a value in the making; Pebble copies it
}

func newKnown() *known {
	return &known{versions: map[stream]uint64{}, records: map[document]place{}, onces: map[claim][]byte{},
		timers: map[alarm]time.Time{}}
}

// forget empties it, and keeps the memory unless it is much.
func (k *known) forget() {
	if max(len(k.versions), len(k.records), len(k.onces), len(k.timers)) > keepKeys {
		*k = *newKnown()
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

// recycle gives the memory of a group that has ended to another.
func (j *Journal) recycle(k *known) {
	k.forget()
	j.known.Put(k)
}
