package actors

import (
	"sync"
	"sync/atomic"

	"purser/actors/balance"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Limits of the decisions that PendingOfCard keeps in memory, some 1 KB each.
const (
	maxPendingRead = 2048   // decisions of one shard
	maxPendingKept = 65_536 // decisions of all shards
)

// pendingCards are the durable decisions of a shard that the journal lacks, by card. A read adds
// those that came since the last one: a decision is read once, however many reads there are.
type pendingCards struct {
	kept *atomic.Int64 // decisions of all shards

	mu      sync.Mutex
	through uint64 // the last entry that was read
	order   []pendingEntry
	byCard  map[ident.UUID][]balance.CardDecision // in the order of the log
}

type pendingEntry struct {
	seq  uint64
	card ident.UUID
}

// dropRelayed forgets the decisions through an entry.
func (p *pendingCards) dropRelayed(through uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(through)
}

func (p *pendingCards) drop(through uint64) {
	n := 0
	for ; n < len(p.order) && p.order[n].seq <= through; n++ {
		if card := p.order[n].card; len(p.byCard[card]) == 1 {
			delete(p.byCard, card)
		} else {
			p.byCard[card] = p.byCard[card][1:] // a reader may have the slice: it stays as it is
		}
	}
	if n > 0 {
		p.kept.Add(-int64(n))
		p.order = p.order[n:]
	}
	if len(p.order) == 0 {
		p.order, p.byCard = nil, nil
	}
	p.through = max(p.through, through)
}

// PendingOfCard returns the durable decisions of a card that the journal does not have yet, in
// order. ok is false when it lacks more than maxPendingRead of the card's shard or
// maxPendingKept of all, or when they cannot be read: WaitRelayed then waits for them. A
// decision that is relayed meanwhile is also in the reads that follow. An id that is no card's
// has none.
func (s *System) PendingOfCard(card string) (pending []balance.CardDecision, ok bool) {
	id, err := ident.Parse(ident.Card, card)
	if err != nil {
		return nil, true
	}
	sh := s.shards[id.Shard()]
	return sh.pending.ofCard(id, sh.relayed.load(), s.authorizer.Synced(sh.id),
		func(after uint64, limit int) ([]hold.Entry, error) { return s.authorizer.ReadLog(sh.id, after, limit) })
}

// ofCard returns the decisions of a card between two entries of the log.
func (p *pendingCards) ofCard(card ident.UUID, relayed, synced uint64,
	readLog func(after uint64, limit int) ([]hold.Entry, error)) (pending []balance.CardDecision, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(relayed)
	if synced > relayed+maxPendingRead {
		return nil, false
	}
	missing := int64(synced - min(synced, p.through))
	if p.kept.Add(missing) > maxPendingKept {
		p.kept.Add(-missing)
		return nil, false
	}
	for p.through < synced {
		entries, err := readLog(p.through, int(synced-p.through))
		if err != nil || len(entries) == 0 {
			p.kept.Add(-int64(synced - p.through))
			return nil, false
		}
		p.add(entries)
	}
	return p.byCard[card], true
}

// add adds entries, which kept counts already.
func (p *pendingCards) add(entries []hold.Entry) {
	if p.byCard == nil {
		p.byCard = map[ident.UUID][]balance.CardDecision{}
	}
	for i := range entries {
		e := &entries[i]
		p.order = append(p.order, pendingEntry{e.Seq, e.Card})
		p.byCard[e.Card] = append(p.byCard[e.Card], balance.CardDecisionOf(e))
		p.through = e.Seq
	}
}
