package authorizer

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// cached is an item in the model of the cache: a list, oldest first, without pools or references.
type cached struct {
	id      ident.UUID
	funds   bool
	rule    uint64 // its version, 0 when there is none
	token   ident.Token
	mccs    int
	cents   money.Cents
	touched bool
}

type cacheModel struct {
	*cache
	items []cached
}

// idOf and tokenOf return few ids and tokens, so that items are evicted and return.
func idOf(n int) (id ident.UUID) {
	binary.LittleEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

func tokenOf(id ident.UUID, which int) (t ident.Token) {
	copy(t[len(t)-8:], id[8:])
	t[len(t)-1] = byte(which) // the byte that its hash covers
	return t
}

func (m *cacheModel) find(id ident.UUID, funds bool) int {
	return slices.IndexFunc(m.items, func(it cached) bool { return it.id == id && it.funds == funds })
}

// again moves an item behind all others, changed.
func (m *cacheModel) again(i int, change func(it *cached)) {
	it := m.items[i]
	change(&it)
	m.items = append(slices.Delete(m.items, i, i+1), it)
}

func (m *cacheModel) putCard(t *rapid.T) {
	id, cents := idOf(rapid.IntRange(0, 19).Draw(t, "card")), money.Cents(rapid.IntRange(1, 9).Draw(t, "cents"))
	i := m.find(id, false)
	if rapid.Bool().Draw(t, "with its rule") {
		rule := hold.Rule{Card: id, Token: tokenOf(id, rapid.IntRange(0, 1).Draw(t, "token")),
			Version: rapid.Uint64Range(1, 9).Draw(t, "version"),
			MCCs:    make([]uint16, rapid.IntRange(0, 50).Draw(t, "categories"))}
		m.cache.putRule(&rule, hold.Spend{Cents: cents})
		if i < 0 {
			i, m.items = len(m.items), append(m.items, cached{id: id, cents: cents})
		}
		m.again(i, func(it *cached) { it.rule, it.token, it.mccs = rule.Version, rule.Token, len(rule.MCCs) })
	} else if i < 0 {
		m.cache.putSpend(&id, hold.Spend{Cents: cents})
		m.items = append(m.items, cached{id: id, cents: cents})
	}
}

func (m *cacheModel) putFunds(t *rapid.T) {
	it := fundsItem{workspace: idOf(rapid.IntRange(0, 9).Draw(t, "workspace")), funds: Funds{CardCents: 1}}
	if m.find(it.workspace, true) < 0 {
		m.cache.putFunds(&it)
		m.items = append(m.items, cached{id: it.workspace, funds: true, cents: it.funds.CardCents})
	}
}

func (m *cacheModel) look(t *rapid.T) {
	id := idOf(rapid.IntRange(0, 19).Draw(t, "id"))
	token := tokenOf(id, rapid.IntRange(0, 1).Draw(t, "token"))
	i := m.find(id, false)
	it := m.cache.byToken(&token)
	require.Equal(t, i >= 0 && m.items[i].token == token, it != nil)
	if rapid.Bool().Draw(t, "by id too") {
		it = m.cache.byID(&id)
	}
	if it != nil {
		m.items[i].touched = true
	}
	if i := m.find(id, true); m.cache.fund(&id) != nil {
		m.items[i].touched = true
	}
}

func (m *cacheModel) trim(t *rapid.T) {
	m.cache.limit = int64(rapid.IntRange(0, int(m.cache.bytes)).Draw(t, "limit"))
	m.cache.evictOldest()
	for len(m.items) > 0 && m.size() > m.cache.limit {
		if it := m.items[0]; it.touched {
			m.again(0, func(it *cached) { it.touched = false })
			continue
		}
		m.items = m.items[1:]
	}
}

func (m *cacheModel) size() (bytes int64) {
	for _, it := range m.items {
		if it.funds {
			bytes += int64(fundsBytes)
			continue
		}
		bytes += int64((&cardItem{}).size()) + int64(2*it.mccs)
	}
	return bytes
}

// check compares the queue and the look-ups by key.
func (m *cacheModel) check(t *rapid.T) {
	require.Equal(t, m.size(), m.cache.bytes)
	at := m.cache.head.next
	for _, it := range m.items {
		want := cached{id: it.id, funds: it.funds, touched: m.cache.node(at).touched}
		if it.funds {
			found := m.cache.funds.get(it.id[:])
			require.Same(t, m.cache.fundPool.at(at&^ofFunds), found)
			want.cents = found.funds.CardCents
		} else {
			found := m.cache.cards.get(it.id[:])
			require.Same(t, m.cache.cardPool.at(at), found)
			want.rule, want.token, want.mccs = found.rule.Version, found.rule.Token, len(found.rule.MCCs)
			want.cents = found.spend.Cents
			require.Equal(t, it.rule > 0, m.cache.tokens.get(it.token[:]) == found)
		}
		require.Equal(t, want, it)
		at = m.cache.node(at).next
	}
	require.Equal(t, none, at)
	require.Equal(t, len(m.items), m.cache.cards.items+m.cache.funds.items)
	require.Equal(t, len(m.items), inUse(&m.cache.cardPool)+inUse(&m.cache.fundPool))
	rules := slices.DeleteFunc(slices.Clone(m.items), func(it cached) bool { return it.rule == 0 })
	require.Equal(t, len(rules), m.cache.tokens.items)
}

func inUse[T any](p *pool[T]) int { return len(p.slabs)*slabItems - len(p.unused) }

func many(do func(t *rapid.T)) func(t *rapid.T) {
	return func(t *rapid.T) {
		for range rapid.IntRange(1, 10).Draw(t, "times") {
			do(t)
		}
	}
}

// The cache evicts the oldest item that was not looked up. An evicted item is not found, and
// neither are its data in the item that reuses its place.
func TestCacheEvictsByQueueWithSecondChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := cacheModel{cache: newCache(1 << 40)}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "put cards": many(m.putCard), "put funds": many(m.putFunds), "look": many(m.look),
			"trim": m.trim,
		})
	})
}

// An item of the pool is empty when taken, has one owner, and does not move.
func TestPoolItemsHaveOneOwner(t *testing.T) {
	p, taken := &pool[pinned]{}, map[ref]*pinned{}
	take := func(n int) {
		for range n {
			r, it := p.take()
			require.NotContains(t, taken, r)
			require.NotEqual(t, none, r)
			require.Zero(t, *it)
			it.key, taken[r] = idOf(int(r)), it
		}
	}
	take(3*slabItems + 1)
	for r := ref(5); r < 2*slabItems; r += 3 {
		p.free(r)
		delete(taken, r)
	}
	take(2 * slabItems)
	for r, it := range taken {
		require.Same(t, it, p.at(r))
		require.Equal(t, idOf(int(r)), it.key)
	}
	require.Len(t, p.slabs, 5)
}
