package actors_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/ident"
	"purser/authorizer/hold"
)

// relayAtOnce is how many entries may be on their way to the journal.
const relayAtOnce = 16 * balance.MaxRelay

// flood is an authorizer with more in the log of every shard than the relay may have in hand.
type flood struct {
	*books
	release chan struct{} // closed: readings of the log end

	mu           sync.Mutex
	woken        map[ident.Shard]bool
	inHand, most int
}

func (f *flood) Synced(ident.Shard) uint64 { return 1 << 20 }

func (f *flood) WaitSynced(_ context.Context, shard ident.Shard, _ uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken[shard] = true
	return nil
}

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
	f := &flood{release: make(chan struct{}), woken: map[ident.Shard]bool{}}
	newRig(t, func(c *actors.Config) {
		f.books = c.Authorizer.(*books)
		c.Authorizer = f
	})
	t.Cleanup(func() { close(f.release) }) // before the rig stops
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.woken) == ident.Shards && f.inHand >= relayAtOnce
	}, comesWithin, lookEvery)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, relayAtOnce, f.most)
}
