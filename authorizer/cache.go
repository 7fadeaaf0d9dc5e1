package authorizer

import (
	"unsafe"

	"purser/actors/ident"
	"purser/actors/money"
	"purser/authorizer/hold"
)

// cache holds what is hot of one shard: rules, spends and funds, bounded in bytes. The store is always as new as the
// cache, so that any item may be dropped at any time. It belongs to the shard's lock.
//
// The order is a queue with a second chance: a hit sets one bit on a line that is read anyway, where moving the item to the
// front would touch three others.
type cache struct {
	limit int64
	bytes int64
	ring  node // ring.next is the oldest

	rules  map[ident.Token]*ruleItem
	spends map[ident.UUID]*spendItem
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

type ruleItem struct {
	node
	rule hold.Rule
}

type spendItem struct {
	node
	card  ident.UUID
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
		rules:  make(map[ident.Token]*ruleItem),
		spends: make(map[ident.UUID]*spendItem),
		funds:  make(map[ident.UUID]*fundsItem),
	}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

func (c *cache) rule(token *ident.Token) *ruleItem {
	it := c.rules[*token]
	if it == nil {
		c.misses++
		return nil
	}
	c.hit(&it.node)
	return it
}

func (c *cache) spend(card *ident.UUID) *spendItem {
	it := c.spends[*card]
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

// putRule takes the place of an older rule of the same card.
func (c *cache) putRule(it *ruleItem) {
	if old := c.rules[it.rule.Token]; old != nil {
		c.unlink(&old.node)
	}
	c.rules[it.rule.Token] = it
	c.link(&it.node, it, ruleBytes(&it.rule))
}

func (c *cache) putSpend(it *spendItem) {
	c.spends[it.card] = it
	c.link(&it.node, it, int64(unsafe.Sizeof(*it))+mapSlotBytes)
}

func (c *cache) putFunds(it *fundsItem) {
	c.funds[it.workspace] = it
	c.link(&it.node, it, int64(unsafe.Sizeof(*it))+mapSlotBytes)
}

func ruleBytes(r *hold.Rule) int64 {
	n := int64(unsafe.Sizeof(ruleItem{})) + mapSlotBytes + 2*int64(len(r.MCCs))
	for _, m := range r.Merchants {
		n += int64(len(m)) + int64(unsafe.Sizeof(m))
	}
	return n
}

func (it *ruleItem) forget(c *cache)  { delete(c.rules, it.rule.Token) }
func (it *spendItem) forget(c *cache) { delete(c.spends, it.card) }
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
