package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
	"purser/persistence/retry"
)

const patience = time.Minute

var errRefused = errors.New("refused by the test")

// stand is a journal of which every shard may be written, and a consumer.
type stand struct {
	t       require.TestingT
	journal persistence.Journal
	epochs  []uint64
	book
}

// T is what both a test and a property have.
type T interface {
	require.TestingT
	Cleanup(func())
}

func newStand(t T) *stand {
	j, err := pebblejournal.Open(pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", SegmentBytes: 256 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	s := &stand{t: t, journal: j}
	var shards []ident.Shard
	for i := range ident.Shards {
		shards = append(shards, ident.Shard(i))
	}
	heads, err := j.Raise(context.Background(), shards...)
	require.NoError(t, err)
	for _, head := range heads {
		s.epochs = append(s.epochs, head.Epoch)
	}
	return s
}

func (s *stand) options() consumer.Options {
	return consumer.Options{
		Journal: s.journal, RetryMin: time.Millisecond, RetryMax: 4 * time.Millisecond, Listener: &s.book}
}

func (s *stand) append(shard ident.Shard, events int) {
	head := s.journal.Head(shard).Position
	b := &persistence.Batch{Workspace: "ws_1", Slot: ident.Slot(shard) << 4}
	for i := range events {
		at := head + uint64(i) + 1
		b.Events = append(b.Events, persistence.Event{
			ID: fmt.Sprintf("evt_%d", at), Workspace: "ws_1", Kind: "card", Stream: "card_1", Version: at, Type: "card.frozen.v1",
			At: time.Unix(int64(at), 0).UTC(), Payload: []byte(`{}`)})
	}
	outcomes, err := s.journal.Append(context.Background(), shard, s.epochs[shard], time.Unix(1, 0), []*persistence.Batch{b})
	require.NoError(s.t, err)
	require.NoError(s.t, outcomes[0].Err)
}

func (s *stand) appendEverywhere(events int) {
	for i := range ident.Shards {
		s.append(ident.Shard(i), events)
	}
}

// run subscribes until the function that it returns, or the end of the test, ends it.
func (s *stand) run(t *testing.T) (stop func()) {
	subscription, err := consumer.Subscribe(s.options())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- subscription.Run(ctx, &s.book) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Cleanup(stop)
	return stop
}

// handled waits until the consumer has all that the journal has; that it has it in order is what the consumer itself demands.
func (s *stand) handled(t *testing.T) {
	t.Helper()
	for i := range ident.Shards {
		shard := ident.Shard(i)
		require.Eventually(t, func() bool { return s.at(shard) == s.journal.Head(shard).Position }, patience, time.Millisecond)
	}
}

// book is a consumer: a position per shard, and how often each event took effect.
type book struct {
	mu        sync.Mutex
	positions [ident.Shards]uint64
	refuse    func(ident.Shard) error
	lostReply atomic.Bool // the next effect stands and its reply is lost
	running   atomic.Int64
	busiest   atomic.Int64
	repeated  atomic.Int64
	failed    atomic.Int64
	gaps      []string
}

func (b *book) at(shard ident.Shard) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.positions[shard]
}

func (b *book) Position(_ context.Context, shard ident.Shard) (uint64, error) {
	return b.at(shard), nil
}

func (b *book) Handle(_ context.Context, shard ident.Shard, events []persistence.Event) error {
	b.busiest.Store(max(b.busiest.Load(), b.running.Add(1)))
	defer b.running.Add(-1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse(shard); err != nil {
			return err
		}
	}
	for i, e := range events {
		if at := b.positions[shard]; e.Position != at+uint64(i)+1 {
			return consumer.ErrMoved
		}
	}
	b.positions[shard] += uint64(len(events))
	if b.lostReply.CompareAndSwap(true, false) {
		return errRefused
	}
	return nil
}

func (b *book) Handled(ident.Shard, uint64, int) {}

func (b *book) Repeated(_ ident.Shard, events int) { b.repeated.Add(int64(events)) }

func (b *book) Gap(shard ident.Shard, after, through uint64) {
	b.gaps = append(b.gaps, fmt.Sprintf("shard %d after %d through %d", shard, after, through))
}

func (b *book) Failed(ident.Shard, error, time.Duration) { b.failed.Add(1) }

func TestSubscriptionDeliversOldAndNew(t *testing.T) {
	s := newStand(t)
	s.append(3, persistence.MaxPage)
	s.append(3, persistence.MaxPage)
	s.appendEverywhere(2)
	stop := s.run(t)
	s.handled(t)
	s.appendEverywhere(3)
	s.handled(t)
	stop()
	s.appendEverywhere(1)
	s.run(t) // a restart
	s.handled(t)
	require.Zero(t, s.failed.Load())
	require.LessOrEqual(t, s.busiest.Load(), int64(consumer.MaxHandlers))
}

func TestSubscriptionTriesAgain(t *testing.T) {
	s := newStand(t)
	broken := atomic.Bool{}
	broken.Store(true)
	s.refuse = func(shard ident.Shard) error {
		if shard == 9 && broken.Load() {
			return errRefused
		}
		return nil
	}
	s.appendEverywhere(1)
	s.run(t)
	require.Eventually(t, func() bool { return s.failed.Load() > 3 && s.at(10) == 1 }, patience, time.Millisecond)
	require.Zero(t, s.at(9))
	broken.Store(false)
	s.handled(t)
}

func TestLostReplyOfTheConsumer(t *testing.T) {
	s := newStand(t)
	s.run(t)
	s.lostReply.Store(true)
	s.append(9, 2)
	s.handled(t)
	s.append(9, 2)
	s.handled(t)
	require.NotZero(t, s.failed.Load())
}

func TestTwoSubscriptionsOfOneConsumer(t *testing.T) {
	s := newStand(t)
	first := s.run(t)
	s.run(t)
	for range 3 {
		s.appendEverywhere(2)
		s.handled(t)
	}
	first()
	s.appendEverywhere(2)
	s.handled(t)
}

func TestConsumerAhead(t *testing.T) {
	s := newStand(t)
	s.append(9, 2)
	s.positions[9] = 3
	subscription, err := consumer.Subscribe(s.options())
	require.NoError(t, err)
	require.ErrorIs(t, subscription.Run(context.Background(), &s.book), consumer.ErrAhead)
}

func TestSubscriptionOptions(t *testing.T) {
	_, err := consumer.Subscribe(consumer.Options{})
	require.ErrorContains(t, err, "no journal")
	o := newStand(t).options()
	o.RetryMax = o.RetryMin - 1
	_, err = consumer.Subscribe(o)
	require.ErrorContains(t, err, "pauses")
}

// TestFeedOffersAnything: the consumer gets each event once and in order, for every order of
// offers.
func TestFeedOffersAnything(t *testing.T) {
	s := newStand(t)
	const events = 60
	s.append(9, events)
	all, err := s.journal.Events(context.Background(), 9, 0, events)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		s.positions[9] = rapid.Uint64Max(events).Draw(t, "at")
		f := consumer.NewFeed(s.options(), 9, &s.book)
		largest := s.positions[9]
		for _, page := range rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, events-1), 0, 20), 1, 5).Draw(t, "pages") {
			var offered []persistence.Event
			for _, i := range page {
				offered = append(offered, all[i])
				largest = max(largest, all[i].Position)
			}
			if rapid.IntRange(0, 4).Draw(t, "luck") == 0 {
				s.lostReply.Store(true)
			}
			for f.Offer(context.Background(), offered) != nil { // the reply was lost: offered again, as a source does
				require.False(t, s.lostReply.Load())
			}
			require.GreaterOrEqual(t, s.at(9), largest)
		}
		s.lostReply.Store(false)
	})
}

func TestFeedTellsGapsAndRepeats(t *testing.T) {
	s := newStand(t)
	s.append(9, 10)
	ctx := context.Background()
	all, err := s.journal.Events(ctx, 9, 0, 10)
	require.NoError(t, err)
	s.positions[9] = 2
	f := consumer.NewFeed(s.options(), 9, &s.book)
	require.NoError(t, f.Offer(ctx, all[1:3])) // 2 is a repeat
	require.EqualValues(t, 3, f.At())
	require.EqualValues(t, 1, s.repeated.Load())
	require.NoError(t, f.Offer(ctx, all[5:7]))
	require.Equal(t, []string{"shard 9 after 3 through 5"}, s.gaps)
	require.EqualValues(t, 10, s.at(9)) // the journal gave all it had
	unknown := all[9]
	unknown.Position = 12
	require.ErrorContains(t, f.Offer(ctx, []persistence.Event{unknown}), "no event after 10")
}

func TestBackoff(t *testing.T) {
	b := retry.Backoff{Min: 100, Max: 500}
	var pauses []time.Duration
	for range 5 {
		pauses = append(pauses, b.Next())
	}
	require.Equal(t, []time.Duration{100, 200, 400, 500, 500}, pauses)
	b.Reset()
	require.EqualValues(t, 100, b.Next())
}
