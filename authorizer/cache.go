package authorizer

import (
	"unsafe"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// cache holds the hot cards of one shard, each with its rule and its spend, and funds, bounded in
// bytes. The store is always as new as the cache, so any item may be evicted at any time. The
// shard's lock guards the cache and all pointers to its items, because a new item reuses an evicted
// one's place.
//
// Rule and spend are in one item, because a swipe reads both. Over a million cards, each further
// item costs a wait for memory that is longer than the decision.
//
// The order is a queue with a second chance: a hit sets one bit on a cache line that is read
// anyway, while moving the item to the front would touch three others.
type cache struct {
	limit int64
	bytes int64
	head  node // head of the queue; its next is the oldest

	cardPool pool[cardItem]
	fundPool pool[fundsItem]

	tokens *index[cardItem] // cards with a cached rule
	cards  *index[cardItem]
	funds  *index[fundsItem]

	hits, misses, evictions uint64
}

// node links an item into the queue.
type node struct {
	prev, next ref // with ofFunds set for an item of funds
	bytes      uint32
	touched    bool
}

// ofFunds marks the references of funds in the queue.
const ofFunds ref = 1 << 31

// cardItem has a card without a rule (version 0) when only a hold of the card was read: a hold
// names the card, not the token. The part of its 160 bytes that a swipe reads is in three lines of
// the processor's cache, wherever the item lies in its slab; the last eight bytes are the capacity
// of a list.
type cardItem struct {
	node
	spend hold.Spend
	rule  hold.Rule
}

type fundsItem struct {
	node
	workspace ident.UUID
	funds     Funds
	wsSeq     uint64
}

const fundsBytes = uint32(unsafe.Sizeof(fundsItem{})) + indexBytes

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	c.tokens = newIndex(&c.cardPool, func(it *cardItem) []byte { return it.rule.Token[:] })
	c.cards = newIndex(&c.cardPool, func(it *cardItem) []byte { return it.rule.Card[:] })
	c.funds = newIndex(&c.fundPool, func(it *fundsItem) []byte { return it.workspace[:] })
	return c
}

// byToken returns a card with its rule. byID returns a card, possibly without one.
func (c *cache) byToken(token *ident.Token) *cardItem { return c.count(c.tokens.get(token[:])) }
func (c *cache) byID(card *ident.UUID) *cardItem      { return c.count(c.cards.get(card[:])) }

func (c *cache) count(it *cardItem) *cardItem {
	if it == nil {
		c.misses++
		return nil
	}
	c.hit(&it.node)
	return it
}

func (c *cache) fund(workspace *ident.UUID) *fundsItem {
	it := c.funds.get(workspace[:])
	if it == nil {
		c.misses++
		return nil
	}
	c.hit(&it.node)
	return it
}

func (c *cache) hit(n *node) {
	c.hits++
	n.touched = true
}

// putSpend adds a card that is not cached.
func (c *cache) putSpend(card *ident.UUID, spend hold.Spend) *cardItem {
	_, it := c.putCard(card, spend)
	return it
}

func (c *cache) putCard(card *ident.UUID, spend hold.Spend) (ref, *cardItem) {
	r, it := c.cardPool.take()
	it.rule.Card, it.spend = *card, spend
	c.cards.put(r)
	c.link(r, it.size())
	return r, it
}

// putRule adds or replaces a card's rule. spend is the counter of a card that is not cached yet.
func (c *cache) putRule(rule *hold.Rule, spend hold.Spend) *cardItem {
	_, _, r, it := c.cards.find(rule.Card[:])
	if it == nil {
		r, it = c.putCard(&rule.Card, spend)
	}
	c.unlink(r)
	c.tokens.remove(it.rule.Token[:]) // an older rule may have had another
	it.rule = *rule
	c.tokens.put(r)
	c.link(r, it.size())
	return it
}

// putFunds adds a copy of funds that are not cached.
func (c *cache) putFunds(funds *fundsItem) *fundsItem {
	r, it := c.fundPool.take()
	it.workspace, it.funds, it.wsSeq = funds.workspace, funds.funds, funds.wsSeq
	c.funds.put(r)
	c.link(r|ofFunds, fundsBytes)
	return it
}

func (it *cardItem) size() uint32 {
	n := int(unsafe.Sizeof(*it)) + 2*indexBytes + 2*len(it.rule.MCCs)
	for _, m := range it.rule.Merchants {
		n += len(m) + int(unsafe.Sizeof(m))
	}
	return uint32(n)
}

// forget removes an item that is not in the queue.
func (c *cache) forget(r ref) {
	if r&ofFunds != 0 {
		c.funds.remove(c.fundPool.at(r &^ ofFunds).workspace[:])
		c.fundPool.free(r &^ ofFunds)
		return
	}
	it := c.cardPool.at(r)
	c.cards.remove(it.rule.Card[:])
	c.tokens.remove(it.rule.Token[:])
	c.cardPool.free(r)
}

// node returns an item's links; those of none are the head.
func (c *cache) node(r ref) *node {
	switch {
	case r == none:
		return &c.head
	case r&ofFunds != 0:
		return &c.fundPool.at(r &^ ofFunds).node
	}
	return &c.cardPool.at(r).node
}

func (c *cache) link(r ref, bytes uint32) {
	n := c.node(r)
	n.bytes, n.prev, n.next = bytes, c.head.prev, none
	c.node(n.prev).next, c.head.prev = r, r
	c.bytes += int64(bytes)
}

func (c *cache) unlink(r ref) {
	n := c.node(r)
	c.node(n.prev).next, c.node(n.next).prev = n.next, n.prev
	c.bytes -= int64(n.bytes)
}

// evictOldest evicts the oldest items until the cache is within its limit. It runs at the end of a
// critical section, when no pointer into the cache is in use.
func (c *cache) evictOldest() {
	for c.bytes > c.limit && c.head.next != none {
		r := c.head.next
		n := c.node(r)
		c.unlink(r)
		if n.touched {
			n.touched = false
			c.link(r, n.bytes)
			continue
		}
		c.forget(r)
		c.evictions++
	}
}

// CacheStats is the use of the cache, summed over the shards.
type CacheStats struct {
	Bytes, LimitBytes       int64
	Hits, Misses, Evictions uint64
}

// CacheStats returns the counters since Open.
func (e *Engine) CacheStats() CacheStats {
	var s CacheStats
	for _, sh := range e.shards {
		sh.mu.Lock()
		s.Bytes += sh.cache.bytes
		s.LimitBytes += sh.cache.limit
		s.Hits += sh.cache.hits
		s.Misses += sh.cache.misses
		s.Evictions += sh.cache.evictions
		sh.mu.Unlock()
	}
	return s
}
