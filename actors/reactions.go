package actors

import (
	"context"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/persistence"
)

// Limits of reactions.
const (
	reactBatch    = 64 // events read at a time: causes come alone, and what follows them is mostly none
	reactPause    = 200 * time.Millisecond
	reactPauseMax = 30 * time.Second
	reactTimeout  = 15 * time.Second
)

// reaction is how one actor's event becomes another's command, or an outside partner's instruction. It has a durable cursor; what
// it does must be repeatable, for a crash between the deed and the cursor runs it again: the ids and once-keys of its
// commands derive from the event. It can not be refused for ever.
type reaction struct {
	name   string
	events []decision.Event // zero values of the types that cause it: it hears of no other
	handle func(ctx context.Context, e persistence.Event) error
}

// reacting is how far a reaction is in a shard. A crash repeats what is after the saved position.
type reacting struct {
	sh        *shard
	reaction  reaction
	at, saved uint64
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

// awaitCause waits until the next event may be a cause. While there is none, the cursor is written whenever it can be moved.
func (s *System) awaitCause(ctx context.Context, p *reacting) error {
	for {
		next, through, told := p.sh.causes.after(p.at)
		if next > 0 {
			p.at = next - 1
			return nil
		}
		if p.at = through; p.at > p.saved {
			if err := s.saveReaction(ctx, p); err != nil {
				return err
			}
		}
		select {
		case <-told:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *System) saveReaction(ctx context.Context, p *reacting) error {
	err := s.journal.SaveCursor(ctx, "reaction/"+p.reaction.name, p.sh.id, p.at)
	if err == nil {
		p.saved = p.at
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

func (r *reaction) causedBy(e *persistence.Event) bool {
	return slices.ContainsFunc(r.events, func(of decision.Event) bool { return of.EventType() == e.Type })
}

// reactOnce handles a page of events, and writes the cursor if one of them was a cause, or after many that were none.
func (s *System) reactOnce(ctx context.Context, p *reacting) error {
	events, err := s.journal.Events(ctx, p.sh.id, p.at, reactBatch)
	if err != nil {
		return err
	}
	caused := false
	for i := range events {
		if p.reaction.causedBy(&events[i]) {
			caused = true
			if err = s.reactTo(ctx, p.reaction, events[i]); err != nil {
				break
			}
		}
		p.at = events[i].Position
	}
	if caused && p.at > p.saved || p.at-p.saved >= tellAfter {
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
