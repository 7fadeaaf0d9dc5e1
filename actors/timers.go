package actors

import (
	"context"
	"sync"
	"time"

	"purser/actors/decision"
	"purser/persistence"
)

// Limits of the timer loop.
const (
	timersAtOnce = 128 // timers of one shard fired in one round
	timerTimeout = 10 * time.Second
	sweepAtOnce  = 1024 // expired claims removed per shard and round
)

// fireTimers wakes the actors whose timers are due. A timer lives in the journal until the actor's decision removes it, so that a
// crash between due and done fires it again.
func (s *System) fireTimers(ctx context.Context) {
	for _, sh := range s.shards {
		due, err := s.journal.Timers(ctx, sh.id, s.clock(), timersAtOnce)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Error("timers", "shard", sh.id, "err", err)
			}
			return
		}
		var wg sync.WaitGroup
		for _, t := range due {
			wg.Add(1)
			go func() {
				defer wg.Done()
				s.fire(ctx, t)
			}()
		}
		wg.Wait()
	}
}

func (s *System) fire(ctx context.Context, t persistence.Timer) {
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	_, err := s.Ask(ctx, Envelope{Kind: t.Kind, Stream: t.Stream, Workspace: t.Workspace, Command: decision.Fire{Key: t.Key, Due: t.Due}})
	if err != nil && ctx.Err() == nil {
		s.log.Error("timer", "kind", t.Kind, "key", t.Key, "err", err)
	}
}

// expireHolds ends the holds that have run out. The due index is the authorizer's own.
func (s *System) expireHolds(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := s.authorizer.Expire(s.clock())
		if err != nil {
			s.log.Error("expire holds", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// housekeep trims what is past its retention.
func (s *System) housekeep(ctx context.Context) {
	if err := s.authorizer.Trim(s.clock()); err != nil {
		s.log.Error("trim the decision log", "err", err)
	}
	for ctx.Err() == nil {
		n, err := s.journal.Sweep(ctx, s.clock(), sweepAtOnce)
		if err != nil && ctx.Err() == nil {
			s.log.Error("sweep claims", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}
