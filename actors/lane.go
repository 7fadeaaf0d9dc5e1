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
	laneQueue      = 4096            // ops that wait for the next commit of a shard
	laneShare      = laneQueue / 2   // of these, ops of one workspace, so that other workspaces find room
	fenceTimeout   = 5 * time.Second // bounds the fence of an ambiguous commit; then its callers get outcome_unknown
	fencePause     = 50 * time.Millisecond
	restAfter      = 5 * time.Second // without work the goroutine of a lane ends
	refenceTimeout = 2 * time.Second // bounds a later attempt to raise the epoch; ops that wait are unavailable
	appendTimeout  = 10 * time.Second
	loadTimeout    = 5 * time.Second
	resolveTimeout = 2 * time.Second
)

// lane is the only writer of its shard. It commits all queued ops as one group (group commit):
// under load a group carries hundreds of commands. Only submit is safe for concurrent use.
type lane struct {
	sys   *System
	shard *shard
	queue chan *op
	// tasks run between two commits. See runBetweenCommits.
	tasks chan laneTask
	epoch uint64
	// carry is a dequeued op that could not join the last group. It begins the next one.
	carry   *op
	tallies tallies
	// unresolved are the ops of the last group with an unknown outcome whose debits hold a reservation.
	unresolved []*op

	mu      sync.Mutex
	queued  map[string]int // queued ops, by workspace
	running bool           // run is called
}

func newLane(sys *System, s *shard, epoch uint64) *lane {
	return &lane{sys: sys, shard: s, queue: make(chan *op, laneQueue), tasks: make(chan laneTask, 1), epoch: epoch,
		tallies: newTallies(), queued: make(map[string]int)}
}

// submit queues an op for the next commit of the shard. It returns false when the queue is full, or
// the op's workspace has laneShare ops in it.
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
		l.startLocked()
		return true
	default:
		return false
	}
}

// commitBatch submits a batch that no actor decided, and waits for its outcome. It fails with
// ErrUnavailable when the queue is full, with the context's error, and with the outcome's.
func (l *lane) commitBatch(ctx context.Context, b *persistence.Batch) error {
	o := &op{req: &request{ctx: ctx, env: Envelope{Workspace: b.Workspace}}, batch: b, done: make(chan struct{})}
	if !l.submit(o) {
		return persistence.ErrUnavailable
	}
	select {
	case <-o.done:
		return o.outcome.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteDequeued subtracts an op from its workspace's share of the queue.
func (l *lane) noteDequeued(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	workspace := o.req.env.Workspace
	if l.queued[workspace]--; l.queued[workspace] == 0 {
		delete(l.queued, workspace)
	}
}

// startLocked starts run unless it runs. The caller holds mu and has queued work.
func (l *lane) startLocked() {
	if !l.running {
		l.running = true
		l.sys.lanes.Go(func() { l.run(l.sys.laneCtx) })
	}
}

// mayRest reports that the lane has nothing to do. Its goroutine then ends until the next op.
func (l *lane) mayRest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.queue)+len(l.tasks) > 0 || l.shard.lost.Load()
	return !l.running
}

// run commits queued ops, group after group, and sends each actor the outcomes of its ops, until
// the context ends or there is nothing to do.
func (l *lane) run(ctx context.Context) {
	group := make([]*op, 0, persistence.MaxGroup)
	for ctx.Err() == nil {
		if l.carry == nil && !l.awaitWork(ctx) {
			if l.mayRest() {
				return
			}
			continue
		}
		group = l.gatherGroup(ctx, group[:0])
		l.commitGroup(ctx, group)
		l.sys.follower.wakeFollower(l.shard)
		l.startReactions(group)
		l.notifyActors(group)
		clear(group)
	}
}

// awaitWork waits for the op that begins a group and puts it into carry. It returns false after a
// task, an attempt to raise the epoch, the end of the context, and when nothing came for restAfter.
func (l *lane) awaitWork(ctx context.Context) bool {
	wait := restAfter
	if l.shard.lost.Load() {
		wait = fencePause // no actor loads before the fence, so no op would trigger it
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case l.carry = <-l.queue:
		l.noteDequeued(l.carry)
		return true
	case c := <-l.tasks:
		c.done <- c.do(ctx)
	case <-timer.C:
		if l.shard.lost.Load() {
			l.raiseEpoch(ctx, min(refenceTimeout, l.sys.config.FenceWithin))
			l.sys.follower.wakeFollower(l.shard)
		}
	case <-ctx.Done():
	}
	return false
}

// gatherGroup collects queued ops, from carry on, up to persistence.MaxGroup. It stops at the first
// op that must not join the group, which stays in carry, so that the order of the ops is kept.
func (l *lane) gatherGroup(ctx context.Context, group []*op) []*op {
	clear(l.tallies.lastInGroup)
	for len(group) < persistence.MaxGroup {
		if l.carry == nil {
			select {
			case l.carry = <-l.queue:
				l.noteDequeued(l.carry)
			default:
				return group
			}
		}
		if !l.mayJoin(ctx, group, l.carry) {
			return group
		}
		group, l.carry = append(group, l.carry), nil
	}
	return group
}

// commitGroup appends a group to the journal and sets the outcome of each op. When the last commit
// is unresolved and the epoch cannot be raised, or the journal is unavailable, the outcome is
// ErrUnavailable; when another process has taken the shard, ErrFenced. An unknown outcome is
// resolved first (resolveAmbiguous).
func (l *lane) commitGroup(ctx context.Context, group []*op) {
	if l.shard.lost.Load() && !l.raiseEpoch(ctx, min(refenceTimeout, l.sys.config.FenceWithin)) {
		l.failAll(group, persistence.ErrUnavailable)
		return
	}
	if group = l.addTallies(ctx, group); len(group) == 0 {
		return
	}
	defer l.forgetFailedTallies(group)
	batches := make([]*persistence.Batch, len(group))
	for i, o := range group {
		batches[i] = o.batch
	}
	within, cancel := l.sys.Within(ctx, appendTimeout)
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
		l.resolveAmbiguous(ctx, group, before)
	case errors.Is(err, persistence.ErrFenced):
		l.shard.lost.Store(true)
		l.failAll(group, persistence.ErrFenced)
	default:
		l.failAll(group, persistence.ErrUnavailable)
	}
}

// failUnresolved gives every op of a group ErrAmbiguous, and keeps its debits for
// releaseUnresolved.
func (l *lane) failUnresolved(group []*op) {
	l.failAll(group, persistence.ErrAmbiguous)
	for _, o := range group {
		if o.debit != nil {
			l.unresolved = append(l.unresolved, o)
		}
	}
}

// releaseUnresolved releases the reservations of debits with an unknown outcome, once the authorizer
// has followed the journal to fenced, the head at the raise of the epoch. A debit that was committed
// lies before that head and has settled its reservation then, so its release changes nothing. A
// later request has a reservation of its own. After a stop the next start releases them.
func (l *lane) releaseUnresolved(fenced uint64) {
	unresolved := l.unresolved
	l.unresolved = nil
	if len(unresolved) == 0 {
		return
	}
	l.shard.followed.whenReached(fenced, func() {
		l.sys.lanes.Go(func() { // a lane or its follower, which are among them, calls this
			for _, o := range unresolved {
				l.sys.releaseDebit(o.req.env.Workspace, o.debit)
			}
		})
	})
}

func (l *lane) failAll(group []*op, err error) {
	for _, o := range group {
		o.outcome = persistence.Outcome{Err: err}
	}
}

// raiseEpoch raises the shard's epoch, which fences every earlier transaction. It retries until
// within has passed, and then returns false. After true no earlier transaction can commit, so reads
// show the outcome, and the reservations of unresolved debits are released.
func (l *lane) raiseEpoch(ctx context.Context, within time.Duration) bool {
	ctx, cancel := l.sys.Within(ctx, within)
	defer cancel()
	for {
		heads, err := l.sys.journal.Raise(ctx, l.shard.id)
		if err == nil {
			l.epoch = heads[0].Epoch
			l.shard.lost.Store(false)
			l.releaseUnresolved(heads[0].Position)
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(fencePause):
		}
	}
}

// resolveAmbiguous sets the outcomes of a group whose commit failed with an unknown outcome. It
// first raises the epoch, which fences the transaction, and then reads which events are stored,
// after the position before. An op whose events are not stored gets ErrVersion and is decided
// again. When the journal does not answer in time, every op stays ErrAmbiguous.
func (l *lane) resolveAmbiguous(ctx context.Context, group []*op, before uint64) {
	l.shard.lost.Store(true)
	if !l.raiseEpoch(ctx, l.sys.config.FenceWithin) {
		l.failUnresolved(group)
		return
	}
	ctx, cancel := l.sys.Within(ctx, resolveTimeout)
	defer cancel()
	landed, err := l.findCommitted(ctx, group, before)
	if err != nil {
		l.failUnresolved(group)
		l.releaseUnresolved(l.sys.journal.Head(l.shard.id).Position)
		return
	}
	for _, o := range group {
		if n := len(o.batch.Events); n == 0 {
			o.outcome = l.committedWithoutEvents(ctx, o.batch)
		} else if last, ok := landed[o.batch.Events[n-1].ID]; ok {
			o.outcome = persistence.Outcome{First: last - uint64(n-1), Last: last}
		} else {
			o.outcome = persistence.Outcome{Err: persistence.ErrVersion}
		}
	}
}

// findCommitted returns the positions of a group's stored events, by event id. It fails only when
// the journal cannot be read. The stream version does not identify them: another process may have
// taken the shard in between and have written an event of the same version.
func (l *lane) findCommitted(ctx context.Context, group []*op, after uint64) (map[string]uint64, error) {
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

// committedWithoutEvents returns the outcome of an event-less batch by looking up its first
// idempotency record. Without the record it was not committed (ErrVersion). A batch with neither
// events nor an idempotency record, or a failed read, is ErrAmbiguous.
func (l *lane) committedWithoutEvents(ctx context.Context, b *persistence.Batch) persistence.Outcome {
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

// startReactions starts the reactions to the committed events of a group.
func (l *lane) startReactions(group []*op) {
	for _, o := range group {
		if o.outcome.Err == nil && len(o.batch.Events) > 0 {
			l.sys.reactor.noteCommitted(l.shard, o.batch, o.outcome.First)
		}
	}
}

// notifyActors sends each actor of the group one message with its committed or failed ops, and ends
// the waits in commitBatch.
func (l *lane) notifyActors(group []*op) {
	byActor := make(map[*actor.PID][]*op, len(group))
	order := make([]*actor.PID, 0, len(group))
	for _, o := range group {
		if o.done != nil {
			close(o.done)
			continue
		}
		if byActor[o.pid] == nil {
			order = append(order, o.pid)
		}
		byActor[o.pid] = append(byActor[o.pid], o)
	}
	for _, pid := range order {
		l.sys.root.Send(pid, &committed{ops: byActor[pid]})
	}
}
