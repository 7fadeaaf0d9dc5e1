package memtable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"purser/persistence/ident"
)

// Pair is a key with its last value. The slices are the generation's until it is dropped.
type Pair struct {
	Key, Value []byte
	Deleted    bool

	head uint64 // the first eight bytes of the key, to compare most keys at once
}

// Sorted appends all pairs in the order of their keys to dst, which may be the slice of an earlier
// call.
func (f *Frozen) Sorted(dst []Pair) []Pair {
	for n := range f.of.stripes {
		s := &f.of.stripes[n]
		for i := range s.items {
			it := &s.items[i]
			p := Pair{Key: s.keyOf(it), Value: s.valueOf(it), Deleted: it.deleted}
			p.head = headOf(p.Key)
			dst = append(dst, p)
		}
	}
	slices.SortFunc(dst, func(a, b Pair) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		return bytes.Compare(a.Key, b.Key)
	})
	return dst
}

// headOf returns the first eight bytes of a key as a number; a shorter key counts as if zeros
// followed.
func headOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// VisitEntries calls read for all entries of a shard in order, until it returns false.
func (f *Frozen) VisitEntries(shard ident.Shard, read func(seq uint64, value []byte) bool) {
	f.of.logs[shard].visitRange(0, ^uint64(0), read)
}
