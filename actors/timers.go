package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of the timer loop.
const (
	timersAtOnce = 128                 // timers of one shard fired in one round
	timersRead   = persistence.MaxPage // timers of one shard read in one round, before workspaces take turns
	timerTurns   = 16                  // parts of a round: visiting all shards at once would delay swipes
	timerReads   = 16                  // shards whose timers are read at a time
	timerTimeout = 10 * time.Second
)

// The parts cover every shard.
const _ = uint(-(ident.Shards % timerTurns))

// timerLoop fires due timers.
type timerLoop struct {
	*loops
	journal      persistence.Journal
	kinds        map[string]*Kind
	clockSuspect func() bool
	fire         func(context.Context, persistence.Timer)
	reads        chan struct{} // has a place for each shard whose timers are being read
}

// turns returns a function whose calls fire the timers of one part of the shards after another.
func (l *timerLoop) turns(shards []*shard) func(context.Context) {
	turn := 0
	return func(context.Context) {
		const part = ident.Shards / timerTurns
		l.fireShards(shards[turn*part : (turn+1)*part])
		turn = (turn + 1) % timerTurns
	}
}

// fireShards wakes the actors of due timers, in a goroutine for each shard that may have some. A
// timer stays in the journal until its actor's decision removes it, so a crash before that fires it
// again. A shard whose last round still runs is skipped, so that no shard waits for another.
func (l *timerLoop) fireShards(shards []*shard) {
	now := l.clock()
	for _, sh := range shards {
		if l.journal.TimersDue(sh.id, now) && sh.firing.CompareAndSwap(false, true) {
			l.Go(func(ctx context.Context) {
				defer sh.firing.Store(false)
				l.fireShard(ctx, sh)
			})
		}
	}
}

// fireShard runs one round of a shard: it fires at most timersAtOnce due timers at the same time
// and waits for them. A failed read is logged; the next round reads again.
func (l *timerLoop) fireShard(ctx context.Context, sh *shard) {
	due, err := l.dueTimers(ctx, sh)
	if err != nil && ctx.Err() == nil {
		l.Complain("timers", err, "shard", sh.id)
	}
	var wg sync.WaitGroup
	for _, t := range due {
		wg.Add(1)
		go func() {
			defer wg.Done()
			l.fire(ctx, t)
		}()
	}
	wg.Wait()
}

// asksAgain reports whether a timer only repeats a call to another party. Such timers fire while
// the clock is suspect.
func (l *timerLoop) asksAgain(t persistence.Timer) bool {
	kind := l.kinds[t.Kind]
	return kind != nil && kind.AsksAgain != nil && kind.AsksAgain(t.Key)
}

// dueTimers reads a shard's due timers and takes those of the workspaces in turn. When one read
// does not return all of them, the next round continues behind them, so that neither failing timers
// nor a workspace with many timers hide the others. It fails when the journal does not answer
// within timerTimeout.
func (l *timerLoop) dueTimers(ctx context.Context, sh *shard) ([]persistence.Timer, error) {
	ctx, cancel := l.Within(ctx, timerTimeout)
	defer cancel()
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	due, err := l.journal.Timers(ctx, sh.id, l.clock(), sh.timersAfter, timersRead)
	if err != nil {
		return nil, err
	}
	sh.timersAfter = persistence.Timer{}
	if len(due) == timersRead {
		sh.timersAfter = due[len(due)-1]
	}
	if l.clockSuspect() {
		due = slices.DeleteFunc(due, func(t persistence.Timer) bool { return !l.asksAgain(t) })
	}
	return timersInTurn(due, timersAtOnce), nil
}

// timersInTurn returns the first timer of each workspace, then the second of each, and so on, at
// most n.
func timersInTurn(due []persistence.Timer, n int) []persistence.Timer {
	if len(due) <= n {
		return due
	}
	before := make(map[string]int) // timers of a workspace in an earlier place
	turns := make([][]persistence.Timer, 0, n)
	for _, t := range due {
		turn := before[t.Workspace]
		before[t.Workspace]++
		if turn == len(turns) {
			turns = append(turns, nil)
		}
		turns[turn] = append(turns[turn], t)
	}
	return slices.Concat(turns...)[:n]
}
