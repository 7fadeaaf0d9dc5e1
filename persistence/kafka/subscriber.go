package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

const (
	DefaultWait       = 500 * time.Millisecond // how long a read of a partition waits for a message
	DefaultCheckEvery = 10 * time.Second       // how late an event may come before it is read from the journal
)

// TopicListener may be implemented by a listener of SubscriptionOptions besides.
type TopicListener interface {
	// Skipped: a message has no effect. The error is ErrForeign, ErrForged or ErrUnproven. For a
	// batch that is refused as a whole it is called once, with ErrForged and the first offset.
	Skipped(partition int, offset int64, err error)
	TopicReplaced
}

type silentTopic struct{}

func (silentTopic) Skipped(int, int64, error)       {}
func (silentTopic) TopicReplaced(int, int64, int64) {}

// SubscriptionOptions are the options of Topic.Subscribe. Wait bounds one fetch of messages. Each
// shard is compared with the journal once in CheckEvery.
type SubscriptionOptions struct {
	consumer.Options
	Wait       time.Duration
	CheckEvery time.Duration
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *SubscriptionOptions) EnsureDefaults() {
	o.Options.EnsureDefaults()
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = DefaultCheckEvery
	}
}

// Validate returns the first fault of the options. EnsureDefaults must have run before. It refuses
// a Wait below a millisecond and a negative CheckEvery.
func (o *SubscriptionOptions) Validate() error {
	if o.Wait < time.Millisecond || o.CheckEvery < 0 {
		return fmt.Errorf("kafka subscription: wait %v, check every %v", o.Wait, o.CheckEvery)
	}
	return o.Options.Validate()
}

type subscription struct {
	o        SubscriptionOptions
	topic    *Topic
	listener TopicListener
}

// Subscribe returns the subscription that reads the topic. Events that the topic lacks are read
// from the journal. Each Run reads all partitions. It fails only for invalid options or an invalid
// Proof.
func (t *Topic) Subscribe(o SubscriptionOptions) (consumer.Subscription, error) {
	o.EnsureDefaults()
	if err := errors.Join(o.Validate(), t.o.Proof.Validate()); err != nil {
		return nil, err
	}
	listener, ok := o.Listener.(TopicListener)
	if !ok {
		listener = silentTopic{}
	}
	return &subscription{o: o, topic: t, listener: listener}, nil
}

// Run implements consumer.Subscription: it delivers the events of all shards until the context
// ends, whose error it returns. It also ends with ErrAhead or ErrTopic. Other errors are reported
// to the listener and retried.
func (s *subscription) Run(ctx context.Context, h consumer.Handler) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var readers sync.WaitGroup
	for partition := range Partitions {
		readers.Go(func() {
			if err := newReader(s, partition, h).run(ctx); err != nil {
				stop(err)
			}
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

// reader delivers the shards of one partition.
type reader struct {
	s         *subscription
	codec     *codec
	partition int
	feeds     [shardsOf]feed
	offset    int64  // the offset of the next message; 0 before the first start
	unread    []byte // batches that Kafka gave and that are not decoded
	end       int64  // of the partition, when Kafka gave them
	tailing   bool   // the offset is known, and all that was in the journal before it was delivered or is due for a retry
	drained   bool   // the last page reached the end of the partition or had skipped messages, or the read failed
	headers   [maxHeaders]kafkago.Header
}

// feed is one shard of a reader.
type feed struct {
	*consumer.Feed
	pauses retry.Backoff
	again  <-chan time.Time // when a feed that failed is tried again; nil while it is in order
	seen   uint64           // the journal's head at the last check
}

// newReader returns the reader of a partition, which passes the events of its shards to h.
// subscription.Run calls it for each partition.
func newReader(s *subscription, partition int, h consumer.Handler) *reader {
	r := &reader{s: s, partition: partition, codec: newCodec(s.o.Journal.Identity(), s.topic.o.Proof)}
	for i := range r.feeds {
		shard := ident.Shard(partition + i*Partitions)
		r.feeds[i].Feed = consumer.NewFeed(s.o.Options, shard, h)
		r.feeds[i].pauses = retry.Backoff{Min: s.o.RetryMin, Max: s.o.RetryMax}
	}
	return r
}

// run delivers until the context ends, or returns ErrAhead or ErrTopic.
func (r *reader) run(ctx context.Context) error {
	check := time.NewTicker(r.s.o.CheckEvery)
	defer check.Stop()
	pauses := retry.Backoff{Min: r.s.o.RetryMin, Max: r.s.o.RetryMax}
	for ctx.Err() == nil {
		err := r.readOnce(ctx)
		if err == nil {
			pauses.Reset()
		} else if isFinal(err) {
			return err
		} else if ctx.Err() == nil {
			r.drained = true
			pause := pauses.Next()
			for i := range r.feeds {
				r.s.o.Listener.Failed(r.feeds[i].Shard(), err, pause)
			}
			retry.Pause(ctx, pause)
		}
		if err := r.mendFeeds(ctx, check.C); err != nil {
			return err
		}
	}
	return nil
}

func isFinal(err error) bool { return errors.Is(err, consumer.ErrAhead) || errors.Is(err, ErrTopic) }

// readOnce goes to the end of the partition the first time, and then reads a page and delivers its
// events. It fails with ErrAhead or ErrTopic, which are final, and with Kafka's error, after which
// run tries again.
func (r *reader) readOnce(ctx context.Context) error {
	if !r.tailing {
		return r.startAtEnd(ctx)
	}
	p, err := r.readPage(ctx)
	if err != nil {
		if errors.Is(err, kafkago.OffsetOutOfRange) || // the topic was cut or made anew
			errors.Is(err, errBroker) { // a second reading would find the same
			r.tailing = false
		}
		return err
	}
	r.offset, r.drained = p.next, p.next >= r.end || p.skipped
	return r.deliverPage(ctx, p)
}

// readPage decodes a page of the batches that Kafka gave, or asks Kafka for batches when none are
// left. It fails with Kafka's error and with errBroker.
func (r *reader) readPage(ctx context.Context) (*page, error) {
	if len(r.unread) > 0 {
		return r.decodePage()
	}
	topic := r.s.topic
	answer, err := topic.fetchBatches(ctx, r.partition, r.offset, r.s.o.Wait, fetchBytes)
	if err != nil {
		return nil, err
	}
	if answer.size <= fetchBytes {
		return r.decodeAnswer(answer)
	}
	select { // the first batch has more bytes
	case topic.large <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { r.unread = nil; <-topic.large }()
	if answer, err = topic.fetchBatches(ctx, r.partition, r.offset, r.s.o.Wait, MaxMessageBytes); err != nil {
		return nil, err
	}
	return r.decodeAnswer(answer)
}

// decodeAnswer decodes the first page of an answer. It fails with errBroker.
func (r *reader) decodeAnswer(answer *fetchAnswer) (*page, error) {
	r.unread, r.end = answer.batches, answer.highWatermark
	p, err := r.decodePage()
	if err == nil && p.next == r.offset && answer.size > 0 {
		err = fmt.Errorf("reading partition %d at %d: %w: no batch has this offset", r.partition, r.offset, errBroker)
	}
	return p, err
}

// startAtEnd takes the partition's end, and only then the journal's head: an event that is in
// neither is published after that end. It fails with ErrAhead or ErrTopic, and when Kafka does not
// answer.
func (r *reader) startAtEnd(ctx context.Context) error {
	if err := r.s.topic.Prepare(ctx); err != nil {
		return err
	}
	end, err := r.s.topic.endOffset(ctx, r.partition)
	if err != nil {
		return err
	}
	for i := range r.feeds {
		if err := r.deliverAndNote(ctx, &r.feeds[i], r.feeds[i].CatchUp); err != nil {
			return err
		}
	}
	if end < r.offset {
		r.s.listener.TopicReplaced(r.partition, r.offset, end)
	}
	r.offset, r.tailing, r.unread = end, true, nil
	return nil
}

// page is what some batches of a partition gave, by shard / Partitions. It is full with fullBytes
// or fullEvents and takes no more batches then. So a page has less than fullBytes + 2 *
// MaxMessageBytes, as sent and as inflated, and less than 2 * fullEvents records.
type page struct {
	next     int64
	events   [shardsOf][]persistence.Event
	unproven [shardsOf]bool // a message said that the shard has an event, without a proof of this run
	skipped  bool           // a message or a batch has no effect
	bytes    int            // of its batches, as sent and as inflated
	records  int
}

func (p *page) isFull() bool { return p.bytes >= fullBytes || p.records >= fullEvents }

// decodePage decodes unread batches until the page is full. A batch that is refused is reported to
// the listener and stepped over. It fails with errBroker.
func (r *reader) decodePage() (*page, error) {
	p := &page{next: r.offset}
	defer clear(r.headers[:])
	for len(r.unread) > 0 && !p.isFull() {
		b, rest, ok, err := splitBatch(r.unread)
		if err != nil {
			return nil, fmt.Errorf("reading partition %d at %d: %w", r.partition, p.next, err)
		}
		if r.unread = rest; !ok {
			break
		}
		if b.last < r.offset {
			continue
		}
		if err := r.decodeBatch(p, &b); err != nil {
			return nil, fmt.Errorf("reading partition %d at %d: %w", r.partition, p.next, err)
		}
		p.next = b.last + 1
	}
	return p, nil
}

// decodeBatch adds the messages of a batch to the page. Messages of others, or without a valid
// proof, are reported to the listener and skipped, and so is a batch that no publisher sends. It
// fails with errBroker.
func (r *reader) decodeBatch(p *page, b *recordBatch) error {
	if b.isControl() {
		return nil
	}
	p.bytes += len(b.raw)
	var all records
	err := b.checkHeader()
	if err == nil {
		var in *inflater
		if b.compression() != 0 {
			in = <-r.s.topic.inflaters
			defer func() { r.s.topic.inflaters <- in }()
		}
		var inflated int
		all, inflated, err = b.records(in, &r.headers)
		p.bytes += inflated
	}
	if errors.Is(err, errRefused) {
		p.skipped = true
		r.s.listener.Skipped(r.partition, b.first, fmt.Errorf("%w: %w", ErrForged, err))
		return nil
	}
	if err != nil {
		return err
	}
	p.records += all.left
	for all.left > 0 {
		one, err := all.next()
		if err != nil {
			return fmt.Errorf("%w: %w", errBroker, err)
		}
		if one.offset >= r.offset { // a request of the publisher is given whole, from its first message
			r.addRecord(p, &one)
		}
	}
	return nil
}

// addRecord adds the event of a message to the page, or reports to the listener why it has none.
func (r *reader) addRecord(p *page, m *record) {
	shard, event, err := r.codec.decodeRecord(r.partition, m)
	i := int(shard) / Partitions
	if err == nil {
		p.events[i] = append(p.events[i], event)
		return
	}
	p.skipped = true
	if errors.Is(err, ErrUnproven) {
		p.unproven[i] = true
	}
	r.s.listener.Skipped(r.partition, m.offset, err)
}

// deliverPage offers a page to the feeds that are in order; the others will read the journal. A
// feed with a message without a proof reads the journal too, once a page. Its only errors are
// final: ErrAhead and ErrTopic.
func (r *reader) deliverPage(ctx context.Context, p *page) error {
	for i := range r.feeds {
		f := &r.feeds[i]
		if len(p.events[i]) > 0 && f.again == nil {
			err := r.deliverAndNote(ctx, f, func(ctx context.Context) error { return f.Offer(ctx, p.events[i]) })
			if err != nil {
				return err
			}
		}
		if p.unproven[i] && f.again == nil {
			if err := r.deliverAndNote(ctx, f, f.CatchUp); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliverAndNote delivers to a feed and notes the time of a retry. It returns final errors only.
func (r *reader) deliverAndNote(ctx context.Context, f *feed, deliver func(context.Context) error) error {
	err := deliver(ctx)
	switch {
	case err == nil:
		f.again = nil
		f.pauses.Reset()
	case isFinal(err):
		return err
	case ctx.Err() == nil:
		pause := f.pauses.Next()
		f.again = time.After(pause)
		r.s.o.Listener.Failed(f.Shard(), err, pause)
	}
	return nil
}

// mendFeeds reads from the journal what a feed lacks: one that failed, after its pause, and at a
// check one whose events are late.
func (r *reader) mendFeeds(ctx context.Context, check <-chan time.Time) error {
	checking := false
	select {
	case <-check:
		checking = true
	default:
	}
	for i := range r.feeds {
		f := &r.feeds[i]
		select {
		case <-f.again:
			if err := r.deliverAndNote(ctx, f, f.CatchUp); err != nil {
				return err
			}
		default:
		}
		if checking {
			if err := r.checkFeed(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFeed reads from the journal when the feed has not reached the head that the previous check
// saw. It reports the missing events to the listener as a gap.
func (r *reader) checkFeed(ctx context.Context, f *feed) error {
	late := r.drained && f.again == nil && f.At() < f.seen
	f.seen = r.s.o.Journal.Head(f.Shard()).Position
	if !late {
		return nil
	}
	r.s.o.Listener.Gap(f.Shard(), f.At(), f.seen)
	return r.deliverAndNote(ctx, f, f.CatchUp)
}
