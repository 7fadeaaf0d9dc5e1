package authorizer

import (
	"sync"
	"sync/atomic"

	"purser/persistence/ident"
)

// shard is one of the 256 shards, with one lock and one log.
type shard struct {
	id      ident.Shard
	store   *store
	backlog *backlog

	mu      sync.Mutex
	seq     uint64        // last entry
	at      int64         // latest time of a decision of this process, Unix milliseconds
	changes atomic.Uint64 // counts the commits that change the data of decisions
	cache   *cache
	random  randomBits
	follow  uint64 // journal position of the rules and ledgerCents

	synced  atomic.Uint64
	relayed atomic.Uint64
	mark    sync.Mutex
	passed  uint64 // entries up to here have left the backlog; guarded by mark
}

// shardTable has the shards by their number.
type shardTable [ident.Shards]*shard

// of finds the shard of a workspace, a card or an authorization.
func (all *shardTable) of(id ident.UUID) *shard { return all[id.Shard()] }

// openShards reads the ends of all logs. cacheBytes is the memory of one shard's cache.
func openShards(s *store, b *backlog, cacheBytes int64) (all *shardTable, err error) {
	all = &shardTable{}
	for i := range all {
		sh := &shard{id: ident.Shard(i), store: s, backlog: b, cache: newCache(cacheBytes)}
		var relayed uint64
		if sh.follow, relayed, err = s.readPositions(sh.id); err != nil {
			return nil, err
		}
		sh.relayed.Store(relayed)
		sh.seq = max(s.projector.heads.last[i], relayed) // after a rebuild the journal has the log
		sh.synced.Store(sh.seq)
		sh.passed = sh.relayed.Load()
		b.entries.Add(int64(sh.seq - sh.passed))
		all[i] = sh
	}
	return all, nil
}

// followed returns the journal position of the rules and ledgerCents.
func (sh *shard) followed() uint64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.follow
}

// fill sets the decision's data from the cache, or else from the read before the lock. It returns
// false when a read must come first. The card of a reversal, which presents none, is the hold's.
func (sh *shard) fill(t *ticket) bool {
	fresh := t.load.done && t.load.at == sh.changes.Load()
	t.card, t.funds, t.view.Rule, t.view.Hold = nil, nil, nil, nil
	if t.byToken {
		if t.card = sh.cache.byToken(&t.token); t.card == nil {
			if !fresh {
				return false
			}
			if t.load.rule == nil {
				return true // an unknown card, whatever the hold
			}
			t.card = sh.cache.putRule(t.load.rule, t.load.spend)
		}
		t.view.Rule = &t.card.rule
	}
	if !t.holdID.IsZero() {
		if !fresh {
			return false
		}
		if t.load.holdFound {
			t.view.Hold = &t.load.hold
		}
	}
	return sh.fillBalances(t, fresh)
}

// fillBalances sets the card's spend and the workspace's funds. It returns false when a read must
// come first.
func (sh *shard) fillBalances(t *ticket, fresh bool) bool {
	card, workspace := t.movedIDs()
	if workspace == ident.System && sh.id != ident.SystemSlot.Shard() {
		// An unknown message has the system's funds, which are in another shard.
		return true
	}
	if t.card == nil && !card.IsZero() {
		if t.card = sh.cache.byID(&card); t.card == nil {
			if !fresh {
				return false
			}
			t.card = sh.cache.putSpend(&card, t.load.spend)
		}
	}
	if t.funds = sh.cache.fund(&workspace); t.funds == nil {
		if !fresh {
			return false
		}
		t.funds = sh.cache.putFunds(t.load.funds)
	}
	return true
}

// hotFunds returns a workspace's funds under the lock, from the cache or the store.
func (sh *shard) hotFunds(b *scratch, workspace *ident.UUID) (*fundsItem, error) {
	if it := sh.cache.fund(workspace); it != nil {
		return it, nil
	}
	it, err := sh.store.readFunds(b, workspace)
	if err != nil {
		return nil, err
	}
	return sh.cache.putFunds(it), nil
}

// peekFunds takes the lock and returns a workspace's funds. It leaves the cache as it is.
func (sh *shard) peekFunds(workspace *ident.UUID) (*fundsItem, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if it := sh.cache.funds.get(workspace[:]); it != nil {
		return &fundsItem{workspace: it.workspace, funds: it.funds, wsSeq: it.wsSeq}, nil
	}
	return sh.store.readFunds(&scratch{}, workspace)
}
