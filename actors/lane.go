package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"purser/persistence"
)

// Limits of a lane.
const (
	laneQueue      = 4096            // ops waiting for the next commit of a shard
	fenceTimeout   = 5 * time.Second // an ambiguous commit that is not resolved by then answers outcome_unknown
	fenceRetry     = 50 * time.Millisecond
	appendTimeout  = 10 * time.Second
	loadTimeout    = 5 * time.Second
	resolveTimeout = 2 * time.Second
)

// lane is the one writer of a shard. It takes all that waits as one group: under load a commit carries hundreds of commands.
type lane struct {
	sys   *System
	shard *shard
	queue chan *op
	epoch uint64
}

func newLane(sys *System, s *shard, epoch uint64) *lane {
	return &lane{sys: sys, shard: s, queue: make(chan *op, laneQueue), epoch: epoch}
}

// submit queues an op; false when the lane is full.
func (l *lane) submit(o *op) bool {
	select {
	case l.queue <- o:
		return true
	default:
		return false
	}
}

func (l *lane) run(ctx context.Context) {
	group := make([]*op, 0, persistence.MaxGroup)
	for {
		var again <-chan time.Time
		if l.shard.lost.Load() {
			again = time.After(fenceRetry) // nothing can be loaded before the fence, so nobody would ask for it
		}
		select {
		case o := <-l.queue:
			group = l.gather(append(group[:0], o))
		case <-again:
			l.fence(ctx, fenceRetry)
			continue
		case <-ctx.Done():
			return
		}
		l.commit(ctx, group)
		l.deliver(group)
		clear(group)
	}
}

func (l *lane) gather(group []*op) []*op {
	for len(group) < persistence.MaxGroup {
		select {
		case o := <-l.queue:
			group = append(group, o)
		default:
			return group
		}
	}
	return group
}

func (l *lane) commit(ctx context.Context, group []*op) {
	if l.shard.lost.Load() && !l.fence(ctx, fenceRetry) {
		l.failAll(group, persistence.ErrUnavailable)
		return
	}
	batches := make([]*persistence.Batch, len(group))
	for i, o := range group {
		batches[i] = o.batch
	}
	within, cancel := context.WithTimeout(ctx, appendTimeout)
	outcomes, err := l.sys.journal.Append(within, l.shard.id, l.epoch, l.sys.clock(), batches)
	cancel()
	l.sys.listener.Committed(len(group), err)
	switch {
	case err == nil:
		for i, o := range group {
			o.outcome = outcomes[i]
		}
	case errors.Is(err, persistence.ErrAmbiguous):
		l.resolve(ctx, group)
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

// resolve finds out what became of a group whose commit was interrupted: first the fence, only then the truth.
func (l *lane) resolve(ctx context.Context, group []*op) {
	l.shard.lost.Store(true)
	if !l.fence(ctx, l.sys.config.FenceWithin) {
		l.failAll(group, persistence.ErrAmbiguous)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	for _, o := range group {
		o.outcome = l.truth(ctx, o.batch)
	}
}

// truth reads whether a batch is in the journal. The lane is the shard's only writer and has appended nothing since, so the version
// of the state record, or the batch's own once-key, tells.
func (l *lane) truth(ctx context.Context, b *persistence.Batch) persistence.Outcome {
	committed := persistence.Outcome{Last: l.sys.journal.Head(l.shard.id).Position}
	if n := len(b.Events); n > 0 {
		last := b.Events[n-1]
		record, err := l.sys.journal.Record(ctx, b.Slot, last.Kind, last.Stream)
		switch {
		case errors.Is(err, persistence.ErrNotFound):
			return persistence.Outcome{Err: persistence.ErrVersion}
		case err != nil:
			return persistence.Outcome{Err: persistence.ErrAmbiguous}
		case record.Version >= last.Version:
			return committed
		}
		return persistence.Outcome{Err: persistence.ErrVersion}
	}
	if len(b.Onces) == 0 {
		return persistence.Outcome{Err: persistence.ErrAmbiguous}
	}
	want := b.Onces[0]
	got, ok, err := l.sys.journal.Once(ctx, l.shard.id, want.Scope, want.Hash, l.sys.clock())
	switch {
	case err != nil:
		return persistence.Outcome{Err: persistence.ErrAmbiguous}
	case ok && got.Fingerprint == want.Fingerprint:
		return committed
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
