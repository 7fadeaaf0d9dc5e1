package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"purser/actors/decision"
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
	sweepAtOnce  = 1024 // expired claims removed per shard and round
)

// The parts cover every shard.
const _ = uint(-(ident.Shards % timerTurns))

// timerTurns returns a function whose calls fire the timers of one part of the shards after
// another.
func (s *System) timerTurns() func(context.Context) {
	turn := 0
	return func(context.Context) {
		const part = ident.Shards / timerTurns
		s.fireTimers(s.shards[turn*part : (turn+1)*part])
		turn = (turn + 1) % timerTurns
	}
}

// fireTimers wakes the actors of due timers. A timer stays in the journal until its actor's
// decision removes it, so a crash before that fires it again. A shard whose last round still runs
// is skipped, so that no shard waits for another.
func (s *System) fireTimers(shards []*shard) {
	for _, sh := range shards {
		if sh.firing.CompareAndSwap(false, true) {
			s.Go(func(ctx context.Context) {
				defer sh.firing.Store(false)
				s.fireShard(ctx, sh)
			})
		}
	}
}

func (s *System) fireShard(ctx context.Context, sh *shard) {
	due, err := s.dueTimers(ctx, sh)
	if err != nil && ctx.Err() == nil {
		s.Complain("timers", err, "shard", sh.id)
	}
	var wg sync.WaitGroup
	for _, t := range due {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s.FireTimer(ctx, t)
		}()
	}
	wg.Wait()
}

func (s *System) clockSuspect() bool { return s.config.ClockSuspect != nil && s.config.ClockSuspect() }

// asksAgain reports whether a timer only repeats a call to another party. Such timers fire while
// the clock is suspect.
func (s *System) asksAgain(t persistence.Timer) bool {
	kind := s.kinds[t.Kind]
	return kind != nil && kind.AsksAgain != nil && kind.AsksAgain(t.Key)
}

// dueTimers reads a shard's due timers and takes those of the workspaces in turn. When one read
// does not return all of them, the next round continues behind them, so that neither failing timers
// nor a workspace with many timers hide the others.
func (s *System) dueTimers(ctx context.Context, sh *shard) ([]persistence.Timer, error) {
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	select {
	case s.timerReads <- struct{}{}:
		defer func() { <-s.timerReads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	due, err := s.journal.Timers(ctx, sh.id, s.clock(), sh.timersAfter, timersRead)
	if err != nil {
		return nil, err
	}
	sh.timersAfter = persistence.Timer{}
	if len(due) == timersRead {
		sh.timersAfter = due[len(due)-1]
	}
	if s.clockSuspect() {
		due = slices.DeleteFunc(due, func(t persistence.Timer) bool { return !s.asksAgain(t) })
	}
	return timersInTurn(due, timersAtOnce), nil
}

// timersInTurn takes the first timer of each workspace, then the second of each, and so on, at most
// n.
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

// FireTimer has the actor of a timer decide it. The hooks take the actor's answer.
func (s *System) FireTimer(ctx context.Context, t persistence.Timer) {
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	reply, err := s.Ask(ctx, Envelope{Kind: t.Kind, Stream: t.Stream, Workspace: t.Workspace,
		Command: decision.Fire{Key: t.Key, Due: t.Due}})
	s.listener.Fired(t.Kind, err)
	if err != nil && ctx.Err() == nil {
		s.Complain("timer of a "+t.Kind, err, "key", t.Key)
	}
	if s.hooks.TimerAnswered != nil {
		s.hooks.TimerAnswered(t.Workspace, reply)
	}
}

// expireHolds expires due holds, which the authorizer finds in its own index.
func (s *System) expireHolds(ctx context.Context) {
	for ctx.Err() == nil && !s.clockSuspect() {
		n, err := s.authorizer.Expire(s.clock())
		if err != nil {
			s.log.Error("expire holds", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// housekeep trims the decision log and sweeps claims past their retention.
func (s *System) housekeep(ctx context.Context) {
	if s.hooks.Housekeep != nil {
		s.hooks.Housekeep(ctx)
	}
	if s.clockSuspect() {
		return
	}
	if err := s.authorizer.Trim(s.clock()); err != nil {
		s.log.Error("trim the decision log", "err", err)
	}
	for ctx.Err() == nil && !s.clockSuspect() {
		n, err := s.journal.Sweep(ctx, s.clock(), sweepAtOnce)
		if err != nil && ctx.Err() == nil {
			s.log.Error("sweep claims", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}
