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

	tokens map[ident.Token]*cardItem // those whose rule is here
	cards  map[ident.UUID]*cardItem
	funds  map[ident.UUID]*fundsItem

	hits, misses, evictions uint64
}

// node links an item into the queue. Items are evicted through owner.
type node struct {
	prev, next *node
	owner      cached
	bytes      int64
	touched    bool
}

type cached interface{ forget(c *cache) }

// cardItem has no rule (its version is 0) when only a hold of the card was looked at: a hold names the card, not the token.
type cardItem struct {
	node
	card  ident.UUID
	rule  hold.Rule
	spend hold.Spend
}

type fundsItem struct {
	node
	workspace ident.UUID
	funds     Funds
	wsSeq     uint64
}

// Bytes of an item beside its struct: its place in a map.
const mapSlotBytes = 48

func newCache(limit int64) *cache {
	c := &cache{
		limit:  limit,
		tokens: make(map[ident.Token]*cardItem),
		cards:  make(map[ident.UUID]*cardItem),
		funds:  make(map[ident.UUID]*fundsItem),
	}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// byToken is a card with its rule, by id a card that may have none.
func (c *cache) byToken(token *ident.Token) *cardItem { return c.count(c.tokens[*token]) }
func (c *cache) byID(card *ident.UUID) *cardItem      { return c.count(c.cards[*card]) }

func (c *cache) count(it *cardItem) *cardItem {
	if it == nil {
		c.misses++
		return nil
	}
	c.hit(&it.node)
	return it
}

func (c *cache) fund(workspace *ident.UUID) *fundsItem {
	it := c.funds[*workspace]
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
	it := &cardItem{card: *card, spend: spend}
	c.cards[*card] = it
	c.link(&it.node, it, it.size())
	return it
}

// putRule takes in a card's rule; spend is what it stands at if the card is not here yet.
func (c *cache) putRule(r *hold.Rule, spend hold.Spend) *cardItem {
	it := c.cards[r.Card]
	if it == nil {
		it = c.putSpend(&r.Card, spend)
	}
	c.unlink(&it.node)
	delete(c.tokens, it.rule.Token) // an older rule may have had another
	it.rule = *r
	c.tokens[r.Token] = it
	c.link(&it.node, it, it.size())
	return it
}

func (c *cache) putFunds(it *fundsItem) {
	c.funds[it.workspace] = it
	c.link(&it.node, it, int64(unsafe.Sizeof(*it))+mapSlotBytes)
}

func (it *cardItem) size() int64 {
	n := int64(unsafe.Sizeof(*it)) + 2*mapSlotBytes + 2*int64(len(it.rule.MCCs))
	for _, m := range it.rule.Merchants {
		n += int64(len(m)) + int64(unsafe.Sizeof(m))
	}
	return n
}

func (it *cardItem) forget(c *cache) {
	delete(c.cards, it.card)
	delete(c.tokens, it.rule.Token)
}

func (it *fundsItem) forget(c *cache) { delete(c.funds, it.workspace) }

func (c *cache) link(n *node, owner cached, bytes int64) {
	n.owner, n.bytes = owner, bytes
	n.prev, n.next = c.ring.prev, &c.ring
	n.prev.next, n.next.prev = n, n
	c.bytes += bytes
}

func (c *cache) unlink(n *node) {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	c.bytes -= n.bytes
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
