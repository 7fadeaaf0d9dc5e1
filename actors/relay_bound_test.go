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

// relayAtOnce is the number of entries that all shards together may send to the journal at a time.
const relayAtOnce = 16 * balance.MaxRelay

// floodedAuthorizer is an authorizer whose log has more entries in every shard than the relay may
// send at a time.
type floodedAuthorizer struct {
	*reservingAuthorizer
	release chan struct{} // closed: calls of ReadLog return

	mu                sync.Mutex
	syncedCalls       map[ident.Shard]int // calls of Synced: three at the start, one before places are acquired
	inHand, maxInHand int
}

func (f *floodedAuthorizer) Synced(shard ident.Shard) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncedCalls[shard]++
	return 1 << 20
}

// ReadLog holds limit entries until release is closed.
func (f *floodedAuthorizer) ReadLog(_ ident.Shard, _ uint64, limit int) ([]hold.Entry, error) {
	f.add(limit)
	defer f.add(-limit)
	<-f.release
	return nil, nil
}

func (f *floodedAuthorizer) add(entries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inHand += entries
	f.maxInHand = max(f.maxInHand, f.inHand)
}

// TestTheRelayBoundsItsEntriesInFlight gives every shard a long backlog. All shards together hold
// exactly relayAtOnce entries.
func TestTheRelayBoundsItsEntriesInFlight(t *testing.T) {
	f := &floodedAuthorizer{release: make(chan struct{}), syncedCalls: map[ident.Shard]int{}}
	newCounterSystem(t, func(c *actors.Config) {
		f.reservingAuthorizer = c.Authorizer.(*reservingAuthorizer)
		c.Authorizer = f
	})
	t.Cleanup(func() { close(f.release) }) // before the system stops
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for shard := range ident.Shards {
			if f.syncedCalls[ident.Shard(shard)] < 4 {
				return false
			}
		}
		return f.inHand >= relayAtOnce
	}, eventuallyWithin, pollEvery)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, relayAtOnce, f.maxInHand)
}

// stuckShards stands for the authorizer and the journal. Its first stuckShardCount shards together
// have as many entries as all shards may send at a time. The balances of these shards cannot be
// read. otherShard has one entry once otherReady is closed.
type stuckShards struct {
	*reservingAuthorizer
	persistence.Journal
	otherReady chan struct{} // closed: otherShard has its entry
	onSynced   func(ident.Shard)

	mu           sync.Mutex
	loadAttempts map[ident.Shard]bool
	otherRelayed bool // whether otherShard is relayed
}

const (
	stuckShardCount = relayAtOnce / balance.MaxRelay
	otherShard      = ident.Shard(stuckShardCount)
)

func (s *stuckShards) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	if kind == "balance" && slot.Shard() < stuckShardCount {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loadAttempts[slot.Shard()] = true
		return persistence.Record{}, persistence.ErrUnavailable
	}
	return s.Journal.Record(ctx, slot, kind, id)
}

func (s *stuckShards) Synced(shard ident.Shard) uint64 {
	switch {
	case shard < stuckShardCount:
		return balance.MaxRelay
	case shard == otherShard:
		select {
		case <-s.otherReady:
			return 1
		default:
		}
	}
	return 0
}

func (s *stuckShards) OnSynced(call func(ident.Shard)) { s.onSynced = call }

func (s *stuckShards) ReadLog(shard ident.Shard, after uint64, limit int) (entries []hold.Entry, err error) {
	workspace := ident.Derive(ident.Slot(shard)<<4, time.UnixMilli(1), "workspace")
	for seq := after + 1; seq <= s.Synced(shard) && len(entries) < limit; seq++ {
		entries = append(entries, hold.Entry{Seq: seq, WsSeq: seq, Workspace: workspace})
	}
	return entries, nil
}

func (s *stuckShards) MarkRelayed(shard ident.Shard, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.otherRelayed = s.otherRelayed || shard == otherShard
	return nil
}

// acceptingBalance is a balance that accepts every entry.
type acceptingBalance struct{}

func (acceptingBalance) Decide(decision.Meta, any) (decision.Decision, error) {
	return decision.Decision{}, nil
}
func (acceptingBalance) Apply(decision.Event) {}

// TestStuckShardsDoNotBlockTheRelayOfOthers: shards whose entries are not accepted release the
// places that otherShard waits for.
func TestStuckShardsDoNotBlockTheRelayOfOthers(t *testing.T) {
	s := &stuckShards{otherReady: make(chan struct{}), loadAttempts: map[ident.Shard]bool{}}
	newCounterSystem(t, func(c *actors.Config) {
		s.reservingAuthorizer, s.Journal = c.Authorizer.(*reservingAuthorizer), c.Journal
		c.Authorizer, c.Journal, c.RelayWithin = s, s, time.Millisecond
		c.Kinds = append(c.Kinds, actors.Kind{Name: "balance", New: func() actors.State { return acceptingBalance{} }})
	})
	seen := func(what func() bool) {
		require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return what() }, eventuallyWithin,
			pollEvery)
	}
	seen(func() bool { return len(s.loadAttempts) == stuckShardCount })
	close(s.otherReady)
	s.onSynced(otherShard)
	seen(func() bool { return s.otherRelayed })
}
