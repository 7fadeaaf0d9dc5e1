package actors

import (
	"context"
	"errors"
	"time"

	"purser/actors/balance"
	"purser/persistence"
)

// Limits of reactions.
const (
	reactBatch    = 256 // events read at a time
	reactPause    = 200 * time.Millisecond
	reactPauseMax = 30 * time.Second
	reactTimeout  = 15 * time.Second
	reactLag      = reactBatch             // positions without a cause that may pass before the cursor is written
	reactRest     = 500 * time.Millisecond // and how long the shard is at rest before it is written all the same
)

// reaction is how one actor's event becomes another's command, or an outside partner's instruction. It has a durable cursor; what
// it does must be repeatable, for a crash between the deed and the cursor runs it again: the ids and once-keys of its
// commands derive from the event. It can not be refused for ever.
type reaction struct {
	name   string
	handle func(ctx context.Context, e persistence.Event) error
}

// reacting is how far a reaction is in a shard. A crash repeats what is after the saved position, which has no causes in it.
type reacting struct {
	sh        *shard
	reaction  reaction
	at, saved uint64
	owed      bool // what is between them may have a cause in it: the cursor is to be written with the next page
}

func (s *System) react(ctx context.Context, sh *shard, r reaction) {
	cursor, ok := s.reactionCursor(ctx, sh, r)
	p := &reacting{sh: sh, reaction: r, at: cursor, saved: cursor}
	for wait := reactPause; ok; {
		err := s.awaitCause(ctx, p)
		if err != nil && ctx.Err() != nil {
			return
		}
		from := p.at
		if err == nil {
			err = s.reactOnce(ctx, p)
		}
		if p.at > from {
			wait = reactPause
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

// awaitCause waits for the next event, and writes the cursor when none comes for a while.
func (s *System) awaitCause(ctx context.Context, p *reacting) error {
	if p.at == p.saved {
		return s.journal.Wait(ctx, p.sh.id, p.at)
	}
	within, cancel := context.WithTimeout(ctx, reactRest)
	err := s.journal.Wait(within, p.sh.id, p.at)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return s.saveReaction(ctx, p)
	}
	return err
}

func (s *System) saveReaction(ctx context.Context, p *reacting) error {
	err := s.journal.SaveCursor(ctx, "reaction/"+p.reaction.name, p.sh.id, p.at)
	if err == nil {
		p.saved, p.owed = p.at, false
	}
	return err
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

// reactOnce handles a page of events. Relayed decisions cause nothing; they are most of a busy journal, and for them alone no
// cursor is written.
func (s *System) reactOnce(ctx context.Context, p *reacting) error {
	events, err := s.journal.Events(ctx, p.sh.id, p.at, reactBatch)
	if err != nil {
		return err
	}
	for i := range events {
		if events[i].Type != (balance.Relayed{}).EventType() {
			p.owed = true
			if err = s.reactTo(ctx, p.reaction, events[i]); err != nil {
				break
			}
		}
		p.at = events[i].Position
	}
	if p.owed && p.at > p.saved || p.at-p.saved >= reactLag {
		if saved := s.saveReaction(ctx, p); err == nil {
			err = saved
		}
	}
	return err
}

func (s *System) reactTo(ctx context.Context, r reaction, e persistence.Event) error {
	within, cancel := context.WithTimeout(ctx, reactTimeout)
	defer cancel()
	err := r.handle(within, e)
	s.listener.Reacted(r.name, err)
	return err
}
