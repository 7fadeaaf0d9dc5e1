package authorizer

import (
	"encoding/binary"
	"math/bits"
)

// index finds the items of a pool by a key that they carry. It is a hash table of buckets of 32
// bytes: a look-up waits for memory once, and once for the item, where a map has it wait three or
// four times.
//
// An item whose bucket is full goes on to the next with a place. Each bucket counts who passed it
// by, so that a look-up knows where to stop; who leaves has one of them come back, so that an index
// in which items come and go stays as it was filled. It grows by all its buckets at once, under the
// shard's lock: that touches every item, once in as many as there are. It does not shrink: a cache
// that is full stays so.
//
// Keys are ids and tokens, made here. Their last eight bytes are random or of a SHA-256: nobody
// chooses in which bucket a key lies, and whoever asks for what is not there meets a bucket or two.
type index[T any] struct {
	pool    *pool[T]
	key     func(*T) []byte
	buckets []bucket // a power of two
	shift   int      // leaves of a hash the number of a bucket
	items   int
}

// bucket has a byte of the hash of each of its items; the last byte counts those that passed it by.
type bucket struct {
	tags  [8]uint8
	items [bucketPlaces]ref
}

const (
	bucketPlaces = 6
	overflow     = 7 // among the tags
	overflowMany = 1<<8 - 1
	bucketFill   = 4 // items to a bucket, on average, when the index grows
	bucketBytes  = 32
	// indexBytes is what an item takes of an index that has just grown: the most.
	indexBytes = 2 * bucketBytes / bucketFill
)

func newIndex[T any](pool *pool[T], key func(*T) []byte) *index[T] {
	return &index[T]{pool: pool, key: key, buckets: make([]bucket, 1), shift: 64}
}

func hashOf(key []byte) uint64 {
	return binary.LittleEndian.Uint64(key[len(key)-8:]) * 0x9e3779b97f4a7c15
}

func tagOf(hash uint64) uint8 { return uint8(hash >> 24) }

func (x *index[T]) after(at uint64) uint64 { return (at + 1) & uint64(len(x.buckets)-1) }

func (x *index[T]) hash(r ref) uint64 { return hashOf(x.key(x.pool.at(r))) }

// get returns the item with a key, or nil.
func (x *index[T]) get(key []byte) *T {
	_, _, _, it := x.find(key)
	return it
}

// find returns the item with a key, and its bucket and place, or nil.
func (x *index[T]) find(key []byte) (at uint64, place int, r ref, it *T) {
	hash := hashOf(key)
	at = hash >> x.shift
	for range x.buckets {
		b := &x.buckets[at]
		for same := b.tagged(tagOf(hash)); same != 0; same &= same - 1 {
			place = bits.TrailingZeros64(same) / 8
			if r = b.items[place]; r != none {
				if it = x.pool.at(r); string(x.key(it)) == string(key) {
					return at, place, r, it
				}
			}
		}
		if b.tags[overflow] == 0 {
			break
		}
		at = x.after(at)
	}
	return 0, 0, none, nil
}

// tagged has the highest bit set of each byte whose place has the tag; above such a byte it may be
// set of others.
func (b *bucket) tagged(tag uint8) uint64 {
	const each = 1 << (8 * bucketPlaces) / 255
	differ := binary.LittleEndian.Uint64(b.tags[:]) ^ each*uint64(tag)
	return (differ - each) &^ differ & (each << 7)
}

// put takes in an item, in the place of one with its key.
func (x *index[T]) put(r ref) {
	x.remove(x.key(x.pool.at(r)))
	if x.items == bucketFill*len(x.buckets) {
		old := x.buckets
		x.buckets, x.shift = make([]bucket, 2*len(old)), x.shift-1
		for i := range old {
			for _, r := range old[i].items {
				if r != none {
					x.insert(r)
				}
			}
		}
	}
	x.insert(r)
	x.items++
}

func (x *index[T]) insert(r ref) {
	hash := x.hash(r)
	for at := hash >> x.shift; ; at = x.after(at) {
		b := &x.buckets[at]
		for place := range b.items {
			if b.items[place] == none {
				b.tags[place], b.items[place] = tagOf(hash), r
				return
			}
		}
		b.tags[overflow] = min(b.tags[overflow], overflowMany-1) + 1
	}
}

// remove takes out the item with a key, if it is here.
func (x *index[T]) remove(key []byte) {
	at, place, r, _ := x.find(key)
	if r == none {
		return
	}
	x.items--
	x.uncount(hashOf(key)>>x.shift, at)
	for r != none {
		to := &x.buckets[at]
		to.tags[place], to.items[place] = 0, none
		from, vacated, passed := x.passer(at)
		if r = passed; r != none {
			to.tags[place], to.items[place] = tagOf(x.hash(r)), r
			x.uncount(at, from)
			at, place = from, vacated
		}
	}
}

// uncount takes an item from the counts of the buckets from one to before another.
func (x *index[T]) uncount(from, to uint64) {
	for ; from != to; from = x.after(from) {
		if b := &x.buckets[from]; b.tags[overflow] < overflowMany {
			b.tags[overflow]--
		}
	}
}

// passer returns an item that passed a bucket by, and where it is, or none.
func (x *index[T]) passer(by uint64) (at uint64, place int, r ref) {
	for at = by; x.buckets[at].tags[overflow] != 0; {
		if at = x.after(at); at == by {
			break // counts that are too many to know
		}
		for place, r := range x.buckets[at].items {
			if r != none && x.passes(x.hash(r)>>x.shift, by, at) {
				return at, place, r
			}
		}
	}
	return 0, 0, none
}

// passes tells whether the way from a bucket to another leads by a third.
func (x *index[T]) passes(home, by, at uint64) bool {
	all := uint64(len(x.buckets) - 1)
	return (by-home)&all < (at-home)&all
}
