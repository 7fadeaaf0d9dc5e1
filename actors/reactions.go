package actors

import (
	"context"
	"time"

	"purser/persistence"
)

// Limits of reactions.
const (
	reactBatch    = 256 // events read at a time
	reactPause    = 200 * time.Millisecond
	reactPauseMax = 30 * time.Second
	reactTimeout  = 15 * time.Second
)

// reaction is how one actor's event becomes another's command, or an outside partner's instruction. It has a durable cursor; what
// it does must be repeatable, for a crash between the deed and the cursor runs it again: the ids and once-keys of its
// commands derive from the event. It can not be refused for ever.
type reaction struct {
	name   string
	handle func(ctx context.Context, e persistence.Event) error
}

func (s *System) react(ctx context.Context, sh *shard, r reaction) {
	cursor, ok := s.reactionCursor(ctx, sh, r)
	for wait := reactPause; ok; {
		if s.journal.Wait(ctx, sh.id, cursor) != nil && ctx.Err() != nil {
			return
		}
		next, err := s.reactOnce(ctx, sh, r, cursor)
		if next > cursor {
			cursor, wait = next, reactPause
		}
		if err != nil {
			if ctx.Err() == nil {
				s.complain("reaction "+r.name, err, "shard", sh.id)
			}
			ok = pause(ctx, wait)
			wait = min(2*wait, reactPauseMax)
		}
	}
}

func (s *System) reactionCursor(ctx context.Context, sh *shard, r reaction) (uint64, bool) {
	for {
		cursor, err := s.journal.Cursor(ctx, "reaction/"+r.name, sh.id)
		if err == nil {
			return cursor, true
		}
		if ctx.Err() == nil {
			s.complain("cursor of reaction "+r.name, err, "shard", sh.id)
		}
		if !pause(ctx, reactPause) {
			return 0, false
		}
	}
}

// reactOnce handles a page of events and returns how far it came.
func (s *System) reactOnce(ctx context.Context, sh *shard, r reaction, cursor uint64) (uint64, error) {
	events, err := s.journal.Events(ctx, sh.id, cursor, reactBatch)
	if err != nil {
		return cursor, err
	}
	start := cursor
	for _, e := range events {
		within, cancel := context.WithTimeout(ctx, reactTimeout)
		err = r.handle(within, e)
		cancel()
		s.listener.Reacted(r.name, err)
		if err != nil {
			break
		}
		cursor = e.Position
	}
	if cursor > start {
		if saved := s.journal.SaveCursor(ctx, "reaction/"+r.name, sh.id, cursor); err == nil {
			err = saved
		}
	}
	return cursor, err
}
