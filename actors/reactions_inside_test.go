package actors

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/ident"
	"purser/persistence"
)

// pages is a journal of one shard that notes the cursors it is given.
type pages struct {
	persistence.Journal
	events []persistence.Event
	saved  []uint64
	fails  error // of the next cursor
}

func (p *pages) Events(_ context.Context, _ ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	return p.events[past:min(past+uint64(limit), uint64(len(p.events)))], nil
}

func (p *pages) SaveCursor(_ context.Context, _ string, _ ident.Shard, position uint64) error {
	if err := p.fails; err != nil {
		p.fails = nil
		return err
	}
	p.saved = append(p.saved, position)
	return nil
}

func (p *pages) add(n int, eventType string) {
	for range n {
		p.events = append(p.events, persistence.Event{Type: eventType, Position: uint64(len(p.events)) + 1})
	}
}

// follow has the follower's part: it notes what was added.
func (p *pages) follow(c *causes) { c.note(p.events[c.through:]) }

// newReacting is a reaction of a shard whose events are in j.
func newReacting(j *pages, handle func(context.Context, persistence.Event) error) (*System, *shard, *reacting) {
	r := reaction{name: "x", events: []decision.Event{balance.DepositCreated{}}, handle: handle}
	sh := &shard{causes: causes{types: causing([]reaction{r, {name: "y", events: []decision.Event{agent.Registered{}}}})}}
	return &System{journal: j, listener: silent{}}, sh, &reacting{sh: sh, reaction: r}
}

// rested is awaitCause of a reaction for which there is nothing: it must write what it can and wait.
func rested(t *testing.T, s *System, p *reacting) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.awaitCause(ctx, p), context.Canceled)
}

// TestDecisionsAreNotReadByReactions: a reaction is woken for what may be a cause, and comes to it without reading the decisions
// and others before it that cause nothing; its cursor is written with the page of a cause, and when it is told that there was
// none.
func TestDecisionsAreNotReadByReactions(t *testing.T) {
	var handled []uint64
	refused := errors.New("refused")
	var answer error
	j := &pages{}
	s, sh, p := newReacting(j, func(_ context.Context, e persistence.Event) error {
		handled = append(handled, e.Position)
		return answer
	})
	decisions, other := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.add(2, decisions)
	j.add(1, card.LimitsChanged{}.EventType())
	j.follow(&sh.causes)
	require.True(t, sh.causes.untold())
	j.add(1, other)
	j.follow(&sh.causes)
	require.False(t, sh.causes.untold())
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.EqualValues(t, 3, p.at, "what it does not read is passed over")
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4}, j.saved)
	rested(t, s, p)
	require.Equal(t, []uint64{4}, j.saved, "it is written")

	j.add(2, decisions)
	j.add(1, other)
	j.follow(&sh.causes)
	answer = refused
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.ErrorIs(t, s.reactOnce(t.Context(), p), refused)
	require.EqualValues(t, 6, p.at, "what was refused comes again")
	require.Equal(t, []uint64{4, 6}, j.saved)

	answer = nil
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4, 7, 7}, handled)
	j.add(2, decisions)
	j.follow(&sh.causes)
	sh.causes.tell()
	rested(t, s, p)
	require.Equal(t, []uint64{4, 6, 7, 9}, j.saved)
	require.Equal(t, []uint64{4, 7, 7}, handled)
}

// TestSwipesAndLimitsCauseNothing: there are too many of them for a reaction to hear of each.
func TestSwipesAndLimitsCauseNothing(t *testing.T) {
	types := causing((&System{}).reactions())
	require.NotContains(t, types, balance.Relayed{}.EventType())
	require.NotContains(t, types, card.LimitsChanged{}.EventType())
}

// TestAnOwedCursorIsWrittenAgain: a cursor that could not be written after a cause is written before the reaction waits; else a
// crash would find the cause again behind ever more decisions.
func TestAnOwedCursorIsWrittenAgain(t *testing.T) {
	handled := 0
	j := &pages{}
	s, sh, p := newReacting(j, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	j.add(1, balance.DepositCreated{}.EventType())
	j.follow(&sh.causes)
	require.NoError(t, s.awaitCause(t.Context(), p))
	j.fails = persistence.ErrUnavailable
	require.ErrorIs(t, s.reactOnce(t.Context(), p), persistence.ErrUnavailable)
	require.EqualValues(t, 1, p.at)
	require.Empty(t, j.saved)

	j.fails = persistence.ErrUnavailable
	require.ErrorIs(t, s.awaitCause(t.Context(), p), persistence.ErrUnavailable)
	rested(t, s, p)
	require.Equal(t, []uint64{1}, j.saved)
	require.Equal(t, 1, handled, "the cause is not handled again for it")
}

// TestAReactionThatIsFarBehindReadsEverything: of what lies before the first event that was noted, and before the newest causes,
// nothing is known, so it is read.
func TestAReactionThatIsFarBehindReadsEverything(t *testing.T) {
	handled := 0
	j := &pages{}
	s, sh, p := newReacting(j, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	decisions, cause := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()
	causes := 0
	add := func(n int) {
		for range n {
			j.add(1, cause)
			j.add(2, decisions)
			causes++
		}
	}
	j.add(2*tellAfter, decisions)
	sh.causes.begin(uint64(len(j.events)))
	for p.at < 2*tellAfter {
		require.NoError(t, s.awaitCause(t.Context(), p))
		require.NoError(t, s.reactOnce(t.Context(), p))
	}
	require.Equal(t, []uint64{tellAfter, 2 * tellAfter}, j.saved, "a crash does not find all of it again")
	add(100)
	sh.causes.begin(uint64(len(j.events)))
	add(maxCauses + 100)
	j.follow(&sh.causes)
	for p.at < uint64(len(j.events))-2 {
		require.NoError(t, s.awaitCause(t.Context(), p))
		require.NoError(t, s.reactOnce(t.Context(), p))
	}
	rested(t, s, p)
	require.Equal(t, causes, handled)
	require.EqualValues(t, len(j.events), p.saved)
}

// TestDecisionsWakeReactionsNowAndThen: what a crash lets a reaction read again stays bounded.
func TestDecisionsWakeReactionsNowAndThen(t *testing.T) {
	j, c := &pages{}, &causes{types: map[string]bool{balance.DepositCreated{}.EventType(): true}}
	woken := func(told <-chan struct{}) bool {
		select {
		case <-told:
			return true
		default:
			return false
		}
	}
	_, _, told := c.after(0)
	j.add(tellAfter-1, balance.Relayed{}.EventType())
	j.follow(c)
	require.False(t, woken(told))
	j.add(1, balance.Relayed{}.EventType())
	j.follow(c)
	require.True(t, woken(told))
	require.False(t, c.untold())
	_, through, told := c.after(0)
	require.EqualValues(t, tellAfter, through)
	c.note([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: through + 1}})
	require.True(t, woken(told))
	next, _, _ := c.after(through)
	require.Equal(t, through+1, next)
	for position := through + 2; position < through+2*maxCauses; position++ {
		_, _, told = c.after(position - 1)
		c.note([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: position}})
		require.True(t, woken(told), "however many there are")
	}
}

// Wait is never past anything.
func (p *pages) Wait(ctx context.Context, _ ident.Shard, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestReactionsAreToldAtRest: decisions that nothing follows move the cursors all the same.
func TestReactionsAreToldAtRest(t *testing.T) {
	j := &pages{}
	_, sh, _ := newReacting(j, nil)
	s := &System{journal: j}
	_, _, told := sh.causes.after(0)
	j.add(1, balance.Relayed{}.EventType())
	j.follow(&sh.causes)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- s.awaitEvent(ctx, sh) }()
	<-told
	cancel()
	require.False(t, <-ended)
}

// TestEveryCauseIsHandledOnce: whatever the follower has noted when, wherever the reaction stood and whatever was refused, each
// cause is handled in its turn, and neither the place nor the cursor is ever past one that was not.
func TestEveryCauseIsHandledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var handled, causes []uint64
		refuses, j := false, &pages{}
		s, sh, p := newReacting(j, func(_ context.Context, e persistence.Event) error {
			if refuses = !refuses && rapid.IntRange(0, 9).Draw(rt, "refuses") == 0; refuses {
				return fault.New(fault.Unavailable, "")
			}
			handled = append(handled, e.Position)
			return nil
		})
		add := func(n int) {
			for range n {
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0, 1:
					j.add(1, balance.Relayed{}.EventType())
				case 2:
					j.add(1, card.LimitsChanged{}.EventType())
				default:
					j.add(1, balance.DepositCreated{}.EventType())
					causes = append(causes, uint64(len(j.events)))
				}
			}
		}
		add(rapid.IntRange(0, 40).Draw(rt, "before"))
		sh.causes.begin(uint64(rapid.IntRange(0, len(j.events)).Draw(rt, "begin")))
		p.at = uint64(rapid.IntRange(0, len(j.events)).Draw(rt, "cursor"))
		p.saved = p.at
		causes = slices.DeleteFunc(causes, func(at uint64) bool { return at <= p.at })
		look := func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			at := p.at
			if s.awaitCause(ctx, p) == nil {
				_ = s.reactOnce(t.Context(), p) // what is refused comes again
			}
			require.GreaterOrEqual(rt, p.at, at)
			require.True(rt, slices.Equal(causes[:len(handled)], handled), "each in its turn: %v of %v", handled, causes)
			if len(handled) < len(causes) {
				require.Less(rt, p.at, causes[len(handled)])
			}
			require.LessOrEqual(rt, p.saved, p.at)
		}
		for range rapid.IntRange(0, 30).Draw(rt, "moves") {
			switch rapid.IntRange(0, 2).Draw(rt, "move") {
			case 0:
				add(rapid.IntRange(0, 60).Draw(rt, "events"))
			case 1:
				if c := &sh.causes; c.through < uint64(len(j.events)) {
					c.note(j.events[c.through:min(c.through+uint64(rapid.IntRange(1, 50).Draw(rt, "page")), uint64(len(j.events)))])
				}
			default:
				look()
			}
		}
		if sh.causes.through < uint64(len(j.events)) {
			j.follow(&sh.causes)
		}
		for range 2*len(causes) + len(j.events)/reactBatch + 2 {
			look()
		}
		require.Equal(rt, len(causes), len(handled))
		require.EqualValues(rt, len(j.events), p.saved)
	})
}
