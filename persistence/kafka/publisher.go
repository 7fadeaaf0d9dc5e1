package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

const (
	// CursorName is the publisher's cursor in the journal: events at or below it are in the topic.
	CursorName = "kafka"

	// DefaultLinger is the time between the starts of two requests of a partition when the first
	// leaves no event waiting. Each request also costs every consumer a read, and its cost hardly
	// depends on its events: at 5 ms all partitions together made thousands a second, of an event
	// or two each.
	DefaultLinger    = 100 * time.Millisecond
	DefaultSaveEvery = time.Second // between two saves of a cursor

	fullEvents  = 1000    // events of a full request
	fullBytes   = 1 << 20 // bytes of a full request; one more shard's events may follow, up to MaxMessageBytes
	saveTimeout = 5 * time.Second
	shardsOf    = ident.Shards / Partitions // per partition
)

// PublisherListener receives the steps of a publisher, on the goroutine of the step. It must be
// quick and safe for concurrent use.
type PublisherListener interface {
	// Published: Kafka has so many more events of the shard, the last at the position.
	Published(shard ident.Shard, through uint64, events int)
	// Behind receives, before every try and after every success, how many events of the shard wait,
	// and when the oldest was made (zero: not known, or none waits).
	Behind(shard ident.Shard, events uint64, oldest time.Time)
	// PublishFailed: nothing is lost; the partition is tried again after a pause.
	PublishFailed(partition int, err error, pause time.Duration)
	// PublishResumed: a try of the partition has succeeded, the first after one that failed.
	PublishResumed(partition int)
	TopicReplaced
}

// TopicReplaced is part of the listeners of publishers and subscriptions.
type TopicReplaced interface {
	// TopicReplaced: a partition had messages up to the offset had, and now it ends at has.
	// Somebody made the topic anew, or Kafka lost acknowledged messages. The journal has all
	// events; readers of the topic elsewhere may lack some.
	TopicReplaced(partition int, had, has int64)
}

// PublisherOptions of a Publisher.
type PublisherOptions struct {
	Journal            persistence.Journal
	Linger             time.Duration
	SaveEvery          time.Duration
	RetryMin, RetryMax time.Duration // as in consumer.Options
	Listener           PublisherListener
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *PublisherOptions) EnsureDefaults() {
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	if o.SaveEvery == 0 {
		o.SaveEvery = DefaultSaveEvery
	}
	if o.RetryMin == 0 {
		o.RetryMin = consumer.DefaultRetryMin
	}
	if o.RetryMax == 0 {
		o.RetryMax = max(consumer.DefaultRetryMax, o.RetryMin)
	}
	if o.Listener == nil {
		o.Listener = silentPublisher{}
	}
}

// Validate returns the first fault of the options. EnsureDefaults must have run before. It refuses
// a nil Journal, negative times, and RetryMax below RetryMin.
func (o *PublisherOptions) Validate() error {
	switch {
	case o.Journal == nil:
		return errors.New("kafka publisher: no journal")
	case min(o.Linger, o.SaveEvery) < 0:
		return fmt.Errorf("kafka publisher: linger %v, save every %v", o.Linger, o.SaveEvery)
	case o.RetryMin < 0 || o.RetryMax < o.RetryMin:
		return fmt.Errorf("kafka publisher: pauses from %v to %v", o.RetryMin, o.RetryMax)
	}
	return nil
}

type silentPublisher struct{}

func (silentPublisher) Published(ident.Shard, uint64, int)      {}
func (silentPublisher) Behind(ident.Shard, uint64, time.Time)   {}
func (silentPublisher) PublishFailed(int, error, time.Duration) {}
func (silentPublisher) PublishResumed(int)                      {}
func (silentPublisher) TopicReplaced(int, int64, int64)         {}

// Publisher is the outbox: it copies the journal to the topic.
type Publisher struct {
	o     PublisherOptions
	topic *Topic
}

// Publisher returns the publisher of a journal. A deployment needs one; two only repeat each other.
// It fails only for invalid options or an invalid Proof.
func (t *Topic) Publisher(o PublisherOptions) (*Publisher, error) {
	o.EnsureDefaults()
	if err := errors.Join(o.Validate(), t.o.Proof.Validate()); err != nil {
		return nil, err
	}
	return &Publisher{o: o, topic: t}, nil
}

// Run publishes until the context ends, whose error it returns, or until ErrTopic. Other errors are
// reported to the listener and retried. It then saves the cursors; the journal has to be open until
// Run returns. The server runs it once, in a goroutine of its own.
func (p *Publisher) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	var lanes [Partitions]*lane
	for partition := range lanes {
		l := newLane(p, partition)
		lanes[partition] = l
		running.Go(func() {
			if err := l.run(ctx); err != nil {
				stop(err)
			}
		})
	}
	var woken [ident.Shards]uint64 // the head for which a shard's lane was last woken
	consumer.WatchHeads(ctx, p.o.Journal, retry.Backoff{Min: p.o.RetryMin, Max: p.o.RetryMax}, func() {
		for shard := range woken {
			if head := p.o.Journal.Head(ident.Shard(shard)).Position; head > woken[shard] {
				woken[shard] = head
				lanes[shard%Partitions].wakeUp()
			}
		}
	})
	running.Wait()
	return context.Cause(ctx)
}

// lane publishes one partition: one request at a time, so that a request that fails is never
// overtaken by a later one.
type lane struct {
	p         *Publisher
	codec     *codec
	partition int
	end       int64 // the offset after the last request; 0 before the first
	shards    [shardsOf]place
	first     int           // which shard is asked first, so that a busy one does not starve the others
	wake      chan struct{} // holds one token when a head has moved
	retry     retry.Backoff
	failing   bool // the listener got a failure and no success since
}

// place is how far a shard is published.
type place struct {
	shard       ident.Shard
	sent, saved uint64
}

// batch is one request.
type batch struct {
	messages []kafkago.Record
	bytes    int
	parts    []part
	more     bool // the shard has events that the batch lacks
}

// part is what a batch has of one shard.
type part struct {
	place   *place
	through uint64
	events  int
}

func (b *batch) isFull() bool { return len(b.messages) >= fullEvents || b.bytes >= fullBytes }

// newLane returns the publisher's lane of a partition, which sends the events of the shards that
// map to it.
func newLane(p *Publisher, partition int) *lane {
	l := &lane{p: p, partition: partition, wake: make(chan struct{}, 1)}
	l.codec = newCodec(p.o.Journal.Identity(), p.topic.o.Proof)
	l.retry = retry.Backoff{Min: p.o.RetryMin, Max: p.o.RetryMax}
	for i := range l.shards {
		l.shards[i].shard = ident.Shard(partition + i*Partitions)
	}
	return l
}

// run publishes one partition until the context ends, and then returns nil. Its only error is
// ErrTopic.
func (l *lane) run(ctx context.Context) error {
	if err := l.loadWithRetry(ctx); err != nil {
		return err
	}
	save := time.NewTicker(l.p.o.SaveEvery)
	defer save.Stop()
	defer l.saveLast(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-save.C:
			l.saveCursors(ctx)
		case <-l.wake:
			if err := l.publishBacklog(ctx, save.C); err != nil {
				return err
			}
		}
	}
}

// loadWithRetry finds the cursors and prepares the topic, and retries until it succeeds or the
// context ends. Its only error is ErrTopic.
func (l *lane) loadWithRetry(ctx context.Context) error {
	err := l.retryUntilDone(ctx, func() error { return l.loadCursors(ctx) })
	if err != nil {
		return err
	}
	return l.retryUntilDone(ctx, func() error {
		l.tellBehind()
		return l.p.topic.Prepare(ctx)
	})
}

// loadCursors reads how far each shard of the lane was sent. It fails with the journal's error.
func (l *lane) loadCursors(ctx context.Context) error {
	for i := range l.shards {
		s := &l.shards[i]
		at, err := l.p.o.Journal.Cursor(ctx, CursorName, s.shard)
		if err != nil {
			return err
		}
		s.sent, s.saved = at, at
	}
	return nil
}

func (l *lane) tellBehind() {
	for i := range l.shards {
		s := &l.shards[i]
		l.p.o.Listener.Behind(s.shard, l.p.o.Journal.Head(s.shard).Position-s.sent, time.Time{})
	}
}

// retryUntilDone tries until it succeeds or the context ends (nil), or ErrTopic.
func (l *lane) retryUntilDone(ctx context.Context, try func() error) error {
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			l.retry.Reset()
			l.noteSuccess()
			return nil
		}
		if errors.Is(err, ErrTopic) {
			return err
		}
		if ctx.Err() == nil {
			pause := l.retry.Next()
			l.noteFailure(err, pause)
			retry.Pause(ctx, pause)
		}
	}
	return nil
}

// wakeUp makes the lane publish its backlog. It never blocks, and is safe for concurrent use.
func (l *lane) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default: // the lane has not begun the work of the last call
	}
}

// publishBacklog publishes until nothing is left or the context ends, or returns ErrTopic.
func (l *lane) publishBacklog(ctx context.Context, save <-chan time.Time) error {
	linger := time.NewTimer(0)
	defer linger.Stop()
	for ctx.Err() == nil {
		select {
		case <-save:
			l.saveCursors(ctx)
		default:
		}
		linger.Reset(l.p.o.Linger)
		b, err := l.publishBatch(ctx)
		if err != nil || ctx.Err() != nil || len(b.messages) == 0 {
			return err
		}
		l.notePublished(b)
		if !b.more {
			select {
			case <-linger.C:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// publishBatch sends one request with the next events, and retries until Kafka has taken it. The
// batch is empty when there are no events or the context has ended. Its only error is ErrTopic.
func (l *lane) publishBatch(ctx context.Context) (*batch, error) {
	var b *batch
	missing := false
	err := l.retryUntilDone(ctx, func() (err error) {
		if b, err = l.gatherBatch(ctx); err != nil || len(b.messages) == 0 {
			return err
		}
		if missing {
			if err = l.p.topic.Prepare(ctx); err != nil {
				return err
			}
		}
		first, err := l.p.topic.produceMessages(ctx, l.partition, b.messages)
		missing = isMissing(err)
		if err == nil {
			l.noteAppended(first, len(b.messages))
		}
		return err
	})
	return b, err
}

// noteAppended compares the offset of a batch with the end of the batch before it: a partition of
// one topic only grows.
func (l *lane) noteAppended(first int64, messages int) {
	if first < l.end {
		l.p.o.Listener.TopicReplaced(l.partition, l.end, first)
	}
	l.end = first + int64(messages)
}

// isMissing reports that the topic does not exist, by an answer of Kafka or by the client's last
// metadata.
func isMissing(err error) bool {
	return errors.Is(err, kafkago.UnknownTopicOrPartition) ||
		errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}

// gatherBatch reads the events of the lane's shards after the sent ones, until the batch is full.
// It fails only when the journal cannot be read.
func (l *lane) gatherBatch(ctx context.Context) (*batch, error) {
	b := new(batch)
	l.first = (l.first + 1) % len(l.shards)
	for i := range l.shards {
		s := &l.shards[(l.first+i)%len(l.shards)]
		head := l.p.o.Journal.Head(s.shard).Position
		if head <= s.sent {
			continue
		}
		if b.isFull() {
			b.more = true
			break
		}
		events, err := l.p.o.Journal.Events(ctx, s.shard, s.sent, fullEvents-len(b.messages))
		if err != nil {
			return b, err
		}
		if len(events) > 0 {
			l.p.o.Listener.Behind(s.shard, head-s.sent, events[0].At)
			b.more = l.addEvents(b, s, events) < head || b.more
		}
	}
	return b, nil
}

// addEvents appends a shard's events to the batch, as many as fit, and returns the position of the
// last one. The first event of a batch always fits. A gap in the events panics.
func (l *lane) addEvents(b *batch, s *place, events []persistence.Event) (through uint64) {
	p := part{place: s, through: s.sent}
	for i := range events {
		e := &events[i]
		if e.Position != p.through+1 {
			panic(fmt.Sprintf("BUG: event %d of shard %d read after %d", e.Position, s.shard, p.through))
		}
		size := l.codec.maxMessageSize(e)
		if len(b.messages) > 0 && b.bytes+size > MaxMessageBytes {
			break
		}
		b.messages, b.bytes = append(b.messages, l.codec.encodeEvent(s.shard, e)), b.bytes+size
		p.through, p.events = e.Position, p.events+1
	}
	if p.events > 0 {
		b.parts = append(b.parts, p)
	}
	return p.through
}

func (l *lane) notePublished(b *batch) {
	for _, p := range b.parts {
		p.place.sent = p.through
		l.p.o.Listener.Published(p.place.shard, p.through, p.events)
		head := l.p.o.Journal.Head(p.place.shard).Position
		l.p.o.Listener.Behind(p.place.shard, head-p.through, time.Time{})
	}
}

// saveCursors stores the cursors that have moved. One that could not be stored is stored the next
// time.
func (l *lane) saveCursors(ctx context.Context) {
	for i := range l.shards {
		s := &l.shards[i]
		if s.sent == s.saved {
			continue
		}
		if err := l.p.o.Journal.SaveCursor(ctx, CursorName, s.shard, s.sent); err != nil {
			l.noteFailure(err, l.p.o.SaveEvery)
			return
		}
		s.saved = s.sent
		l.noteSuccess()
	}
}

func (l *lane) noteFailure(err error, pause time.Duration) {
	l.failing = true
	l.p.o.Listener.PublishFailed(l.partition, err, pause)
}

func (l *lane) noteSuccess() {
	if l.failing {
		l.failing = false
		l.p.o.Listener.PublishResumed(l.partition)
	}
}

// saveLast stores the cursors after the context has ended.
func (l *lane) saveLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	l.saveCursors(ctx)
}
