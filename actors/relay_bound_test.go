package actors_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
)

// relayAtOnce is how many entries may be on their way to the journal.
const relayAtOnce = 16 * balance.MaxRelay

// flood is an authorizer with more in the log of every shard than the relay may have in hand.
type flood struct {
	*books
	release chan struct{} // closed: readings of the log end

	mu           sync.Mutex
	asking       map[ident.Shard]int // how often each asked how much there is: at the start, then just before it takes places
	inHand, most int
}

func (f *flood) Synced(shard ident.Shard) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking[shard]++
	return 1 << 20
}

func (f *flood) WaitSynced(context.Context, ident.Shard, uint64) error { return nil }

// ReadLog has what it was asked for in hand until it is released.
func (f *flood) ReadLog(_ ident.Shard, _ uint64, limit int) ([]hold.Entry, error) {
	f.add(limit)
	defer f.add(-limit)
	<-f.release
	return nil, nil
}

func (f *flood) add(entries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inHand += entries
	f.most = max(f.most, f.inHand)
}

// After a storm every shard has much to relay; together they take no more than they may, and no less.
func TestTheRelayHasABoundedNumberOfEntriesInHand(t *testing.T) {
	f := &flood{release: make(chan struct{}), asking: map[ident.Shard]int{}}
	newRig(t, func(c *actors.Config) {
		f.books = c.Authorizer.(*books)
		c.Authorizer = f
	})
	t.Cleanup(func() { close(f.release) }) // before the rig stops
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for shard := range ident.Shards {
			if f.asking[ident.Shard(shard)] < 2 {
				return false
			}
		}
		return f.inHand >= relayAtOnce
	}, comesWithin, lookEvery)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, relayAtOnce, f.most)
}

// standing is an authorizer and a journal of which some shards have as much to relay as all may have in hand, and balances that
// cannot be read. Another shard has one entry, once it is told to.
type standing struct {
	*books
	persistence.Journal
	told chan struct{} // closed: the other shard has its entry

	mu      sync.Mutex
	tried   map[ident.Shard]bool
	relayed bool // the other shard's
}

const (
	standingShards = relayAtOnce / balance.MaxRelay
	otherShard     = ident.Shard(standingShards)
)

func (s *standing) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	if kind == "balance" && slot.Shard() < standingShards {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tried[slot.Shard()] = true
		return persistence.Record{}, persistence.ErrUnavailable
	}
	return s.Journal.Record(ctx, slot, kind, id)
}

func (s *standing) Synced(shard ident.Shard) uint64 {
	switch {
	case shard < standingShards:
		return balance.MaxRelay
	case shard == otherShard:
		select {
		case <-s.told:
			return 1
		default:
		}
	}
	return 0
}

func (s *standing) WaitSynced(ctx context.Context, shard ident.Shard, past uint64) error {
	if shard == otherShard && past == 0 {
		<-s.told
		return nil
	}
	if shard < standingShards {
		return nil
	}
	return s.books.WaitSynced(ctx, shard, past)
}

func (s *standing) ReadLog(shard ident.Shard, after uint64, limit int) (entries []hold.Entry, err error) {
	workspace := ident.Derive(ident.Slot(shard)<<4, time.UnixMilli(1), "workspace")
	for seq := after + 1; seq <= s.Synced(shard) && len(entries) < limit; seq++ {
		entries = append(entries, hold.Entry{Seq: seq, WsSeq: seq, Workspace: workspace})
	}
	return entries, nil
}

func (s *standing) MarkRelayed(shard ident.Shard, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relayed = s.relayed || shard == otherShard
	return nil
}

// takesAll is a balance that takes every entry.
type takesAll struct{}

func (takesAll) Decide(decision.Meta, any) (decision.Decision, error) {
	return decision.Decision{}, nil
}
func (takesAll) Apply(decision.Event) {}

// Shards whose entries nobody takes give up the places that another shard waits for.
func TestShardsThatStandDoNotKeepOthersFromRelaying(t *testing.T) {
	s := &standing{told: make(chan struct{}), tried: map[ident.Shard]bool{}}
	newRig(t, func(c *actors.Config) {
		s.books, s.Journal = c.Authorizer.(*books), c.Journal
		c.Authorizer, c.Journal, c.RelayWithin = s, s, time.Millisecond
		c.Kinds = append(c.Kinds, actors.Kind{Name: "balance", New: func() actors.State { return takesAll{} }})
	})
	seen := func(what func() bool) {
		require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return what() }, comesWithin, lookEvery)
	}
	seen(func() bool { return len(s.tried) == standingShards })
	close(s.told)
	seen(func() bool { return s.relayed })
}
