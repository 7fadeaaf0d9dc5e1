// Package consumer delivers the events of a journal to consumers, each event at least once.
package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of a subscription.
const (
	MaxHandle       = persistence.MaxPage    // events in one Handle
	MaxHandlers     = 32                     // calls of one Handler at a time, over all shards
	DefaultRetryMin = 100 * time.Millisecond // the pause after the first failure; it doubles
	DefaultRetryMax = 10 * time.Second       // the longest pause; there is no last try
	maxMoved        = 8                      // consecutive ErrMoved of Handle before a pause
)

var (
	// ErrMoved is the error of a Handle whose stored position does not precede the first event,
	// because another process has handled events. The subscription continues from Position.
	// ErrMoved is not a failure.
	ErrMoved = errors.New("consumer position moved")
	// ErrAhead ends a subscription: the consumer's position is past the journal's head. The journal
	// is another or an older one, and its next events would be dropped as repeats. The consumer has
	// to start again from 0.
	ErrAhead = errors.New("consumer is ahead of the journal")
)

// Handler is a consumer. It applies the effects of events and stores, per shard, the position of
// the last event that it has applied.
type Handler interface {
	// Position returns that position, 0 when there is none.
	Position(ctx context.Context, shard ident.Shard) (uint64, error)

	// Handle applies the events and stores the position of the last, in one transaction. The events
	// follow the stored position without a gap, at least 1 and at most MaxHandle. They belong to
	// the handler.
	//
	// The transaction must check that the stored position precedes the first event. Otherwise it
	// changes nothing and returns ErrMoved. This check turns at-least-once delivery into
	// exactly-once effects, when two processes run one consumer or the outcome of a commit is
	// unknown. After any error the subscription reads Position and calls Handle from there, with
	// other batch boundaries.
	Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error
}

// Subscription delivers the events of all shards to a consumer, each at least once. Events of a
// shard arrive in the order of their positions, without a gap. Shards are not ordered.
//
// Subscribe reads the journal; package kafka reads the topic and the journal. Neither stores a
// position: Handler.Position is the only one.
type Subscription interface {
	// Run delivers events to the handler until the context ends, and then returns the context's
	// error. A permanent error, such as ErrAhead, ends it too. Calls for one shard never overlap,
	// and at most MaxHandlers calls run concurrently. After an error of the handler or the journal,
	// Run reports it to the listener and retries without end; other shards continue. Run returns
	// after the last call has returned.
	Run(ctx context.Context, h Handler) error
}

// Listener observes a subscription. The subscription's goroutines call it, so it must
// be quick and safe for concurrent use.
type Listener interface {
	// Handled: the handler has applied this number of events, the last at position through.
	Handled(shard ident.Shard, through uint64, events int)
	// Repeated: this number of events was dropped, because the handler had applied them before.
	Repeated(shard ident.Shard, events int)
	// Gap: the source lacks the events from after+1 to through; the journal supplies them.
	Gap(shard ident.Shard, after, through uint64)
	// Failed: delivery in the shard failed; the subscription retries after the pause.
	Failed(shard ident.Shard, err error, pause time.Duration)
}

// Options configure every kind of subscription.
type Options struct {
	Journal            persistence.Journal
	RetryMin, RetryMax time.Duration
	Listener           Listener
}

// EnsureDefaults sets the default of each zero field, except Journal.
func (o *Options) EnsureDefaults() {
	if o.RetryMin == 0 {
		o.RetryMin = DefaultRetryMin
	}
	if o.RetryMax == 0 {
		o.RetryMax = max(DefaultRetryMax, o.RetryMin)
	}
	if o.Listener == nil {
		o.Listener = noopListener{}
	}
}

// Validate returns an error that names the first invalid option. Call EnsureDefaults first.
func (o *Options) Validate() error {
	switch {
	case o.Journal == nil:
		return errors.New("subscription: no journal")
	case o.RetryMin < 0 || o.RetryMax < o.RetryMin:
		return fmt.Errorf("subscription: pauses from %v to %v", o.RetryMin, o.RetryMax)
	}
	return nil
}

type noopListener struct{}

func (noopListener) Handled(ident.Shard, uint64, int)                   {}
func (noopListener) Repeated(ident.Shard, int)                          {}
func (noopListener) Gap(ident.Shard, uint64, uint64)                    {}
func (noopListener) Failed(shard ident.Shard, _ error, _ time.Duration) {}

// Subscribe returns a subscription that reads the journal. A shard has a goroutine only while its
// events are delivered. It fails only for invalid options.
func Subscribe(o Options) (Subscription, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &journalSubscription{o}, nil
}

type journalSubscription struct{ o Options }

// Run implements Subscription: it delivers the events of all shards to h until the context ends,
// and then returns the context's error. It fails with ErrAhead when the handler's position is past
// the journal's head. All other errors are reported to the listener and retried.
func (d *journalSubscription) Run(ctx context.Context, h Handler) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limited := limitedHandler{h, make(chan struct{}, MaxHandlers)}
	var shards [ident.Shards]shardDelivery
	var running sync.WaitGroup
	for i := range shards {
		shards[i].feed = NewFeed(d.o, ident.Shard(i), limited)
		shards[i].delivering.Store(true) // the first delivery also compares the handler's position
		running.Go(func() { d.deliverShard(ctx, &shards[i], stop) })
	}
	WatchHeads(ctx, d.o.Journal, retry.Backoff{Min: d.o.RetryMin, Max: d.o.RetryMax}, func() {
		for i := range shards {
			if sh := &shards[i]; d.isBehind(sh) && sh.delivering.CompareAndSwap(false, true) {
				running.Go(func() { d.deliverShard(ctx, sh, stop) })
			}
		}
	})
	running.Wait()
	return context.Cause(ctx)
}

// shardDelivery is the delivery of a shard. The feed belongs to the goroutine that set delivering.
type shardDelivery struct {
	feed       *Feed
	delivering atomic.Bool   // deliverShard runs
	delivered  atomic.Uint64 // the handler's position when deliverShard last reached the head
}

func (d *journalSubscription) isBehind(sh *shardDelivery) bool {
	return d.o.Journal.Head(sh.feed.shard).Position > sh.delivered.Load()
}

// deliverShard delivers a shard's events until the handler is at the head or the context ends. The
// caller has set delivering. A permanent error goes to stop.
func (d *journalSubscription) deliverShard(ctx context.Context, sh *shardDelivery, stop func(error)) {
	for {
		if err := d.deliverNew(ctx, sh.feed); err != nil {
			stop(err)
		}
		if ctx.Err() != nil {
			return
		}
		sh.delivered.Store(sh.feed.at)
		sh.delivering.Store(false)
		// A scan that saw delivering before the store started nothing; its event is visible now.
		if !d.isBehind(sh) || !sh.delivering.CompareAndSwap(false, true) {
			return
		}
	}
}

// deliverNew delivers a shard's events through its head, or until the context ends, and then
// returns nil. Its only error is ErrAhead; after any other it pauses and tries again.
func (d *journalSubscription) deliverNew(ctx context.Context, f *Feed) error {
	pauses := retry.Backoff{Min: d.o.RetryMin, Max: d.o.RetryMax}
	for {
		err := f.CatchUp(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrAhead):
			return err
		}
		pause := pauses.Next()
		d.o.Listener.Failed(f.shard, err, pause)
		if !retry.Pause(ctx, pause) {
			return nil
		}
	}
}

// limitedHandler bounds the concurrent calls of a handler to the capacity of slots.
type limitedHandler struct {
	Handler
	slots chan struct{}
}

func (l limitedHandler) acquireSlot(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Position implements Handler, once one of the slots is free. It fails with the handler's error, or
// the context's when that ends first.
func (l limitedHandler) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	if err := l.acquireSlot(ctx); err != nil {
		return 0, err
	}
	defer func() { <-l.slots }()
	return l.Handler.Position(ctx, shard)
}

// Handle implements Handler, once one of the slots is free. It fails with the handler's error, or
// the context's when that ends first.
func (l limitedHandler) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	if err := l.acquireSlot(ctx); err != nil {
		return err
	}
	defer func() { <-l.slots }()
	return l.Handler.Handle(ctx, shard, events)
}

// Feed delivers one shard to a handler; all subscriptions share it. It drops repeats, fills gaps
// from the journal, and reads the handler's position before the first delivery and after every
// error. It is not safe for concurrent use.
type Feed struct {
	o       Options
	shard   ident.Shard
	handler Handler
	at      uint64 // position of the last event that the handler applied
	located bool   // at is the handler's position
}

// NewFeed returns the feed of a shard. The options must have their defaults and be valid.
func NewFeed(o Options, shard ident.Shard, h Handler) *Feed {
	return &Feed{o: o, shard: shard, handler: h}
}

// Shard returns the shard of the feed.
func (f *Feed) Shard() ident.Shard { return f.shard }

// At returns the handler's position as the feed last saw it, 0 before the feed has read it.
func (f *Feed) At() uint64 { return f.at }

// CatchUp delivers events from the journal through its head at the time of the call. It fails with
// ErrAhead, which is permanent, and with the errors of the journal and the handler; the next call
// begins at the handler's position again.
func (f *Feed) CatchUp(ctx context.Context) error {
	head := f.o.Journal.Head(f.shard).Position
	return f.deliverFromPosition(ctx, func() error { return f.deliverFromJournal(ctx, head) })
}

// Offer delivers events of another source, in any order and number. It drops applied events and
// reads events that are missing before an offered event from the journal. It fails as CatchUp does.
func (f *Feed) Offer(ctx context.Context, events []persistence.Event) error {
	return f.deliverFromPosition(ctx, func() error { return f.deliverOffered(ctx, events) })
}

// deliverFromPosition calls deliver at the handler's position, and again after ErrMoved, at most
// maxMoved times in all. It fails with the error of Position, of deliver, or ErrMoved after the
// last time.
func (f *Feed) deliverFromPosition(ctx context.Context, deliver func() error) error {
	for range maxMoved {
		if err := f.loadPosition(ctx); err != nil {
			return err
		}
		err := deliver()
		if err == nil {
			return nil
		}
		f.located = false
		if !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("%w %d times in a row", ErrMoved, maxMoved)
}

// loadPosition reads the handler's position unless the feed knows it. It fails with ErrAhead when
// the position is past the journal's head, and with the handler's error.
func (f *Feed) loadPosition(ctx context.Context) error {
	if f.located {
		return nil
	}
	at, err := f.handler.Position(ctx, f.shard)
	if err != nil {
		return fmt.Errorf("position of shard %d: %w", f.shard, err)
	}
	// the head is read after the position: a head read earlier could be behind it
	if head := f.o.Journal.Head(f.shard).Position; at > head {
		return fmt.Errorf("%w: shard %d is at %d there, at %d here", ErrAhead, f.shard, head, at)
	}
	f.at, f.located = at, true
	return nil
}

// deliverOffered delivers the events of an Offer in order, after the journal's for each gap. It
// reports repeats and gaps to the listener. It fails with the errors of the journal and the
// handler.
func (f *Feed) deliverOffered(ctx context.Context, events []persistence.Event) error {
	repeats := 0
	defer func() {
		if repeats > 0 {
			f.o.Listener.Repeated(f.shard, repeats)
		}
	}()
	for len(events) > 0 {
		var err error
		switch first := events[0].Position; {
		case first <= f.at:
			events, repeats = events[1:], repeats+1
		case first > f.at+1:
			f.o.Listener.Gap(f.shard, f.at, first-1)
			err = f.deliverFromJournal(ctx, first-1)
		default:
			n := gaplessPrefix(events)
			err, events = f.handleGapless(ctx, events[:n:n]), events[n:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gaplessPrefix returns the number of leading events with consecutive positions, at most MaxHandle.
func gaplessPrefix(events []persistence.Event) int {
	n := 1
	for n < min(len(events), MaxHandle) && events[n].Position == events[n-1].Position+1 {
		n++
	}
	return n
}

// deliverFromJournal delivers events from the journal through a position, and the rest of the last
// page that it reads. It fails with the errors of the journal and the handler, and when the journal
// lacks an event below its head.
func (f *Feed) deliverFromJournal(ctx context.Context, through uint64) error {
	for f.at < through {
		events, err := f.o.Journal.Events(ctx, f.shard, f.at, MaxHandle)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("shard %d: the journal has no event after %d, %d is expected", f.shard, f.at, through)
		}
		if err := f.handleGapless(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// handleGapless gives the handler events that follow the feed's position without a gap; others
// panic. It fails with the handler's error, and the position then stays.
func (f *Feed) handleGapless(ctx context.Context, events []persistence.Event) error {
	first, last, n := events[0].Position, events[len(events)-1].Position, len(events)
	if first != f.at+1 || last != f.at+uint64(n) {
		panic(fmt.Sprintf("BUG: %d events from %d to %d of shard %d delivered after %d", n, first, last, f.shard, f.at))
	}
	if err := f.handler.Handle(ctx, f.shard, events); err != nil {
		return fmt.Errorf("handling %d to %d of shard %d: %w", first, last, f.shard, err)
	}
	f.at = last
	f.o.Listener.Handled(f.shard, last, n)
	return nil
}
