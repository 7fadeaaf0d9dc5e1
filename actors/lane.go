package actors

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"purser/persistence"
)

// Limits of a lane.
const (
	laneQueue      = 4096            // ops waiting for the next commit of a shard
	laneShare      = laneQueue / 2   // of them, those of one workspace: the others of its shard find room
	fenceTimeout   = 5 * time.Second // an ambiguous commit that is not resolved by then answers outcome_unknown
	fenceRetry     = 50 * time.Millisecond
	fenceAgain     = 2 * time.Second // one later try to raise the epoch; what waits for it is told meanwhile
	appendTimeout  = 10 * time.Second
	loadTimeout    = 5 * time.Second
	resolveTimeout = 2 * time.Second
)

// lane is the one writer of a shard. It takes all that waits as one group: under load a commit carries hundreds of commands.
type lane struct {
	sys   *System
	shard *shard
	queue chan *op
	// chores are done between two commits. See System.onLane.
	chores chan chore
	epoch  uint64
	// held is an op out of the queue that could not join the last group; it begins the next.
	held    *op
	tallies tallies

	mu     sync.Mutex
	queued map[string]int // ops in the queue, by workspace
}

func newLane(sys *System, s *shard, epoch uint64) *lane {
	return &lane{sys: sys, shard: s, queue: make(chan *op, laneQueue), chores: make(chan chore), epoch: epoch,
		tallies: newTallies(), queued: make(map[string]int)}
}

// submit queues an op. It is false when the lane is full, or the op's workspace has its share of
// it.
func (l *lane) submit(o *op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	workspace := o.req.env.Workspace
	if l.queued[workspace] >= laneShare {
		return false
	}
	select {
	case l.queue <- o:
		l.queued[workspace]++
		return true
	default:
		return false
	}
}

// dequeued notes that an op has left the queue.
func (l *lane) dequeued(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	workspace := o.req.env.Workspace
	if l.queued[workspace]--; l.queued[workspace] == 0 {
		delete(l.queued, workspace)
	}
}

func (l *lane) run(ctx context.Context) {
	group := make([]*op, 0, persistence.MaxGroup)
	for ctx.Err() == nil {
		if l.held == nil && !l.next(ctx) {
			continue
		}
		group = l.gather(ctx, group[:0])
		l.commit(ctx, group)
		l.deliver(group)
		clear(group)
	}
}

// next waits for the op that begins a group; false when something else came first.
func (l *lane) next(ctx context.Context) bool {
	var again <-chan time.Time
	if l.shard.lost.Load() {
		again = time.After(fenceRetry) // nothing can be loaded before the fence, so nobody would ask for it
	}
	select {
	case l.held = <-l.queue:
		l.dequeued(l.held)
		return true
	case c := <-l.chores:
		c.done <- c.do(ctx)
	case <-again:
		l.fence(ctx, min(fenceAgain, l.sys.config.FenceWithin))
	case <-ctx.Done():
	}
	return false
}

// gather takes the op that is held and all that waits, up to one that must not join: that one is held for the next group, and
// so is everything behind it, for the order stays.
func (l *lane) gather(ctx context.Context, group []*op) []*op {
	clear(l.tallies.moved)
	for len(group) < persistence.MaxGroup {
		if l.held == nil {
			select {
			case l.held = <-l.queue:
				l.dequeued(l.held)
			default:
				return group
			}
		}
		if !l.admit(ctx, group, l.held) {
			return group
		}
		group, l.held = append(group, l.held), nil
	}
	return group
}

func (l *lane) commit(ctx context.Context, group []*op) {
	if l.shard.lost.Load() && !l.fence(ctx, min(fenceAgain, l.sys.config.FenceWithin)) {
		l.failAll(group, persistence.ErrUnavailable)
		return
	}
	if group = l.count(ctx, group); len(group) == 0 {
		return
	}
	defer l.counted(group)
	batches := make([]*persistence.Batch, len(group))
	for i, o := range group {
		batches[i] = o.batch
	}
	within, cancel := context.WithTimeout(ctx, appendTimeout)
	began, before := l.sys.clock(), l.sys.journal.Head(l.shard.id).Position
	outcomes, err := l.sys.journal.Append(within, l.shard.id, l.epoch, began, batches)
	cancel()
	l.sys.listener.Committed(len(group), l.sys.clock().Sub(began), err)
	switch {
	case err == nil:
		for i, o := range group {
			o.outcome = outcomes[i]
		}
	case errors.Is(err, persistence.ErrAmbiguous):
		l.resolve(ctx, group, before)
	case errors.Is(err, persistence.ErrFenced):
		l.shard.lost.Store(true)
		l.failAll(group, persistence.ErrFenced)
	default:
		l.failAll(group, persistence.ErrUnavailable)
	}
}

func (l *lane) failAll(group []*op, err error) {
	for _, o := range group {
		o.outcome = persistence.Outcome{Err: err}
	}
}

// fence raises the shard's epoch: when it returns true no earlier transaction can still commit, and what is read is true.
func (l *lane) fence(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		heads, err := l.sys.journal.Raise(ctx, l.shard.id)
		if err == nil {
			l.epoch = heads[0].Epoch
			l.shard.lost.Store(false)
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(fenceRetry):
		}
	}
}

// resolve finds out what became of a group whose commit was interrupted: first the fence, only then the truth. The shard stood at
// before, or behind it, when the group was appended.
func (l *lane) resolve(ctx context.Context, group []*op, before uint64) {
	l.shard.lost.Store(true)
	if !l.fence(ctx, l.sys.config.FenceWithin) {
		l.failAll(group, persistence.ErrAmbiguous)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	landed, err := l.landed(ctx, group, before)
	if err != nil {
		l.failAll(group, persistence.ErrAmbiguous)
		return
	}
	for _, o := range group {
		if n := len(o.batch.Events); n == 0 {
			o.outcome = l.truth(ctx, o.batch)
		} else if last, ok := landed[o.batch.Events[n-1].ID]; ok {
			o.outcome = persistence.Outcome{First: last - uint64(n-1), Last: last}
		} else {
			o.outcome = persistence.Outcome{Err: persistence.ErrVersion}
		}
	}
}

// landed finds the positions of a group's events in the journal by their ids. The version of a stream would not tell: another
// incarnation may have taken the shard in between and written an event of the same version.
func (l *lane) landed(ctx context.Context, group []*op, after uint64) (map[string]uint64, error) {
	landed := make(map[string]uint64)
	for _, o := range group {
		for _, e := range o.batch.Events {
			landed[e.ID] = 0
		}
	}
	for len(landed) > 0 {
		events, err := l.sys.journal.Events(ctx, l.shard.id, after, followBatch)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			if _, ours := landed[events[i].ID]; ours {
				landed[events[i].ID] = events[i].Position
			}
		}
		after = events[len(events)-1].Position
	}
	maps.DeleteFunc(landed, func(_ string, position uint64) bool { return position == 0 })
	return landed, nil
}

// truth reads whether a batch without events is in the journal: its own once-key tells, and without one nothing does.
func (l *lane) truth(ctx context.Context, b *persistence.Batch) persistence.Outcome {
	if len(b.Onces) == 0 {
		return persistence.Outcome{Err: persistence.ErrAmbiguous}
	}
	want := b.Onces[0]
	got, ok, err := l.sys.journal.Once(ctx, l.shard.id, want.Scope, want.Hash, l.sys.clock())
	switch {
	case err != nil:
		return persistence.Outcome{Err: persistence.ErrAmbiguous}
	case ok && got.Fingerprint == want.Fingerprint:
		return persistence.Outcome{Last: l.sys.journal.Head(l.shard.id).Position}
	}
	return persistence.Outcome{Err: persistence.ErrVersion}
}

// deliver tells each actor of the group, once, that its ops are settled.
func (l *lane) deliver(group []*op) {
	byActor := make(map[*actor.PID][]*op, len(group))
	order := make([]*actor.PID, 0, len(group))
	for _, o := range group {
		if byActor[o.pid] == nil {
			order = append(order, o.pid)
		}
		byActor[o.pid] = append(byActor[o.pid], o)
	}
	for _, pid := range order {
		l.sys.root.Send(pid, &committed{ops: byActor[pid]})
	}
}
