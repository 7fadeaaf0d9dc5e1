package memtable

import (
	"bytes"
	"sync"
)

// stripe is a hash table with open addressing. Keys and values lie in one arena.
type stripe struct {
	mu    sync.Mutex
	slots []uint32 // index of an item plus one, 0 for a free slot; a power of two
	items []item
	arena []byte
}

// item is a key with its last value.
type item struct {
	hash    uint64
	offset  int // position of the key in the arena; the value follows it
	key     uint32
	value   uint32
	room    uint32 // bytes in the arena that the value may fill
	deleted bool
}

const minSlots = 64

// findItem returns the index of a key's item, -1 for an unknown key.
func (s *stripe) findItem(hash uint64, key []byte) int {
	if len(s.slots) == 0 {
		return -1
	}
	mask := uint64(len(s.slots) - 1)
	for at := hash & mask; s.slots[at] != 0; at = (at + 1) & mask {
		n := int(s.slots[at] - 1)
		if it := &s.items[n]; it.hash == hash && bytes.Equal(s.keyOf(it), key) {
			return n
		}
	}
	return -1
}

func (s *stripe) keyOf(it *item) []byte { return s.arena[it.offset : it.offset+int(it.key)] }

func (s *stripe) valueOf(it *item) []byte {
	at := it.offset + int(it.key)
	return s.arena[at : at+int(it.value)]
}

// putPair sets or deletes a key. A value that fits into the place of the one before takes it over.
func (s *stripe) putPair(hash uint64, key, value []byte, deleted bool) {
	n := s.findItem(hash, key)
	if n < 0 {
		s.growSlots()
		s.items = append(s.items, item{hash: hash})
		n = len(s.items) - 1
		s.linkItem(n)
	} else if it := &s.items[n]; int(it.room) >= len(value) {
		it.value, it.deleted = uint32(len(value)), deleted
		copy(s.valueOf(it), value)
		return
	}
	it := &s.items[n]
	it.offset, it.key, it.value = len(s.arena), uint32(len(key)), uint32(len(value))
	it.room, it.deleted = it.value, deleted
	s.arena = append(append(s.arena, key...), value...)
}

// growSlots keeps at least half of the slots free.
func (s *stripe) growSlots() {
	if 2*(len(s.items)+1) <= len(s.slots) {
		return
	}
	s.slots = make([]uint32, max(minSlots, 2*len(s.slots)))
	for n := range s.items {
		s.linkItem(n)
	}
}

// linkItem puts an item into the first free slot for its hash.
func (s *stripe) linkItem(n int) {
	mask := uint64(len(s.slots) - 1)
	at := s.items[n].hash & mask
	for s.slots[at] != 0 {
		at = (at + 1) & mask
	}
	s.slots[at] = uint32(n + 1)
}

// resetEmpty empties the stripe and keeps its memory.
func (s *stripe) resetEmpty() {
	clear(s.slots)
	s.items, s.arena = s.items[:0], s.arena[:0]
}
