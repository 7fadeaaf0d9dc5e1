package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"purser/persistence"
	"purser/persistence/ident"
)

const (
	DefaultWait       = 500 * time.Millisecond // how long a read of a partition waits for a message
	DefaultCheckEvery = 10 * time.Second       // how late an event may come before it is read from the journal

	fetchBytes = 1 << 20 // bytes asked for at a time; Kafka gives at least one whole request of a publisher
)

// TopicListener may be implemented by a listener of SubscriptionOptions besides.
type TopicListener interface {
	// Skipped: a message has no effect. The error is ErrForeign, ErrForged or ErrUnproven.
	Skipped(partition int, offset int64, err error)
	TopicReplaced
}

type silentTopic struct{}

func (silentTopic) Skipped(int, int64, error)       {}
func (silentTopic) TopicReplaced(int, int64, int64) {}

// SubscriptionOptions are the options of Topic.Subscribe. Wait bounds one fetch of messages. Each
// shard is compared with the journal once in CheckEvery.
type SubscriptionOptions struct {
	persistence.SubscriptionOptions
	Wait       time.Duration
	CheckEvery time.Duration
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *SubscriptionOptions) EnsureDefaults() {
	o.SubscriptionOptions.EnsureDefaults()
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = DefaultCheckEvery
	}
}

// Validate returns the first fault of the options. EnsureDefaults must have run before.
func (o *SubscriptionOptions) Validate() error {
	if o.Wait < time.Millisecond || o.CheckEvery < 0 {
		return fmt.Errorf("kafka subscription: wait %v, check every %v", o.Wait, o.CheckEvery)
	}
	return o.SubscriptionOptions.Validate()
}

type subscription struct {
	o        SubscriptionOptions
	topic    *Topic
	listener TopicListener
}

// Subscribe returns the subscription that reads the topic. Events that the topic lacks are read
// from the journal. Each Run reads all partitions. It fails only for invalid options or an invalid
// Proof. The server uses it for its consumers when Kafka is configured.
func (t *Topic) Subscribe(o SubscriptionOptions) (persistence.Subscription, error) {
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

// Run implements persistence.Subscription: it delivers the events of all shards until the context
// ends, whose error it returns. It also ends with ErrAhead or ErrTopic. Other errors are reported
// to the listener and retried.
func (s *subscription) Run(ctx context.Context, h persistence.Handler) error {
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
	offset    int64 // the offset of the next message; 0 before the first start
	tailing   bool  // the offset is known, and all that was in the journal before it was delivered or is due for a retry
	drained   bool  // the last read reached the end of the partition, or failed
}

// feed is one shard of a reader.
type feed struct {
	*persistence.Feed
	retry persistence.Backoff
	again <-chan time.Time // when a feed that failed is tried again; nil while it is in order
	seen  uint64           // the journal's head at the last check
}

func newReader(s *subscription, partition int, h persistence.Handler) *reader {
	r := &reader{s: s, partition: partition, codec: newCodec(s.o.Journal.Identity(), s.topic.o.Proof)}
	for i := range r.feeds {
		shard := ident.Shard(partition + i*Partitions)
		r.feeds[i].Feed = persistence.NewFeed(s.o.SubscriptionOptions, shard, h)
		r.feeds[i].retry = persistence.Backoff{Min: s.o.RetryMin, Max: s.o.RetryMax}
	}
	return r
}

// run delivers until the context ends, or returns ErrAhead or ErrTopic.
func (r *reader) run(ctx context.Context) error {
	check := time.NewTicker(r.s.o.CheckEvery)
	defer check.Stop()
	retry := persistence.Backoff{Min: r.s.o.RetryMin, Max: r.s.o.RetryMax}
	for ctx.Err() == nil {
		err := r.readOnce(ctx)
		if err == nil {
			retry.Reset()
		} else if isFinal(err) {
			return err
		} else if ctx.Err() == nil {
			r.drained = true
			pause := retry.Next()
			for i := range r.feeds {
				r.s.o.Listener.Failed(r.feeds[i].Shard(), err, pause)
			}
			persistence.Pause(ctx, pause)
		}
		if err := r.mendFeeds(ctx, check.C); err != nil {
			return err
		}
	}
	return nil
}

func isFinal(err error) bool { return errors.Is(err, persistence.ErrAhead) || errors.Is(err, ErrTopic) }

// readOnce goes to the end of the partition the first time, and then reads it once and delivers the
// events. It fails with ErrAhead or ErrTopic, which are final, and with Kafka's error, after which
// run tries again.
func (r *reader) readOnce(ctx context.Context) (err error) {
	if !r.tailing {
		return r.startAtEnd(ctx)
	}
	answer, err := r.s.topic.fetchMessages(ctx, r.partition, r.offset, r.s.o.Wait)
	if err != nil {
		switch {
		case errors.Is(err, kafkago.OffsetOutOfRange): // the topic was cut or made anew
			r.tailing = false
		case errors.Is(err, errInflated):
			r.tailing = false
			r.s.listener.Skipped(r.partition, r.offset, fmt.Errorf("%w: %w", ErrForged, err))
		}
		return err
	}
	p, err := r.decodeAnswer(answer)
	if err != nil { // a second reading would find the same
		r.tailing = false
		return err
	}
	r.offset, r.drained = p.next, p.next >= answer.HighWatermark
	return r.deliverPage(ctx, p)
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
	r.offset, r.tailing = end, true
	return nil
}

// page is what one read of a partition gave, by shard / Partitions.
type page struct {
	next     int64
	events   [shardsOf][]persistence.Event
	unproven [shardsOf]bool // a message said that the shard has an event, without a proof of this run
}

// decodeAnswer decodes all messages of an answer, which is then used up. Messages of others, or
// without a valid proof, are reported to the listener and skipped. It fails when the answer itself
// cannot be read.
func (r *reader) decodeAnswer(answer *kafkago.FetchResponse) (*page, error) {
	p := &page{next: r.offset}
	for {
		m, err := answer.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading partition %d at %d: %w", r.partition, p.next, err)
		}
		if m.Offset < r.offset { // a request of the publisher is given whole, from its first message
			continue
		}
		shard, event, err := r.codec.decodeMessage(r.partition, m)
		i := int(shard) / Partitions
		switch {
		case err == nil:
			p.events[i] = append(p.events[i], event)
		case errors.Is(err, ErrUnproven):
			p.unproven[i] = true
			r.s.listener.Skipped(r.partition, m.Offset, err)
		case errors.Is(err, ErrForeign) || errors.Is(err, ErrForged):
			r.s.listener.Skipped(r.partition, m.Offset, err)
		default:
			return nil, fmt.Errorf("reading partition %d at %d: %w", r.partition, m.Offset, err)
		}
		p.next = m.Offset + 1
	}
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
		f.retry.Reset()
	case isFinal(err):
		return err
	case ctx.Err() == nil:
		pause := f.retry.Next()
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
