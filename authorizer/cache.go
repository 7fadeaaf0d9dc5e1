package authorizer

import (
	"unsafe"

	"purser/actors/ident"
	"purser/actors/money"
	"purser/authorizer/hold"
)

// cache holds what is hot of one shard: cards, each with its rule and its spend, and funds, bounded in bytes. The store is
// always as new as the cache, so that any item may be dropped at any time. It belongs to the shard's lock.
//
// Rule and spend lie in one item, for a swipe looks at both: over a million cards each item that is looked up is a wait for
// memory, longer than the decision.
//
// The order is a queue with a second chance: a hit sets one bit on a line that is read anyway, where moving the item to the
// front would touch three others.
type cache struct {
	limit int64
	bytes int64
	ring  node // ring.next is the oldest

	tokens *index[cardItem] // those whose rule is here
	cards  *index[cardItem]
	funds  *index[fundsItem]

	hits, misses, evictions uint64
}

// node links an item into the queue. Items are evicted through owner.
type node struct {
	prev, next *node
	owner      cached
	bytes      uint32
	touched    bool
}

type cached interface{ forget(c *cache) }

// cardItem has no rule but its card (its version is 0) when only a hold of the card was looked at: a hold names the card, not the
// token. It fits three lines of the processor's cache, with eight bytes to spare.
type cardItem struct {
	node
	rule  hold.Rule
	spend hold.Spend
}

type fundsItem struct {
	node
	workspace ident.UUID
	funds     Funds
	wsSeq     uint64
}

func newCache(limit int64) *cache {
	c := &cache{
		limit:  limit,
		tokens: newIndex(func(it *cardItem) []byte { return it.rule.Token[:] }),
		cards:  newIndex(func(it *cardItem) []byte { return it.rule.Card[:] }),
		funds:  newIndex(func(it *fundsItem) []byte { return it.workspace[:] }),
	}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// byToken is a card with its rule, by id a card that may have none.
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

// putSpend takes in a card that is not here.
func (c *cache) putSpend(card *ident.UUID, spend hold.Spend) *cardItem {
	it := &cardItem{spend: spend, rule: hold.Rule{Card: *card}}
	c.cards.put(it)
	c.link(&it.node, it, it.size())
	return it
}

// putRule takes in a card's rule; spend is what it stands at if the card is not here yet.
func (c *cache) putRule(r *hold.Rule, spend hold.Spend) *cardItem {
	it := c.cards.get(r.Card[:])
	if it == nil {
		it = c.putSpend(&r.Card, spend)
	}
	c.unlink(&it.node)
	c.tokens.remove(it.rule.Token[:]) // an older rule may have had another
	it.rule = *r
	c.tokens.put(it)
	c.link(&it.node, it, it.size())
	return it
}

func (c *cache) putFunds(it *fundsItem) {
	c.funds.put(it)
	c.link(&it.node, it, uint32(unsafe.Sizeof(*it))+indexBytes)
}

func (it *cardItem) size() uint32 {
	n := int(unsafe.Sizeof(*it)) + 2*indexBytes + 2*len(it.rule.MCCs)
	for _, m := range it.rule.Merchants {
		n += len(m) + int(unsafe.Sizeof(m))
	}
	return uint32(n)
}

func (it *cardItem) forget(c *cache) {
	c.cards.remove(it.rule.Card[:])
	c.tokens.remove(it.rule.Token[:])
}

func (it *fundsItem) forget(c *cache) { c.funds.remove(it.workspace[:]) }

func (c *cache) link(n *node, owner cached, bytes uint32) {
	n.owner, n.bytes = owner, bytes
	n.prev, n.next = c.ring.prev, &c.ring
	n.prev.next, n.next.prev = n, n
	c.bytes += int64(bytes)
}

func (c *cache) unlink(n *node) {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	c.bytes -= int64(n.bytes)
}

// trim evicts the oldest items until the cache is within its limit. It runs at the end of a critical section, when no
// pointer into the cache is in use.
func (c *cache) trim() {
	for c.bytes > c.limit && c.ring.next != &c.ring {
		n := c.ring.next
		c.unlink(n)
		if n.touched {
			n.touched = false
			c.link(n, n.owner, n.bytes)
			continue
		}
		n.owner.forget(c)
		c.evictions++
	}
}

// CacheStats says how the memory for hot cards is used, summed over the shards.
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

// Funds are the three terms of what a workspace can spend with its cards.
type Funds struct {
	LedgerCents   money.Cents // what the journal originated; only Follow writes it
	CardCents     money.Cents // the sum of the decision log; only decisions write it
	ReservedCents money.Cents // debits reserved before their journal append
}

// Spendable returns ledger + card − reserved, or an error when that does not fit.
func (f Funds) Spendable() (money.Cents, error) {
	if f.ReservedCents < 0 {
		panic("BUG: negative reservations")
	}
	return money.Add(f.LedgerCents, f.CardCents, -f.ReservedCents)
}
