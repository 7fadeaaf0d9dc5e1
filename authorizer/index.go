package authorizer

import (
	"encoding/binary"
	"math/bits"
)

// index finds the items of a cache by a key that they carry. It is a hash table of buckets of one cache line: a look-up waits for
// memory once, and once for the item, where a map has it wait three or four times.
//
// An item whose bucket is full goes on to the next with a place. Each bucket counts who passed it by, so that a look-up knows
// where to stop, and nothing is left of what was removed. An index grows by all its buckets at once, under the shard's lock:
// that touches every item, once in as many as there are.
//
// Keys are ids and tokens, made here. Their last eight bytes are random or of a SHA-256: nobody chooses in which bucket a key
// lies, and whoever asks for what is not there meets a bucket or two.
type index[T any] struct {
	key     func(*T) []byte
	buckets []bucket[T] // a power of two
	shift   int         // leaves of a hash the number of a bucket
	items   int
}

// bucket has a byte of the hash of each of its items; the last byte counts those that passed it by.
type bucket[T any] struct {
	tags  [bucketPlaces + 1]uint8
	items [bucketPlaces]*T
}

const (
	bucketPlaces = 7
	overflow     = bucketPlaces // among the tags
	overflowMany = 1<<8 - 1
	bucketFill   = 6 // items to a bucket, on average, when the index grows
	// indexBytes is what an item takes of an index that has just grown: the most.
	indexBytes = 64 * 2 / bucketFill
)

func newIndex[T any](key func(*T) []byte) *index[T] {
	return &index[T]{key: key, buckets: make([]bucket[T], 1), shift: 64}
}

func hashOf(key []byte) uint64 {
	return binary.LittleEndian.Uint64(key[len(key)-8:]) * 0x9e3779b97f4a7c15
}

func tagOf(hash uint64) uint8 { return uint8(hash >> 24) }

func (x *index[T]) after(at uint64) uint64 { return (at + 1) & uint64(len(x.buckets)-1) }

// get returns the item with a key, or nil.
func (x *index[T]) get(key []byte) *T {
	_, _, it := x.find(key)
	return it
}

// find returns the item with a key, and its bucket and place, or nil.
func (x *index[T]) find(key []byte) (at uint64, place int, it *T) {
	hash := hashOf(key)
	at = hash >> x.shift
	for range x.buckets {
		b := &x.buckets[at]
		for same := b.tagged(tagOf(hash)); same != 0; same &= same - 1 {
			place = bits.TrailingZeros64(same) / 8
			if it = b.items[place]; it != nil && string(x.key(it)) == string(key) {
				return at, place, it
			}
		}
		if b.tags[overflow] == 0 {
			break
		}
		at = x.after(at)
	}
	return 0, 0, nil
}

// tagged has the highest bit set of each byte whose place has the tag; above such a byte it may be set of others.
func (b *bucket[T]) tagged(tag uint8) uint64 {
	const each = 0x01010101010101
	differ := binary.LittleEndian.Uint64(b.tags[:]) ^ each*uint64(tag)
	return (differ - each) &^ differ & (each << 7)
}

// put takes in an item, in the place of one with its key.
func (x *index[T]) put(it *T) {
	x.remove(x.key(it))
	if x.items == bucketFill*len(x.buckets) {
		old := x.buckets
		x.buckets, x.shift = make([]bucket[T], 2*len(old)), x.shift-1
		for i := range old {
			for _, it := range old[i].items {
				if it != nil {
					x.insert(it)
				}
			}
		}
	}
	x.insert(it)
	x.items++
}

func (x *index[T]) insert(it *T) {
	hash := hashOf(x.key(it))
	for at := hash >> x.shift; ; at = x.after(at) {
		b := &x.buckets[at]
		for place := range b.items {
			if b.items[place] == nil {
				b.tags[place], b.items[place] = tagOf(hash), it
				return
			}
		}
		b.tags[overflow] = min(b.tags[overflow], overflowMany-1) + 1
	}
}

// remove takes out the item with a key, if it is here.
func (x *index[T]) remove(key []byte) {
	found, place, it := x.find(key)
	if it == nil {
		return
	}
	x.items--
	x.buckets[found].tags[place], x.buckets[found].items[place] = 0, nil
	for at := hashOf(key) >> x.shift; at != found; at = x.after(at) {
		if b := &x.buckets[at]; b.tags[overflow] < overflowMany {
			b.tags[overflow]--
		}
	}
}
