package authorizer

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

type pinned struct{ key ident.UUID }

type pinnedIndex struct{ *index[pinned] }

func newPinned() pinnedIndex {
	return pinnedIndex{newIndex(&pool[pinned]{}, func(p *pinned) []byte { return p.key[:] })}
}

func (x pinnedIndex) add(key ident.UUID) *pinned {
	r, it := x.pool.take()
	it.key = key
	x.put(r)
	return it
}

// An index equals a map for all keys, when it grows, and when its buckets overflow and empty again.
func TestIndexIsAMap(t *testing.T) {
	require.Equal(t, uintptr(160), unsafe.Sizeof(cardItem{}), "three lines, but for what no swipe looks at")
	require.Equal(t, uintptr(bucketBytes), unsafe.Sizeof(bucket{}), "half a line of the processor's cache")
	rapid.Check(t, func(t *rapid.T) {
		x, model := newPinned(), make(map[ident.UUID]*pinned)
		// Few keys in the last eight bytes collide, in bucket and tag.
		spread := rapid.SampledFrom([]uint64{1, 3, 1 << 16, 1 << 63}).Draw(t, "spread")
		key := rapid.Custom(func(t *rapid.T) (k ident.UUID) {
			k[0] = rapid.Byte().Draw(t, "first")
			binary.LittleEndian.PutUint64(k[8:], rapid.Uint64Range(0, spread).Draw(t, "last"))
			return k
		})
		check := func(k ident.UUID) {
			if got, want := x.get(k[:]), model[k]; got != want {
				t.Fatalf("%x: %p, not %p", k, got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { require.Equal(t, len(model), x.items) },
			"put": func(t *rapid.T) {
				for _, k := range rapid.SliceOfN(key, 1, 40).Draw(t, "keys") {
					model[k] = x.add(k)
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				x.remove(k[:])
				delete(model, k)
				check(k)
			},
			"remove most": func(t *rapid.T) {
				left := rapid.IntRange(0, 3).Draw(t, "left")
				for k := range model {
					if len(model) > left {
						x.remove(k[:])
						delete(model, k)
					}
				}
			},
			"get": func(t *rapid.T) {
				check(key.Draw(t, "key"))
				for k := range model {
					check(k)
				}
			},
		})
		for k := range model {
			x.remove(k[:])
		}
		for i := range x.buckets {
			if b := x.buckets[i]; b.tags[overflow] != overflowMany {
				require.Zero(t, b, "nothing is left of what was removed")
			}
		}
	})
}

// More items share a bucket than it can count.
func TestIndexFindsWhatOneBucketCannotCount(t *testing.T) {
	x := newPinned()
	items := make([]pinned, overflowMany+10*bucketPlaces)
	for i := range items {
		binary.BigEndian.PutUint32(items[i].key[:], uint32(i))
		x.add(items[i].key)
	}
	for i := range items {
		for j := range items {
			if found := x.get(items[j].key[:]) != nil; found != (j >= i) {
				t.Fatalf("item %d found: %t, after the removal of %d", j, found, i)
			}
		}
		x.remove(items[i].key[:])
	}
}

// After many additions and removals most items lie in their own buckets, and the look-up of a
// missing key ends after a few.
func TestRandomKeysLieInTheirOwnBuckets(t *testing.T) {
	x, draw := newPinned(), newEntropy()
	var there []ident.UUID
	add := func() {
		id, err := ident.New(1, epoch, draw)
		require.NoError(t, err)
		x.add(id)
		there = append(there, id)
	}
	for x.items < 1500 || x.items < bucketFill*len(x.buckets) { // fullest just before it grows
		add()
	}
	for range 30 * x.items { // like a full cache
		x.remove(there[0][:])
		there = there[1:]
		add()
	}
	strangers, visits := 0, 0
	for i := range x.buckets {
		for _, r := range x.buckets[i].items {
			if r != none && x.hash(r)>>x.shift != uint64(i) {
				strangers++
			}
		}
		visits++
		for at := uint64(i); x.buckets[at].tags[overflow] != 0; at = x.after(at) {
			visits++
		}
	}
	require.Less(t, strangers, x.items/5)
	require.Less(t, visits, 2*len(x.buckets))
}

// cacheCards puts n cards into caches in turn.
func cacheCards(caches []*cache, n int) {
	for i := range n {
		card := ident.Derive(1, epoch, strconv.Itoa(i))
		rule := hold.Rule{Card: card, Version: 1}
		copy(rule.Token[2:], card[:])
		caches[i%len(caches)].putRule(&rule, hold.Spend{})
	}
}

// A card whose rule gets another token is not found by the old token, neither at once nor later.
func TestACardIsFoundByItsLastToken(t *testing.T) {
	c, rule := newCache(1<<40), hold.Rule{Card: ident.UUID{1}, Version: 1, Token: ident.Token{12: 1}}
	c.putRule(&rule, hold.Spend{})
	before := rule.Token
	rule.Token[12] = 2
	it := c.putRule(&rule, hold.Spend{})
	require.Nil(t, c.byToken(&before))
	require.Same(t, it, c.byToken(&rule.Token))
	c.limit = 0
	c.evictOldest()
	require.Zero(t, c.tokens.items+c.cards.items)
}

// The cache's count equals its memory, with the indexes just grown or full.
func TestTheCacheCountsItsIndexes(t *testing.T) {
	for _, n := range []int{bucketFill << 10, bucketFill<<10 + 1, 10_000} {
		c := newCache(1 << 40)
		cacheCards([]*cache{c}, n)
		items := n * int(unsafe.Sizeof(cardItem{}))
		indexes := bucketBytes * (len(c.tokens.buckets) + len(c.cards.buckets))
		require.InEpsilon(t, items+indexes, c.bytes, 0.15, n)
		c.limit = 0
		c.evictOldest()
		require.Zero(t, c.bytes+int64(c.tokens.items+c.cards.items))
	}
}

// BenchmarkCachedCards measures the memory of a cached card, by the cache's own count and by the
// heap's.
func BenchmarkCachedCards(b *testing.B) {
	for b.Loop() {
		caches, before, counted := make([]*cache, ident.Shards), heapBytes(), int64(0)
		for i := range caches {
			caches[i] = newCache(1 << 40)
		}
		cacheCards(caches, million)
		for _, c := range caches {
			counted += c.bytes
		}
		b.ReportMetric(float64(heapBytes()-before)/million, "heap-B/card")
		b.ReportMetric(float64(counted)/million, "counted-B/card")
		runtime.KeepAlive(caches)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
