package actors

import (
	"context"
	"fmt"
	"sync"
	"time"

	"purser/actors/balance"
	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of the follower.
const (
	followBatch = 512  // events read at a time
	followLag   = 4096 // positions without a rule or a credit after which the cursor is written
	// followBytes is the payload of such events after which the cursor is written. A start reads
	// the events after the cursor again, for all shards, before it serves: without the bound this
	// would be a whole day of relayed swipes.
	followBytes = 256 << 10
	// requireEvery is how often the authorizer notes the positions that the journal must reach. A
	// start notices the loss of older events only.
	requireEvery = 200 * time.Millisecond
)

// follower applies the journal's rules and credits to the authorizer.
type follower struct {
	*loops
	journal    persistence.Journal
	authorizer Authorizer
	kinds      map[string]*Kind
	fatal      func(error)
	lanes      *sync.WaitGroup
	laneCtx    context.Context // ends the followers

	requiring sync.Mutex
	required  [ident.Shards]uint64 // as the authorizer has noted
}

// wakeFollower starts follow for a shard unless it runs.
func (f *follower) wakeFollower(sh *shard) {
	sh.following.Lock()
	defer sh.following.Unlock()
	if !sh.isFollowing {
		sh.isFollowing = true
		f.lanes.Go(func() { f.follow(f.laneCtx, sh) })
	}
}

// mayRest reports that everything is followed. The goroutine then ends until wakeFollower.
func (f *follower) mayRest(sh *shard) bool {
	sh.following.Lock()
	defer sh.following.Unlock()
	sh.isFollowing = f.journal.Head(sh.id).Position > sh.followed.load()
	return !sh.isFollowing
}

// follow applies the journal to the authorizer: rules and credits, in position order, durable
// before the answers that wait for them, until the context ends or everything is followed. The lane
// calls wakeFollower after each commit. A failed read, or an event that does not decode, is logged
// and tried again. When the authorizer cannot store a change, Config.Fatal ends the process,
// because the authorizer would decide by old rules.
func (f *follower) follow(ctx context.Context, sh *shard) {
	for ctx.Err() == nil && !f.mayRest(sh) {
		if err := f.followOnce(ctx, sh); err != nil && ctx.Err() == nil {
			f.Complain("follower", err, "shard", sh.id)
			retry.Pause(ctx, retryPause)
		}
	}
}

// followOnce applies the next events of a shard, at most followBatch, to the authorizer. Without a
// rule, credit or settlement among them, the authorizer's stored position may stay behind. It fails
// when events cannot be read or decoded, and, after a call of Config.Fatal, when the authorizer
// cannot store the change.
func (f *follower) followOnce(ctx context.Context, sh *shard) error {
	events, err := f.journal.Events(ctx, sh.id, sh.followed.load(), followBatch)
	if err != nil || len(events) == 0 {
		return err
	}
	through := events[len(events)-1].Position
	changes := authorizer.Follow{Through: through}
	passed, own := sh.passed, sh.own.Load()
	for i := range events {
		passed += len(events[i].Payload)
		if !isRelayed(&events[i]) {
			own = events[i].Position
		}
		if err := f.collectFollow(&changes, &events[i]); err != nil {
			return err
		}
	}
	idle := len(changes.Rules)+len(changes.Credits)+len(changes.Settles) == 0
	if !idle || passed >= followBytes || through-f.authorizer.Followed(sh.id) >= followLag {
		if err := f.authorizer.Follow(sh.id, changes); err != nil {
			f.fatal(fmt.Errorf("authorizer can not follow shard %d: %w", sh.id, err))
			return err
		}
		passed = 0
	}
	sh.passed = passed
	sh.own.Store(max(own, sh.own.Load()))
	sh.followed.advance(through)
	return nil
}

// collectFollow adds the rules and credits of one event to changes. An event of a kind without
// Follow adds nothing. It fails with the kind's error when the payload does not decode.
func (f *follower) collectFollow(changes *authorizer.Follow, e *persistence.Event) error {
	kind := f.kinds[e.Kind]
	if kind == nil || kind.Follow == nil {
		return nil
	}
	if err := kind.Follow(e, changes); err != nil {
		return fmt.Errorf("event %s at position %d: %w", e.Type, e.Position, err)
	}
	return nil
}

// isRelayed reports whether an event is decisions of the authorizer, which the relay sends again to
// a journal that has lost them.
func isRelayed(e *persistence.Event) bool {
	return e.Kind == KindBalance && e.Type == (balance.Relayed{}).EventType()
}

// requireJournal has the authorizer note the positions of the newest events that its log cannot
// restore, if they have moved. A later start then refuses a journal that has lost such an event,
// such as the revocation of a key. A failure stops the authorizer.
func (f *follower) requireJournal(shards []*shard) {
	f.requiring.Lock()
	defer f.requiring.Unlock()
	required := f.required
	for i, sh := range shards {
		required[i] = max(required[i], sh.own.Load())
	}
	if required == f.required {
		return
	}
	if err := f.authorizer.RequireJournal(&required); err != nil {
		f.Complain("note of the journal's positions", err)
		return
	}
	f.required = required
}
