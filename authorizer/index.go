package authorizer

import (
	"encoding/binary"
	"math/bits"
)

// index finds the items of a pool by a key in the item. It is a hash table of 32-byte buckets with
// six slots: a look-up waits for memory once, and once more for the item, where a Go map waits
// three or four times.
//
// An insertion into a full bucket probes forward and increments the overflow count of each passed
// bucket, which ends a look-up early. A removal moves one overflowed item back, so the load does
// not degrade under churn. The index grows by doubling its buckets at once, under the shard's lock,
// which touches every item once per doubling. It never shrinks, because a full cache stays full.
//
// Keys are ids and tokens of our own, whose last eight bytes are random or of a SHA-256. A caller
// therefore cannot choose a bucket, and the look-up of a missing key reads one bucket or two.
type index[T any] struct {
	pool    *pool[T]
	key     func(*T) []byte
	buckets []bucket // their number is a power of two
	shift   int      // right shift from a hash to a bucket's number
	items   int
}

// bucket holds a byte of the hash of each of its items; the last byte counts the items that
// overflowed it.
type bucket struct {
	tags  [8]uint8
	items [bucketPlaces]ref
}

const (
	bucketPlaces = 6
	overflow     = 7 // index of the overflow count in tags
	overflowMany = 1<<8 - 1
	bucketFill   = 4 // average items per bucket at which the index grows
	bucketBytes  = 32
	// indexBytes is the largest size of an item in the index, just after growth.
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

// find returns the item with a key, with its bucket and place, or nil.
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

// tagged sets the highest bit of each byte whose place has the tag. Above such a byte, other bits
// may be set too.
func (b *bucket) tagged(tag uint8) uint64 {
	const each = 1 << (8 * bucketPlaces) / 255
	differ := binary.LittleEndian.Uint64(b.tags[:]) ^ each*uint64(tag)
	return (differ - each) &^ differ & (each << 7)
}

// put adds an item, and replaces one with its key.
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

// remove removes the item with a key, if there is one.
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

// uncount decrements the overflow counts of the buckets in [from, to).
func (x *index[T]) uncount(from, to uint64) {
	for ; from != to; from = x.after(from) {
		if b := &x.buckets[from]; b.tags[overflow] < overflowMany {
			b.tags[overflow]--
		}
	}
}

// passer returns an item that overflowed a bucket, with its place, or none.
func (x *index[T]) passer(by uint64) (at uint64, place int, r ref) {
	for at = by; x.buckets[at].tags[overflow] != 0; {
		if at = x.after(at); at == by {
			break // the counts are saturated
		}
		for place, r := range x.buckets[at].items {
			if r != none && x.passes(x.hash(r)>>x.shift, by, at) {
				return at, place, r
			}
		}
	}
	return 0, 0, none
}

// passes reports whether the probe from bucket home to bucket at passes bucket by.
func (x *index[T]) passes(home, by, at uint64) bool {
	all := uint64(len(x.buckets) - 1)
	return (by-home)&all < (at-home)&all
}
