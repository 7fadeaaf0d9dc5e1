package persistence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/persistence/ident"
)

// Limits of a subscription.
const (
	MaxHandle       = MaxPage                // events in one Handle
	MaxHandlers     = 32                     // calls of one Handler at a time, over all shards
	DefaultRetryMin = 100 * time.Millisecond // the pause after the first failure; it doubles
	DefaultRetryMax = 10 * time.Second       // the longest pause; there is no last try
	maxMoved        = 8                      // times in a row that Handle may answer ErrMoved before a pause
)

var (
	// ErrMoved is the answer of a Handle whose stored position is not the one before the first event: somebody else has
	// handled in between. The subscription asks Position and goes on from there. It is not a failure.
	ErrMoved = errors.New("consumer position moved")
	// ErrAhead ends a subscription: the consumer has handled more than the journal holds, so the journal is another or older
	// one, and its coming events would be taken for repeats. The consumer has to start again from 0.
	ErrAhead = errors.New("consumer is ahead of the journal")
)

// Handler is a consumer: it turns events into effects and keeps, per shard, the position of the last event whose effect stands.
type Handler interface {
	// Position returns that position, 0 when there is none.
	Position(ctx context.Context, shard ident.Shard) (uint64, error)

	// Handle takes the effects of the events and stores the position of the last, in one transaction. The events follow the
	// stored position without a gap, at least 1 and at most MaxHandle; they belong to the handler.
	//
	// The transaction must find the position before the first event in place, and otherwise change nothing and answer ErrMoved:
	// that is what makes at least once into once, when two processes run the same consumer or the outcome of a commit was
	// lost. After any error the position is asked again and Handle is called again from there, with other cuts.
	Handle(ctx context.Context, shard ident.Shard, events []Event) error
}

// Subscription is how a consumer gets the events of all shards: those of a shard in the order of their positions, without a gap,
// each at least once. Between shards there is no order.
//
// Subscribe reads the journal; package kafka reads the topic and the journal. Both keep nothing: a consumer's place is its
// Position.
type Subscription interface {
	// Run hands events to the handler until the context ends, whose error it returns, or until ErrAhead or another reason that no
	// retry mends. Calls for one shard never overlap, at most MaxHandlers run at a time. An error of the handler or of the
	// journal is told to the listener and tried again, for ever, and stops only its shard. Run returns when no call is under way.
	Run(ctx context.Context, h Handler) error
}

// SubscriptionListener is told what a subscription does, on the goroutine that does it: it must be quick and safe for concurrent
// use.
type SubscriptionListener interface {
	// Handled: the effects of so many events, the last at the position, stand.
	Handled(shard ident.Shard, through uint64, events int)
	// Repeated: so many events had been handled before and were dropped.
	Repeated(shard ident.Shard, events int)
	// Gap: the source had lost the events after a position, through another; they are read from the journal.
	Gap(shard ident.Shard, after, through uint64)
	// Failed: the shard is tried again after a pause.
	Failed(shard ident.Shard, err error, pause time.Duration)
}

// SubscriptionOptions are what every subscription needs.
type SubscriptionOptions struct {
	Journal            Journal
	RetryMin, RetryMax time.Duration
	Listener           SubscriptionListener
}

// EnsureDefaults fills in what is left zero.
func (o *SubscriptionOptions) EnsureDefaults() {
	if o.RetryMin == 0 {
		o.RetryMin = DefaultRetryMin
	}
	if o.RetryMax == 0 {
		o.RetryMax = max(DefaultRetryMax, o.RetryMin)
	}
	if o.Listener == nil {
		o.Listener = silent{}
	}
}

// Validate names what is wrong with options that have their defaults.
func (o *SubscriptionOptions) Validate() error {
	switch {
	case o.Journal == nil:
		return errors.New("subscription: no journal")
	case o.RetryMin < 0 || o.RetryMax < o.RetryMin:
		return fmt.Errorf("subscription: pauses from %v to %v", o.RetryMin, o.RetryMax)
	}
	return nil
}

type silent struct{}

func (silent) Handled(ident.Shard, uint64, int)                   {}
func (silent) Repeated(ident.Shard, int)                          {}
func (silent) Gap(ident.Shard, uint64, uint64)                    {}
func (silent) Failed(shard ident.Shard, _ error, _ time.Duration) {}

// Subscribe returns the subscription that reads the journal itself, one goroutine per shard.
func Subscribe(o SubscriptionOptions) (Subscription, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &direct{o}, nil
}

type direct struct{ o SubscriptionOptions }

// Run implements Subscription.
func (d *direct) Run(ctx context.Context, h Handler) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limited := limited{h, make(chan struct{}, MaxHandlers)}
	var shards sync.WaitGroup
	for i := range ident.Shards {
		shards.Go(func() {
			if err := d.follow(ctx, NewFeed(d.o, ident.Shard(i), limited)); err != nil {
				stop(err)
			}
		})
	}
	shards.Wait()
	return context.Cause(ctx)
}

// follow delivers a shard until the context ends, or returns the reason that no retry mends.
func (d *direct) follow(ctx context.Context, f *Feed) error {
	retry := Backoff{Min: d.o.RetryMin, Max: d.o.RetryMax}
	for {
		err := f.CatchUp(ctx)
		if err == nil {
			retry.Reset()
			err = d.o.Journal.Wait(ctx, f.shard, f.at)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrAhead):
			return err
		case err != nil:
			pause := retry.Next()
			d.o.Listener.Failed(f.shard, err, pause)
			if !Pause(ctx, pause) {
				return nil
			}
		}
	}
}

// limited is a handler of which only so many calls run at a time.
type limited struct {
	Handler
	slots chan struct{}
}

func (l limited) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l limited) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	if err := l.enter(ctx); err != nil {
		return 0, err
	}
	defer func() { <-l.slots }()
	return l.Handler.Position(ctx, shard)
}

func (l limited) Handle(ctx context.Context, shard ident.Shard, events []Event) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer func() { <-l.slots }()
	return l.Handler.Handle(ctx, shard, events)
}

// Feed delivers one shard to a handler: it is the part that all subscriptions share. It drops repeats, reads the journal over a
// gap, and asks the handler for its position before the first delivery and after every error. It is for one goroutine.
type Feed struct {
	o       SubscriptionOptions
	shard   ident.Shard
	handler Handler
	at      uint64 // what the handler has handled
	located bool   // at is known
}

// NewFeed makes the feed of a shard. The options have their defaults and are valid.
func NewFeed(o SubscriptionOptions, shard ident.Shard, h Handler) *Feed {
	return &Feed{o: o, shard: shard, handler: h}
}

// Shard returns the shard of the feed.
func (f *Feed) Shard() ident.Shard { return f.shard }

// At returns the position that was handled last, 0 as long as it is not known.
func (f *Feed) At() uint64 { return f.at }

// CatchUp delivers from the journal up to its head at the time of the call.
func (f *Feed) CatchUp(ctx context.Context) error {
	head := f.o.Journal.Head(f.shard).Position
	return f.settle(ctx, func() error { return f.read(ctx, head) })
}

// Offer delivers events that came from elsewhere, in any order and number: what was handled is dropped, what lacks before one of
// them is read from the journal first.
func (f *Feed) Offer(ctx context.Context, events []Event) error {
	return f.settle(ctx, func() error { return f.offer(ctx, events) })
}

// settle delivers from the handler's position, again when that has moved.
func (f *Feed) settle(ctx context.Context, deliver func() error) error {
	for range maxMoved {
		if err := f.locate(ctx); err != nil {
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

func (f *Feed) locate(ctx context.Context) error {
	if f.located {
		return nil
	}
	at, err := f.handler.Position(ctx, f.shard)
	if err != nil {
		return fmt.Errorf("position of shard %d: %w", f.shard, err)
	}
	// the head is read after the position, so that it cannot be the older
	if head := f.o.Journal.Head(f.shard).Position; at > head {
		return fmt.Errorf("%w: shard %d is at %d there, at %d here", ErrAhead, f.shard, head, at)
	}
	f.at, f.located = at, true
	return nil
}

func (f *Feed) offer(ctx context.Context, events []Event) error {
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
			err = f.read(ctx, first-1)
		default:
			n := gapless(events)
			err, events = f.handle(ctx, events[:n:n]), events[n:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gapless returns how many events at the start follow each other, at most MaxHandle.
func gapless(events []Event) int {
	n := 1
	for n < min(len(events), MaxHandle) && events[n].Position == events[n-1].Position+1 {
		n++
	}
	return n
}

// read delivers from the journal through a position, and what came with it.
func (f *Feed) read(ctx context.Context, through uint64) error {
	for f.at < through {
		events, err := f.o.Journal.Events(ctx, f.shard, f.at, MaxHandle)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("shard %d: the journal has no event after %d, %d is expected", f.shard, f.at, through)
		}
		if err := f.handle(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) handle(ctx context.Context, events []Event) error {
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

// Backoff counts the pauses between tries: Min, then twice the one before, at most Max.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next returns the pause before the next try.
func (b *Backoff) Next() time.Duration {
	pause := max(b.next, b.Min)
	b.next = min(2*pause, b.Max)
	return pause
}

// Reset starts again from Min, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits, and tells whether the context has not ended meanwhile.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
