package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/kafka"
	"purser/persistence/pebblejournal"
)

// brokersTest names a running Apache Kafka (see .ci/kafka) on which the suite runs besides kfake.
const brokersTest = "KAFKA_BROKERS_TEST"

// patience is how long a condition may take to come true. It is no measurement.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(brokersTest) == "" {
		fmt.Printf("left out: the suite on Apache Kafka (%s is not set; .ci/kafka sets it); it runs on kfake only\n", brokersTest)
	}
	code := m.Run()
	// kafka-go's connections outlive a read that was given up until Kafka has answered it.
	if err := journaltest.Leaked(goleak.IgnoreAnyFunction("github.com/segmentio/kafka-go.(*conn).run")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// everyKafka runs a test on each Kafka there is.
func everyKafka(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Run("kfake", func(t *testing.T) { test(t, startFake(t).ListenAddrs()) })
	if brokers := os.Getenv(brokersTest); brokers != "" {
		t.Run("apache", func(t *testing.T) { test(t, strings.Split(brokers, ",")) })
	}
}

func startFake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

var topics atomic.Int64

// fixture is a journal and a topic of their own.
type fixture struct {
	t       testing.TB
	ctx     context.Context
	brokers []string
	name    string
	journal *journal
	epochs  []uint64
	wire    *wire
	topic   *kafka.Topic
	proof   kafka.Proof // the proof of the process under test
}

func newFixture(t testing.TB, brokers []string) *fixture {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	j, err := pebblejournal.Open(pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", SegmentBytes: 256 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	f := &fixture{t: t, ctx: ctx, brokers: brokers, journal: &journal{Journal: j}}
	f.name = fmt.Sprintf("purser.test.%d.%d", os.Getpid(), topics.Add(1))
	var shards []ident.Shard
	for i := range ident.Shards {
		shards = append(shards, ident.Shard(i))
	}
	heads, err := j.Raise(ctx, shards...)
	require.NoError(t, err)
	for _, head := range heads {
		f.epochs = append(f.epochs, head.Epoch)
	}
	f.proof = kafka.Proof{Keys: [][]byte{proofKey(f.t, 1)}, Run: ident.UUID{1}}
	f.topic, f.wire = f.connect()
	return f
}

// proofKey is the key of a data key of one repeated byte.
func proofKey(t testing.TB, of byte) []byte {
	key, err := kafka.DeriveKey(bytes.Repeat([]byte{of}, 32))
	require.NoError(t, err)
	return key
}

// connect returns the topic over a wire of its own.
func (f *fixture) connect() (*kafka.Topic, *wire) {
	w := &wire{RoundTripper: &kafkago.Transport{MetadataTTL: 500 * time.Millisecond, MetadataTopics: []string{f.name}}}
	topic, err := kafka.New(kafka.Options{Brokers: f.brokers, Topic: f.name, Transport: w, Proof: f.proof})
	require.NoError(f.t, err)
	f.t.Cleanup(topic.Close)
	return topic, w
}

// append commits events of a shard, each with the payload.
func (f *fixture) append(shard ident.Shard, events int, payload string) {
	f.t.Helper()
	for ; events > persistence.MaxPage; events -= persistence.MaxPage {
		f.append(shard, persistence.MaxPage, payload)
	}
	head := f.journal.Head(shard).Position
	workspace := fmt.Sprintf("ws_%03d", shard)
	b := &persistence.Batch{Workspace: workspace, Slot: ident.Slot(shard) << 4}
	for i := range events {
		position := head + uint64(i) + 1
		b.Events = append(b.Events, persistence.Event{
			ID: fmt.Sprintf("evt_%03d_%d", shard, position), Workspace: workspace, Kind: "card", Stream: "card_" + workspace,
			Version: position, Type: "card.frozen.v1", At: time.Date(2026, 1, 2, 3, 4, 5, int(position), time.UTC),
			Payload: []byte(payload),
		})
	}
	outcomes, err := f.journal.Append(f.ctx, shard, f.epochs[shard], time.Now(), []*persistence.Batch{b})
	require.NoError(f.t, err)
	require.NoError(f.t, outcomes[0].Err)
}

// appendEverywhere commits so many events in each of the shards.
func (f *fixture) appendEverywhere(events int) {
	for shard := range ident.Shards {
		f.append(ident.Shard(shard), events, `{"spaces":  "kept", "n": 1.0}`)
	}
}

// run starts something that ends with its context and returns how to end it, which the end of the
// test also does.
func (f *fixture) run(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(f.t, <-ended, context.Canceled)
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) publish(topic *kafka.Topic, j persistence.Journal, l kafka.PublisherListener) (stop func()) {
	p, err := topic.Publisher(kafka.PublisherOptions{
		Journal: j, RetryMin: time.Millisecond, RetryMax: 50 * time.Millisecond, SaveEvery: 10 * time.Millisecond, Listener: l,
	})
	require.NoError(f.t, err)
	return f.run(p.Run)
}

// never is a CheckEvery that does not come: what the topic lacks at its end stays away.
const never = time.Hour

func (f *fixture) subscribe(topic *kafka.Topic, check time.Duration, c interface {
	consumer.Handler
	consumer.Listener
}) (stop func()) {
	o := kafka.SubscriptionOptions{Wait: 20 * time.Millisecond, CheckEvery: check}
	o.Journal, o.Listener = f.journal, c
	o.RetryMin, o.RetryMax = time.Millisecond, 50*time.Millisecond
	s, err := topic.Subscribe(o)
	require.NoError(f.t, err)
	return f.run(func(ctx context.Context) error { return s.Run(ctx, c) })
}

// tailing subscribes and waits until the reader of each partition waits for messages of the topic.
func (f *fixture) tailing(check time.Duration, c *memoryConsumer) (stop func()) {
	topic, w := f.connect()
	stop = f.subscribe(topic, check, c)
	f.eventually(func() bool { return w.fetching.Load() == 1<<kafka.Partitions-1 }, "not all partitions are read")
	return stop
}

func (f *fixture) eventually(ok func() bool, message string) {
	f.t.Helper()
	require.Eventually(f.t, ok, patience, 5*time.Millisecond, message)
}

// handled waits until a consumer has all that the journal has, and then holds its effects against
// the journal.
func (f *fixture) handled(consumers ...*memoryConsumer) {
	f.t.Helper()
	for _, c := range consumers {
		for i := range ident.Shards {
			shard := ident.Shard(i)
			head := f.journal.Head(shard).Position
			f.eventually(func() bool { return c.position(shard) >= head },
				fmt.Sprintf("shard %d does not come to %d", shard, head))
			require.Equal(f.t, f.events(shard), c.of(shard))
		}
	}
}

func (f *fixture) events(shard ident.Shard) []persistence.Event {
	var all []persistence.Event
	for at := uint64(0); at < f.journal.Head(shard).Position; at = all[len(all)-1].Position {
		events, err := f.journal.Journal.Events(f.ctx, shard, at, persistence.MaxPage)
		require.NoError(f.t, err)
		all = append(all, events...)
	}
	return all
}

// published waits until the cursor of each shard is at the journal's head.
func (f *fixture) published() {
	f.t.Helper()
	for i := range ident.Shards {
		shard := ident.Shard(i)
		f.eventually(func() bool {
			at, err := f.journal.Journal.Cursor(f.ctx, kafka.CursorName, shard)
			return err == nil && at == f.journal.Head(shard).Position
		}, fmt.Sprintf("shard %d is not published", shard))
	}
}

// journal is a journal whose reads of events and saves of cursors a test may refuse.
type journal struct {
	persistence.Journal
	blind   atomic.Bool  // Events fails
	refused atomic.Int64 // times that it did
	forgets atomic.Bool  // SaveCursor drops its positions
}

var errRefused = errors.New("refused by the test")

func (j *journal) Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]persistence.Event, error) {
	if j.blind.Load() {
		j.refused.Add(1)
		return nil, errRefused
	}
	return j.Journal.Events(ctx, shard, after, limit)
}

func (j *journal) SaveCursor(ctx context.Context, name string, shard ident.Shard, position uint64) error {
	if j.forgets.Load() {
		return nil
	}
	return j.Journal.SaveCursor(ctx, name, shard, position)
}

// wire carries requests to Kafka, and loses what a test wants lost.
type wire struct {
	kafkago.RoundTripper
	down     atomic.Bool
	fetching atomic.Uint64 // partitions of which a read was asked, as bits
	// produce answers a produce request; nil sends it.
	produce atomic.Pointer[func(send func() (kafkago.Response, error)) (kafkago.Response, error)]
}

func (w *wire) RoundTrip(ctx context.Context, addr net.Addr, request kafkago.Request) (kafkago.Response, error) {
	if w.down.Load() {
		return nil, errRefused
	}
	send := func() (kafkago.Response, error) { return w.RoundTripper.RoundTrip(ctx, addr, request) }
	if partition, ok := kafka.FetchedPartition(request); ok {
		w.fetching.Or(1 << partition)
	}
	if _, ok := request.(*produce.Request); ok {
		if answer := w.produce.Load(); answer != nil {
			return (*answer)(send)
		}
	}
	return send()
}

func (w *wire) onProduce(answer func(send func() (kafkago.Response, error)) (kafkago.Response, error)) {
	w.produce.Store(&answer)
}

// acknowledged is Kafka's answer to a produce request.
func acknowledged() kafkago.Response {
	return &produce.Response{Topics: []produce.ResponseTopic{{Partitions: []produce.ResponsePartition{{}}}}}
}

func (w *wire) CloseIdleConnections() { w.RoundTripper.(*kafkago.Transport).CloseIdleConnections() }

// memoryConsumer keeps its effects and positions as a database would, and is its own listener.
type memoryConsumer struct {
	mu       sync.Mutex
	effects  [ident.Shards][]persistence.Event
	refuse   func(ident.Shard) error // called under mu; nil refuses nothing
	repeated atomic.Int64
	gaps     atomic.Int64
	failed   atomic.Int64
	fault    error // the first failure that no slow or new broker explains; under mu
	foreign  atomic.Int64
	forged   atomic.Int64
	unproven atomic.Int64
	replaced atomic.Int64
}

func (c *memoryConsumer) Position(_ context.Context, shard ident.Shard) (uint64, error) {
	return c.position(shard), nil
}

func (c *memoryConsumer) position(shard ident.Shard) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(len(c.effects[shard]))
}

func (c *memoryConsumer) of(shard ident.Shard) []persistence.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.effects[shard]
}

func (c *memoryConsumer) Handle(_ context.Context, shard ident.Shard, events []persistence.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(shard); err != nil {
			return err
		}
	}
	if uint64(len(c.effects[shard]))+1 != events[0].Position {
		return consumer.ErrMoved
	}
	c.effects[shard] = append(c.effects[shard], events...)
	return nil
}

func (c *memoryConsumer) Handled(ident.Shard, uint64, int)   { /* the effects tell it */ }
func (c *memoryConsumer) Repeated(_ ident.Shard, events int) { c.repeated.Add(int64(events)) }
func (c *memoryConsumer) Gap(ident.Shard, uint64, uint64)    { c.gaps.Add(1) }
func (c *memoryConsumer) Failed(_ ident.Shard, err error, _ time.Duration) {
	c.failed.Add(1)
	if ofBroker(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = err
	}
}

func (c *memoryConsumer) found() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// ofBroker reports that Kafka took too long, or does not know a new topic or its leader yet: a
// retry mends it.
func ofBroker(err error) bool {
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout() ||
		errors.Is(err, kafkago.UnknownTopicOrPartition) || errors.Is(err, kafkago.LeaderNotAvailable) ||
		errors.Is(err, kafkago.NotLeaderForPartition) || errors.Is(err, protocol.ErrNoTopic) ||
		errors.Is(err, protocol.ErrNoPartition) || errors.Is(err, protocol.ErrNoLeader)
}

func (c *memoryConsumer) Skipped(_ int, _ int64, err error) {
	switch {
	case errors.Is(err, kafka.ErrForeign):
		c.foreign.Add(1)
	case errors.Is(err, kafka.ErrForged):
		c.forged.Add(1)
	case errors.Is(err, kafka.ErrUnproven):
		c.unproven.Add(1)
	}
}

func (c *memoryConsumer) TopicReplaced(int, int64, int64) { c.replaced.Add(1) }

// outlet listens to a publisher.
type outlet struct {
	failed, behind atomic.Int64
	resumed        atomic.Int64
	replaced       atomic.Int64
	failure        atomic.Pointer[error] // the last
}

func (o *outlet) Published(ident.Shard, uint64, int) {}
func (o *outlet) Behind(_ ident.Shard, events uint64, _ time.Time) {
	if events > 0 {
		o.behind.Add(1)
	}
}
func (o *outlet) PublishFailed(_ int, err error, _ time.Duration) {
	o.failed.Add(1)
	o.failure.Store(&err)
}
func (o *outlet) PublishResumed(int)              { o.resumed.Add(1) }
func (o *outlet) TopicReplaced(int, int64, int64) { o.replaced.Add(1) }
